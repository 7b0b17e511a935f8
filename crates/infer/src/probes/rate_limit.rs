//! Finds a limit of IOs or bytes a second, as that of a cloud volume, behind which no flash can be seen.
//!
//! # Model
//! As in [`rate_limit`](crate::signals::rate_limit): after idle time a limit lets reads pass faster than in a long run,
//! and in a long run it has one rate for all sizes and places.
//!
//! # Method
//! 1. After idle time random reads run with many in flight, until they pass at a rate that is clearly lower than in
//!    the beginning, or the saved time must be used up.
//! 2. Without more idle time, reads of two sizes run on the whole device and in a small part.
//! 3. Both are repeated. If the first round shows nothing faster after idle time, the others begin without it.
//!
//! # Invariants
//! - The probe only reads. So it says the same of a device that may not be written to.
//! - If one of the conditions fails, the device counts as flash: a limit that is overlooked costs less than a drive that is denied.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos, Sample};

use crate::halt::Halt;
use crate::patterns::reads::Walk;
use crate::priors::{DIES_IDLE, DIES_MOST, SMALL_IO};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::signals::rate_limit::{
    Counted, KindRate, LimitRound, SeenLimit, is_burst, rate_after_idle, rate_of_run, seen_limit,
};
use crate::thresholds::PERIODS_LEAST;
use crate::virtual_disk::behind_a_limit;
use crate::words::{rate, times};

pub(crate) const PROBE: Probe = Probe {
    name: "rate-limit",
    about: "random reads of two sizes, on the whole device and in a small part: do they pass at one rate, and only after idle time faster?",
    parameters: &[Parameter::RateLimit],
    hands_in: &[],
    write_share: 0.0,
};

/// The reads of a run, as a multiple of those in flight. Those of the first two do not count in a rate. Unit: ratio. Source:
/// choice. Too high: slow devices take minutes; too low: rates scatter.
const RUN_DEPTHS: u64 = 8;
/// The fewest reads of a run, and the most after idle time. Unit: reads. Source: choice: a limit of 16 000 IOs a second that
/// saves a second is behind that many. Too many: the probe takes longer; too few: rates scatter, and the saved time of
/// fast limits is not used up.
const READS: [u64; 2] = [256, 32_768];

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let kinds = Kinds::of(session);
    let mut rounds: Vec<LimitRound> = Vec::new();
    // As for periods: two rounds alone would confirm nothing.
    for _ in 0..PERIODS_LEAST {
        let is_faster = |[burst, long]: [f64; 2]| is_burst(burst, long);
        let looks = rounds.first().is_none_or(|first| first.after_idle.is_some_and(is_faster));
        let after_idle = if looks { Some(kinds.after_idle(session)?) } else { None };
        rounds.push(LimitRound { after_idle, kinds: kinds.in_the_long_run(session)? });
    }
    let Some(seen) = seen_limit(&rounds) else {
        return Err(Halt::Lacks("too few reads were in flight".to_owned()));
    };
    session.conclude(finding(&seen, kinds.in_flight).with(picture(&rounds)));
    if let SeenLimit::Limit { counted, rate, burst } = seen {
        session.findings.has_no_flash(behind_a_limit(&what_passes(counted, rate), burst));
    }
    Ok(())
}

/// The kinds of reads.
struct Kinds {
    size: Bytes,
    capacity: Bytes,
    in_flight: u32,
}

impl Kinds {
    fn of(session: &Session<'_, '_>) -> Kinds {
        let in_flight = session.depth().min(DIES_MOST as u32);
        Kinds { size: SMALL_IO.max(session.block()), capacity: session.capacity(), in_flight }
    }

    /// Random reads of `size` on the first `length` bytes.
    fn read(
        &self,
        session: &mut Session<'_, '_>,
        name: &str,
        size: Bytes,
        length: Bytes,
    ) -> Result<Vec<Sample>, Halt> {
        let count = (u64::from(self.in_flight) * RUN_DEPTHS).max(READS[0]);
        let walk = Walk { offset: Bytes::ZERO, slot: size, size };
        session.run(name, &walk.random(length, count, self.in_flight))
    }

    fn rate(&self, samples: &[Sample]) -> f64 {
        rate_of_run(&times_of(samples), 2 * self.in_flight as usize)
    }

    /// The rates after idle time, and at the end of the run that begins then.
    fn after_idle(&self, session: &mut Session<'_, '_>) -> Result<[f64; 2], Halt> {
        session.idle(DIES_IDLE)?;
        let begin = session.time_left();
        let mut samples = self.read(session, "after-idle-time", self.size, self.capacity)?;
        samples.sort_by_key(|sample| sample.position);
        let burst = rate_after_idle(&times_of(&samples), self.in_flight as usize);
        let (mut reads, mut long) = (samples.len() as u64, f64::NAN);
        // What idle time saved is used up after twice that time, unless the device is hardly faster than the limit.
        loop {
            let samples = self.read(session, "in-the-long-run", self.size, self.capacity)?;
            reads += samples.len() as u64;
            let before = std::mem::replace(&mut long, self.rate(&samples));
            let is_used_up = is_burst(burst, before) && is_burst(burst, long);
            if is_used_up || reads >= READS[1] || begin.since(session.time_left()) >= DIES_IDLE * 2 {
                return Ok([burst, long]);
            }
        }
    }

    /// The rates of all kinds.
    fn in_the_long_run(&self, session: &mut Session<'_, '_>) -> Result<Vec<KindRate>, Halt> {
        let small_part = self.size * 2 * u64::from(self.in_flight);
        let mut rates = Vec::new();
        for length in [self.capacity, small_part.min(self.capacity)] {
            for size in [self.size, self.size * 2] {
                let samples = self.read(session, "sizes-and-places", size, length)?;
                rates.push(KindRate { size, rate: self.rate(&samples) });
            }
        }
        Ok(rates)
    }
}

/// When reads were submitted and completed.
fn times_of(samples: &[Sample]) -> Vec<(Nanos, Nanos)> {
    samples.iter().map(|sample| (sample.submitted, sample.completed)).collect()
}

/// The rates of all rounds over the size. Each round has those of the whole device first, and then those of the small part.
fn picture(rounds: &[LimitRound]) -> Picture {
    let part = |of: usize| -> Vec<(f64, f64)> {
        let kinds = rounds.iter().flat_map(|round| round.kinds.chunks(2).nth(of).unwrap_or_default());
        kinds.map(|kind| (kind.size.0 as f64, kind.rate)).collect()
    };
    let size = rounds.iter().flat_map(|round| &round.kinds).next().map_or(0.0, |kind| kind.size.0 as f64);
    let after_idle = rounds.iter().filter_map(|round| Some((size, round.after_idle?[0]))).collect();
    Picture::new(
        "Random reads per second over their size. Behind a limit all are equal, and only those after idle time are faster.",
        Axis::logarithmic("size", "bytes"),
        Axis::logarithmic("reads per second", ""),
    )
    .draw("whole device", Style::Dots, part(0))
    .draw("small part", Style::Dots, part(1))
    .draw("after idle time", Style::Dots, after_idle)
}

fn what_passes(counted: Counted, of: f64) -> String {
    match counted {
        Counted::Ios => format!("{} IOs a second", rate(of)),
        Counted::Bytes => format!("{} a second", Bytes(of as u64)),
    }
}

fn finding(seen: &SeenLimit, in_flight: u32) -> Finding {
    let kinds = format!(
        "random reads of two sizes, on the whole device and in a small part, with {in_flight} in flight"
    );
    match *seen {
        SeenLimit::Limit { counted, rate, burst } => {
            let value = match counted {
                Counted::Ios => "ios",
                Counted::Bytes => "bytes",
            };
            let evidence = format!(
                "In a long run {} pass, for all {kinds}. The first reads after idle time are {} as fast.",
                what_passes(counted, rate),
                times(burst)
            );
            Rule::found(Parameter::RateLimit, value, Rule::strong("burst and one rate"), evidence)
        }
        SeenLimit::OneRate { counted, rate, burst } => Finding::undetermined(
            Parameter::RateLimit,
            format!(
                "{} pass, for all {kinds}. A limit may hide the flash, but a controller and dies have one rate, too. Only a limit \
                 lets reads pass faster after idle time, and here they are {} as fast.",
                what_passes(counted, rate),
                times(burst)
            ),
        ),
        SeenLimit::BurstAlone { spread, burst } => Finding::undetermined(
            Parameter::RateLimit,
            format!(
                "After idle time the first reads are {} as fast as in a long run, as behind a limit that may hide the flash. But the \
                 highest rate of {kinds} is {} the lowest.",
                times(burst),
                times(1.0 + spread)
            ),
        ),
        SeenLimit::NoLimit { spread, burst } => Rule::found(
            Parameter::RateLimit,
            "none",
            Rule::strong("rates differ"),
            format!(
                "The highest rate of {kinds} is {} the lowest. After idle time the first reads are {} as fast as in a long run.",
                times(1.0 + spread),
                times(burst)
            ),
        ),
    }
}
