//! What a read costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! # Model
//! As in `sizes`: doublings of sequential reads, and the line through those of the definition. A pause after each read lets the
//! device end what belongs to it, as it does before it answers where nothing disturbs it; so reads are done with pauses and
//! without. What is read ahead meanwhile would show: a pause that makes reads faster is left out.
//!
//! # Method
//! 1. All sizes some times, up to saturation; then with pauses and without, alternating.
//! 2. Turns of all that is not clear, each time from another place on: doublings until each is on one side of 2.5 %, and the
//!    sizes of the line, each as long as it is of use, until A is exact enough or the time is used up.
//!
//! A device that is read only may hold no data, which is read without the flash: then everything is in doubt.

use crate::signals::sizes::{
    IoKind, LINE_FROM, LINE_TO, PAUSE, READS_OFF, SizeCurve, between, fit, growth, lines,
};
use crate::signals::statistics::{mean, upper_median};
use flashlab_analysis::DOUBLING_GAIN;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Time};

use crate::answers::cost_per_io::cost;
use crate::answers::size_pictures::throughput;
use crate::caps;
use crate::halt::Halt;
use crate::patterns::{ios, responses};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;

pub(crate) const PROBE: Probe = Probe {
    name: "large-reads",
    about: "sequential reads of doubling size: what is the fixed cost of a read, and from which size do larger ones not help?",
    parameters: &[Parameter::ReadCostPerIo, Parameter::ReadSaturationSize],
    hands_in: &[],
    write_share: 0.0,
};

/// The largest size.
const SIZE_MAX: Bytes = Bytes::mib(16);
/// The fewest and the most reads of a run, and of one that is a first look, with about this much of large ones.
const RUN_READS: (u64, u64) = (7, 2048);
const LOOK_READS: u64 = 48;
/// Reads of each small size before it is looked at what is of use.
const SMALL_READS: u64 = 96;
const LOOK_BYTES: Bytes = Bytes::mib(8);
/// The most that is read in all.
const ALL_BYTES: Bytes = Bytes::gib(24);
/// A doubling that brings what the limit is, but for this much, may be taken for either by what is beside the flash.
const CLOSE: f64 = 0.004;
/// The rules of the size: beyond that, where it is that close or the device may read ahead (what that brings depends on how
/// late the host is), and where the limit is in an interval or throughput is not steady from there on.
const CLEAR: Rule = Rule::strong("growth");
const NEARLY_CLEAR: Rule = Rule::strong("growth near the limit");
const UNCLEAR: Rule = Rule::likely("growth across the limit");
/// The share of all time for reading that it may take, and of what is left of it.
const TIME_SHARE: f64 = 0.6;
const TIME_LEFT: f64 = 0.97;
/// Turns in that time, and the first after which it is looked at what is of use.
const TURNS: f64 = 64.0;
const TURNS_FIRST: u64 = 2;
/// The share of a turn for doublings that are not clear.
const FOR_GROWTH: f64 = 0.25;
/// Runs of each kind that show whether pauses make reads faster.
const PAUSE_RUNS: u64 = 4;
/// Pauses make reads faster if these take less than this share of the time without pauses. Reads that wait for the one before save
/// less. Higher: reads with pauses are left out for no reason; lower: what a device reads ahead in a pause is taken for a lower A.
const PAUSE_PAYS: f64 = 0.95;
/// A doubling is clear enough if its growth is known so well.
const GROWTH_KNOWN: f64 = 0.003;
/// The probe reads no more for A once the chance that A is right exceeds this. Lower: the probe ends before A is exact.
const ENOUGH: f64 = 0.9999;
/// A kind of reads gets no more time for A if the half width of A's interval will be more than this share of A at the end.
/// First where all reads are without pauses; then where there are reads with pauses too, because A lies anywhere between both.
const NO_USE: [f64; 2] = [0.12, 0.4];
/// The confidence of answers on a device that may hold no data.
const UNCLEAR_RULE: Rule = Rule::strong("no data").capped(caps::NO_DATA);

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let begin = session.time_left();
    let limit = (session.reading_time().0 as f64 * TIME_SHARE).min(begin.0 as f64 * TIME_LEFT);
    let curves = first_look(session)?;
    if curves.len() < 3 {
        return Err(Halt::Misfit("it has no space for large reads".to_owned()));
    }
    let mut reading = Reading { place: 0, read: Bytes::ZERO };
    // Reads that did not wait for the one before are a first guess of those with pauses.
    let guess = |curve: &SizeCurve| SizeCurve { times: vec![upper_median(&curve.times)], ..*curve };
    let guesses = curves.iter().map(guess).collect();
    let is_free = reading.pauses_are_free(session, &curves)?;
    let mut kinds = vec![kind_of_reads(curves, 0.0)];
    if is_free {
        kinds.push(kind_of_reads(guesses, PAUSE));
    }
    for turn in 1_u64.. {
        for kind in &mut kinds {
            reading.turn(session, kind)?;
        }
        let used = begin.since(session.time_left()).0 as f64;
        let times = limit / used.max(1.0);
        let is_known = chance(&kinds) > ENOUGH;
        let no_use = NO_USE[kinds.len() - 1];
        let all = kinds.iter().enumerate();
        let wanted: Vec<Vec<f64>> =
            all.map(|(index, kind)| wanted(kind, index == 0, (!is_known).then_some(no_use), times)).collect();
        let more = wanted.iter().flatten().any(|&share| share > 0.0) || turn < TURNS_FIRST;
        let next = limit / TURNS;
        if !more || used + next > limit || reading.read > ALL_BYTES {
            break;
        }
        let each = next / kinds.len() as f64;
        for (kind, wanted) in kinds.iter_mut().zip(wanted) {
            for ((due, curve), share) in kind.budget.iter_mut().zip(&kind.curves).zip(wanted) {
                *due += share * each / (upper_median(&curve.times).max(1.0) * (1.0 + kind.pause));
            }
        }
    }
    conclude(session, &kinds);
    Ok(())
}

/// None is done yet, and some of each size are due. Without pauses small reads wait for the ones before, and are on no line.
fn kind_of_reads(curves: Vec<SizeCurve>, pause: f64) -> IoKind {
    let few = |curve: &SizeCurve| if curve.size <= LINE_FROM { SMALL_READS } else { RUN_READS.0 };
    let budget = curves.iter().map(|curve| few(curve) as f64).collect();
    IoKind { pause, curves, smaller: pause > 0.0, budget }
}

/// Which share of a turn each size is worth, when `times` as many reads can be done: those of doublings up to saturation
/// that are not clear, and those of the line unless A is known, or will not be.
fn wanted(kind: &IoKind, for_growth: bool, no_use: Option<f64>, times: f64) -> Vec<f64> {
    let points = kind.points();
    let mut shares = vec![0.0; kind.curves.len()];
    if for_growth {
        let growths: Vec<Interval> = points.windows(2).map(|pair| growth(&pair[0], &pair[1])).collect();
        // Behind the last one that pays, which in stairs is not the first one.
        let pays = growths.iter().rposition(|growth| growth.low >= DOUBLING_GAIN).map_or(0, |last| last + 1);
        let until = (pays..growths.len()).find(|&index| growths[index].high < DOUBLING_GAIN);
        let until = until.unwrap_or(growths.len());
        let is_open = |growth: &Interval| {
            growth.low < DOUBLING_GAIN
                && growth.high > DOUBLING_GAIN
                && growth.high - growth.low > 2.0 * GROWTH_KNOWN
        };
        let open: Vec<usize> = (0..until).filter(|&index| is_open(&growths[index])).collect();
        for &index in &open {
            for share in &mut shares[index..index + 2] {
                *share += FOR_GROWTH / (2.0 * open.len() as f64);
            }
        }
    }
    if let Some(no_use) = no_use
        && let Some(fit) = fit(&points, kind.smaller, times)
        && fit.half_width_at_least() < no_use * times.sqrt()
    {
        let rest = 1.0 - shares.iter().sum::<f64>();
        shares.iter_mut().zip(fit.shares(&points)).for_each(|(share, of_line)| *share += rest * of_line);
    }
    shares
}

/// The chance that what is known of A is right.
fn chance(kinds: &[IoKind]) -> f64 {
    let [plain, paused] = lines(kinds);
    between(plain.as_ref(), paused.as_ref(), Some(READS_OFF)).map_or(0.0, |(_, chance)| chance)
}

/// Reads of doubling size, until doubling them has brought nothing twice, and the line has all its sizes.
fn first_look(session: &mut Session<'_, '_>) -> Result<Vec<SizeCurve>, Halt> {
    let mut curves: Vec<SizeCurve> = Vec::new();
    let mut size = Bytes::kib(4).max(session.block());
    let mut reading = Reading { place: 0, read: Bytes::ZERO };
    while size <= SIZE_MAX && size.0 * 8 <= session.capacity().0 {
        let mut curve = SizeCurve::new(size);
        reading.run(session, &mut curve, (LOOK_BYTES.0 / size.0).clamp(RUN_READS.0, LOOK_READS), 0.0)?;
        curves.push(curve);
        let grows = |pair: &[SizeCurve]| {
            2.0 * upper_median(&pair[0].times) >= DOUBLING_GAIN * upper_median(&pair[1].times)
        };
        if size > LINE_TO && !curves.windows(2).rev().take(2).any(grows) {
            break;
        }
        size = size * 2;
    }
    Ok(curves)
}

/// How reads go on.
struct Reading {
    /// Which run it is.
    place: u64,
    /// All that was read.
    read: Bytes,
}

impl Reading {
    /// The reads that are due, of sizes of which there are enough of them.
    fn turn(&mut self, session: &mut Session<'_, '_>, kind: &mut IoKind) -> Result<(), Halt> {
        let all = kind.curves.iter_mut().zip(&mut kind.budget);
        for (curve, due) in all.filter(|(_, due)| **due >= RUN_READS.0 as f64) {
            let count = (*due as u64).min(RUN_READS.1);
            *due = (*due - count as f64).min(RUN_READS.1 as f64);
            match self.run(session, curve, count, kind.pause) {
                // What was read until then says what it says.
                Err(Halt::Time) => break,
                others => others?,
            }
        }
        Ok(())
    }

    /// A run of reads, without the first one, which does not follow another; after each a pause, as a share of what it takes.
    fn run(
        &mut self,
        session: &mut Session<'_, '_>,
        curve: &mut SizeCurve,
        count: u64,
        pause: f64,
    ) -> Result<(), Halt> {
        let capacity = session.capacity();
        let count = count.min(capacity.0 / curve.size.0 / 2);
        let length = curve.size * count;
        self.place += 1;
        let offset = length * (self.place * 7 % (capacity.0 / length.0).max(1));
        let mut pattern = ios(Mode::Read, Location::Sequential, curve.size, count);
        pattern.first.target_offset = offset;
        if pause > 0.0 {
            pattern.first.time = Time::Pause { pause: Nanos((pause * upper_median(&curve.times)) as u64) };
        }
        self.read += length;
        curve.times.extend(responses(&session.run("sequential-reads", &pattern)?).into_iter().skip(1));
        Ok(())
    }

    /// Whether reads of the line's sizes are not faster for what the device does in a pause.
    fn pauses_are_free(&mut self, session: &mut Session<'_, '_>, curves: &[SizeCurve]) -> Result<bool, Halt> {
        if session.known().bytes(Parameter::ReadAheadSize) == Some(Bytes::ZERO) {
            return Ok(true);
        }
        let mut ratios = Vec::new();
        for curve in curves.iter().filter(|curve| curve.size <= LINE_TO).step_by(2) {
            let [mut with, mut without] = [(); 2].map(|()| SizeCurve::new(curve.size));
            with.times.push(upper_median(&curve.times));
            for _ in 0..PAUSE_RUNS {
                self.run(session, &mut without, RUN_READS.0, 0.0)?;
                self.run(session, &mut with, RUN_READS.0, PAUSE)?;
            }
            ratios.push(
                (upper_median(&with.times) / upper_median(&without.times).max(1.0))
                    .max(f64::MIN_POSITIVE)
                    .ln(),
            );
        }
        Ok(mean(&ratios) > PAUSE_PAYS.ln() && ratios.iter().all(|&ratio| ratio > 2.0 * PAUSE_PAYS.ln()))
    }
}

/// The first size from which doubling brings less, and no larger one more, and its rule.
fn saturation(growths: &[Interval]) -> Option<(usize, Rule)> {
    let is_less = |growth: &Interval| growth.estimate < DOUBLING_GAIN;
    // In stairs a later doubling leads above the throughput of this size, clearly; one that makes good for a fall before it does not.
    let rises_later = |index: usize| {
        let mut throughput = growths[index].estimate;
        growths[index + 1..].iter().any(|growth| {
            throughput *= growth.estimate;
            growth.low >= DOUBLING_GAIN && throughput >= DOUBLING_GAIN
        })
    };
    let index = (0..growths.len()).find(|&index| is_less(&growths[index]) && !rises_later(index))?;
    let clear = |growth: &Interval| match if is_less(growth) {
        DOUBLING_GAIN - growth.high
    } else {
        growth.low - DOUBLING_GAIN
    } {
        beyond if beyond > CLOSE => CLEAR,
        beyond if beyond > 0.0 => NEARLY_CLEAR,
        _ => UNCLEAR,
    };
    // Where it grows again, or falls, the size is not all that counts.
    let steady = |growth: &Interval| (2.0 - DOUBLING_GAIN..DOUBLING_GAIN).contains(&growth.estimate);
    let is_steady = !growths[..index].iter().any(is_less) && growths[index..].iter().all(steady);
    let basis = growths[..=index].iter().map(clear).fold(CLEAR, Rule::min);
    Some((index, if is_steady { basis } else { UNCLEAR }))
}

fn conclude(session: &mut Session<'_, '_>, kinds: &[IoKind]) {
    let curves = &kinds[0].curves;
    let reads_ahead = session.known().bytes(Parameter::ReadAheadSize) != Some(Bytes::ZERO);
    let most = match session.holds_data() {
        true if reads_ahead => NEARLY_CLEAR,
        true => CLEAR,
        false => UNCLEAR_RULE,
    };
    let points = kinds[0].points();
    let growths: Vec<Interval> = points.windows(2).map(|pair| growth(&pair[0], &pair[1])).collect();
    let picture = throughput("sequential reads", curves);
    let percent = |growth: &Interval| (growth.estimate - 1.0) * 100.0;
    if let Some((index, basis)) = saturation(&growths) {
        let size = Bytes(points[index].x as u64);
        let mut evidence = format!(
            "Reads twice as large as {size} change the throughput by {:.1} %",
            percent(&growths[index])
        );
        match index.checked_sub(1) {
            Some(before) => {
                evidence +=
                    &format!("; doubling from half of it changes it by {:.1} %.", percent(&growths[before]))
            }
            None => evidence.push('.'),
        }
        let finding = Rule::found(Parameter::ReadSaturationSize, size, basis.min(most), evidence);
        session.conclude(finding.with(picture.mark(size.0 as f64, "saturated")));
    } else {
        let evidence =
            format!("The throughput still grows at the largest reads, of {}.", curves[curves.len() - 1].size);
        session.conclude(Finding::undetermined(Parameter::ReadSaturationSize, evidence).with(picture));
    }
    let [plain, paused] = lines(kinds);
    let cost =
        cost(Parameter::ReadCostPerIo, "sequential reads", plain.as_ref(), paused.as_ref(), Some(READS_OFF));
    session.conclude(cost);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Growths that are known to half a per cent.
    fn saturation_of(growths: &[f64]) -> Option<(usize, Rule)> {
        let known = |&estimate: &f64| Interval { estimate, low: estimate - 0.005, high: estimate + 0.005 };
        saturation(&growths.iter().map(known).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_larger_brings_more() {
        assert_eq!(saturation_of(&[1.8, 1.2, 1.01, 1.0]), Some((2, CLEAR)));
        assert_eq!(saturation_of(&[1.8, 1.027, 1.01, 1.0]), Some((2, CLEAR.min(UNCLEAR))));
        // A stair, and a fall that is made good.
        assert_eq!(saturation_of(&[1.8, 1.01, 1.4, 1.01, 1.0]), Some((3, UNCLEAR)));
        assert_eq!(saturation_of(&[1.8, 1.01, 0.7, 1.4, 1.0]), Some((1, UNCLEAR)));
        assert_eq!(saturation_of(&[1.8, 1.01, 1.4]), None);
    }
}
