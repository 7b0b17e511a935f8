//! Finds the fixed cost of a read, and the size from which larger reads do not help.
//!
//! # Model
//! As in [`sizes`](crate::signals::sizes): sequential reads of doubling size, and the line through the sizes of the
//! definition. A pause after each read lets the device complete what belongs to it, so there are reads with pauses
//! and without. If a pause makes reads faster, the device reads ahead in it, and reads with pauses are left out.
//!
//! # Method
//! 1. All sizes some times, up to saturation; then with pauses and without, alternating.
//! 2. Rounds over all that is not clear, each at another offset: doublings until each is on one side of 2.5 %, and
//!    the sizes of the line, until A is exact enough or the time is used up.
//!
//! # Invariants
//! - A device that is only read may hold no data, and may answer without the flash: then all answers are doubtful.

use crate::signals::sizes::{
    IoKind, LINE_FROM, LINE_TO, PAUSE_SHARE, READS_OFF, SizeCurve, between, fit, growth, lines,
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

/// The largest read. Source: choice. Too large: the first look takes longer; too small: saturation is not
/// reached.
const SIZE_MAX: Bytes = Bytes::mib(16);
/// The fewest and the most reads of a run. Unit: reads. Source: derivation: 7 give a median its interval. Too
/// many: drift within a run; too few: the median has no error.
const RUN_READS: (u64, u64) = (7, 2048);
/// The most reads of a size in the first look. Unit: reads. Source: choice. Too many: the first look takes
/// longer; too few: the first line is far off.
const LOOK_READS: u64 = 48;
/// The first reads of small sizes with pauses or without. Unit: reads. Source: choice. Too many: time for the
/// line is used up; too few: the first line is far off.
const SMALL_READS: u64 = 96;
/// About how much of each size the first look reads. Source: choice. Too large: the first look takes longer;
/// too small: few large reads.
const LOOK_BYTES: Bytes = Bytes::mib(8);
/// The most that the probe reads. Source: choice. Too large: the probe takes longer on fast devices; too
/// small: A stays undetermined.
const ALL_BYTES: Bytes = Bytes::gib(24);
/// A growth this close to the limit may be on either side, as the transport has a part in it. Unit: share of
/// the throughput. Source: tuned. Too large: clear answers count as doubtful; too small: wrong ones count as
/// clear.
const CLOSE_TO_LIMIT: f64 = 0.004;
/// The rules of the saturation size: clearly beyond the limit; that close to it, or on a device that may read
/// ahead; with the limit in an interval, or without a steady throughput from there on.
const CLEAR: Rule = Rule::strong("growth");
const NEARLY_CLEAR: Rule = Rule::strong("growth near the limit");
const UNCLEAR: Rule = Rule::likely("growth across the limit");
/// The share of all time for reading that the probe may take. Unit: share. Source: choice. Too high: later
/// probes have no time; too low: A stays undetermined.
const TIME_SHARE: f64 = 0.6;
/// The same of the time that is left. Unit: share. Source: choice. Too high: the conclusion has no time; too
/// low: time is left over.
const TIME_LEFT: f64 = 0.97;
/// The rounds into which the time is divided. Unit: rounds. Source: choice. Too many: runs are short; too
/// few: drift decides.
const ROUNDS: f64 = 64.0;
/// The fewest rounds. Unit: rounds. Source: derivation: the first one has no median before it. Too many:
/// clear devices take longer; too few: the first round decides.
const ROUNDS_LEAST: u64 = 2;
/// The share of a round for doublings that are not clear. Unit: share. Source: choice. Too high: A is less
/// exact; too low: saturation stays undetermined.
const GROWTH_SHARE: f64 = 0.25;
/// The runs with pauses and without that show whether a pause makes reads faster. Unit: runs. Source: choice.
/// Too many: the probe takes longer; too few: drift decides.
const PAUSE_RUNS: u64 = 4;
/// Pauses make reads faster if these take less than this share of the time without. Reads that wait for the
/// one before save less. Unit: share. Source: tuned. Too high: reads with pauses are left out for no reason;
/// too low: what a device reads ahead in a pause makes A too low.
const PAUSE_PAYS: f64 = 0.95;
/// A doubling is clear once its growth is known to this. Unit: share of the throughput. Source: tuned. Too
/// high: the wrong size is reported; too low: time for A is used up.
const GROWTH_ERROR: f64 = 0.003;
/// The probe ends once A is right with this probability. Unit: probability. Source: choice. Too high: the
/// time is used up for no reason; too low: the probe ends before A is exact.
const CHANCE_ENOUGH: f64 = 0.9999;
/// A kind of reads gets no more time if A's interval will stay wider than this: the half width as a share of A.
/// The first value is for reads without pauses alone. With pauses too, A lies anywhere between both kinds.
/// Unit: share. Source: tuned. Too high: time is used up for no answer; too low: slow devices have no answer.
const HOPELESS_WIDTH: [f64; 2] = [0.12, 0.4];
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
        kinds.push(kind_of_reads(guesses, PAUSE_SHARE));
    }
    for turn in 1_u64.. {
        for kind in &mut kinds {
            reading.turn(session, kind)?;
        }
        let used = begin.since(session.time_left()).0 as f64;
        let times = limit / used.max(1.0);
        let is_known = chance(&kinds) > CHANCE_ENOUGH;
        let no_use = HOPELESS_WIDTH[kinds.len() - 1];
        let all = kinds.iter().enumerate();
        let wanted: Vec<Vec<f64>> =
            all.map(|(index, kind)| wanted(kind, index == 0, (!is_known).then_some(no_use), times)).collect();
        let more = wanted.iter().flatten().any(|&share| share > 0.0) || turn < ROUNDS_LEAST;
        let next = limit / ROUNDS;
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

/// The share of a round that each size is worth, when `times` as many reads can be done. Doublings up to
/// saturation get a share until they are clear. The sizes of the line get one until A is known, or hopeless.
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
                && growth.high - growth.low > 2.0 * GROWTH_ERROR
        };
        let open: Vec<usize> = (0..until).filter(|&index| is_open(&growths[index])).collect();
        for &index in &open {
            for share in &mut shares[index..index + 2] {
                *share += GROWTH_SHARE / (2.0 * open.len() as f64);
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
                self.run(session, &mut with, RUN_READS.0, PAUSE_SHARE)?;
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
        beyond if beyond > CLOSE_TO_LIMIT => CLEAR,
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
