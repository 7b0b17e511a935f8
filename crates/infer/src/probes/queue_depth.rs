//! How many reads in flight are of use.
//!
//! # Model
//! The throughput of a run is what was completed in the time in which the queue was full, until the last read is
//! submitted. Reads that are submitted together lie evenly over the dies and do not stay so: the beginning does not count. A run
//! is cut into parts, each a figure. Depths are run alternating, and only those whose doubling is not yet known to bring
//! 2.5 % or not.
//!
//! Where the page is not known, small reads stand for it, and large ones have to agree.

use flashlab_analysis::DOUBLING_GAIN;
use flashlab_analysis::decide::level::trimmed_mean;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_samples::Sample;

use crate::caps;
use crate::halt::Halt;
use crate::patterns::reads::Walk;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;

pub(crate) const PROBE: Probe = Probe {
    name: "queue-depth",
    about: "random reads of one page with 1, 2, 4 and more in flight: from where does doubling add less than 2.5 %?",
    parameters: &[Parameter::UsefulQueueDepth],
    hands_in: &[],
    write_share: 0.0,
};

/// How near to that nobody can tell: it depends on how the noise falls.
const NEAR: f64 = 0.003;
/// Read where the page is not known.
const PIECES: [Bytes; 2] = [Bytes::kib(4), Bytes::kib(16)];
/// The largest depth that is looked at.
const DEPTH_MAX: u32 = 1024;
/// The fewest and the most runs of a depth.
const TURNS: (u64, u64) = (2, 200);
/// The parts of a run.
const PARTS: usize = 5;
/// What is not counted of a run, in depths, and the least that is.
const BEGINNING: usize = 12;
const COUNTED: (usize, usize) = (800, 48);
/// The share of the time for reading that it may take, and the most reads.
const TIME_SHARE: f64 = 0.2;
const READS_MAX: u64 = 400_000;

/// Throughput over the depth.
struct Curve {
    depths: Vec<u32>,
    /// By depth: the time for each read, of each run.
    times: Vec<Vec<f64>>,
}

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let begin = session.time_left();
    let limit = Nanos((begin.0 as f64 * TIME_SHARE) as u64);
    let page = session.known().bytes(Parameter::ReadPageSize);
    if let Some(page) = page {
        let curve = measure(session, page.max(session.block()), limit, READS_MAX)?;
        let rule = if session.holds_data() {
            Rule::strong("throughput")
        } else {
            Rule::likely("throughput without data").capped(caps::NO_DATA)
        };
        session.conclude(finding(&curve, rule));
        return Ok(());
    }
    let block = session.block();
    let [small, large] =
        PIECES.map(|piece| measure(session, piece.max(block), Nanos(limit.0 / 2), READS_MAX / 2));
    let (small, large) = (small?, large?);
    // A read within a page keeps its die about as busy as one of the page, one of several pages several dies.
    let rule = if small.useful() == large.useful() {
        Rule::likely("unknown page")
    } else {
        Rule::weak("sizes disagree")
    };
    session.conclude(finding(&small, rule));
    Ok(())
}

fn measure(session: &mut Session<'_, '_>, piece: Bytes, limit: Nanos, most: u64) -> Result<Curve, Halt> {
    let depths: Vec<u32> =
        (0..).map(|k| 1 << k).take_while(|&depth| depth <= session.depth().min(DEPTH_MAX)).collect();
    let walk = Walk { offset: Bytes::ZERO, slot: piece, size: piece };
    let (begin, mut reads) = (session.time_left(), 0);
    let mut curve = Curve { times: vec![Vec::new(); depths.len()], depths };
    for turn in 0..TURNS.1 {
        let wanted = curve.wanted();
        for (index, &depth) in curve.depths.iter().enumerate() {
            if turn >= TURNS.0 && !wanted.contains(&index) {
                continue;
            }
            let in_flight = depth as usize;
            let count = (BEGINNING * in_flight + COUNTED.0 + COUNTED.1 * in_flight) as u64;
            let samples = session.run("random-reads", &walk.random(session.capacity(), count, depth))?;
            curve.times[index].extend(time_of_each(&samples, BEGINNING * in_flight));
            reads += count;
        }
        let used = begin.since(session.time_left());
        let last = used.0 / (turn + 1) * (turn + 2) > limit.0 || reads > most;
        if turn + 1 >= TURNS.0 && (last || curve.wanted().is_empty()) {
            break;
        }
    }
    Ok(curve)
}

/// What a read takes of the time in which the queue was full, in parts of the run without its beginning. The samples are
/// in the order in which they were completed.
fn time_of_each(samples: &[Sample], beginning: usize) -> Vec<f64> {
    let end = samples.iter().map(|sample| sample.submitted).max().unwrap_or_default();
    let done: Vec<Nanos> =
        samples.iter().map(|sample| sample.completed).filter(|&done| done <= end).collect();
    let counted = done.get(beginning..).unwrap_or_default();
    let part = counted.len() / PARTS;
    let parts = (0..PARTS).filter_map(|index| counted.get(index * part..(index + 1) * part));
    let parts = parts.filter(|part| part.len() > 1);
    parts.map(|part| part[part.len() - 1].since(part[0]).0 as f64 / (part.len() - 1) as f64).collect()
}

impl Curve {
    /// By how much the throughput grows from one depth to its double, with the interval that holds it with 99 %.
    fn growth(&self, index: usize) -> Interval {
        let level = |times: &[f64]| trimmed_mean(times, 0.0, 0.99);
        match (level(&self.times[index]), level(&self.times[index + 1])) {
            (Some(single), Some(double)) => {
                let estimate = single.estimate / double.estimate.max(1.0);
                let errors = single.relative_half_width().hypot(double.relative_half_width());
                Interval { estimate, low: estimate * (1.0 - errors), high: estimate * (1.0 + errors) }
            }
            _ => Interval { estimate: f64::NAN, low: 0.0, high: f64::INFINITY },
        }
    }

    fn growths(&self) -> Vec<Interval> {
        (1..self.depths.len()).map(|index| self.growth(index - 1)).collect()
    }

    /// The depths that have to be run again: those of doublings that may be on either side, up to the first that
    /// is known to bring less.
    fn wanted(&self) -> Vec<usize> {
        let growths = self.growths();
        let until = growths.iter().position(|growth| growth.high < DOUBLING_GAIN).unwrap_or(growths.len());
        let open = (0..until).filter(|&index| is_open(growths[index]));
        open.flat_map(|index| [index, index + 1]).collect()
    }

    /// The first depth whose doubling brings less, or the last.
    fn useful(&self) -> usize {
        let growths = self.growths();
        growths.iter().position(|growth| growth.estimate < DOUBLING_GAIN).unwrap_or(growths.len())
    }
}

/// Whether a growth may lie on either side.
fn is_open(growth: Interval) -> bool {
    growth.low < DOUBLING_GAIN + NEAR && growth.high > DOUBLING_GAIN - NEAR
}

fn finding(curve: &Curve, most: Rule) -> Finding {
    let (growths, useful) = (curve.growths(), curve.useful());
    let open = growths.iter().take(useful + 1).any(|&growth| is_open(growth));
    let words: Vec<String> =
        growths.iter().map(|growth| format!("{:+.1}", (growth.estimate - 1.0) * 100.0)).collect();
    let evidence = if growths.is_empty() {
        "The device takes one IO at a time.".to_owned()
    } else {
        format!(
            "Each doubling of the reads in flight, from 1 on, changes the throughput by {} %.",
            words.join(", ")
        )
    };
    let rate = |times: &[f64]| 1e9 / trimmed_mean(times, 0.0, 0.99).map_or(f64::NAN, |time| time.estimate);
    let points = curve.depths.iter().zip(&curve.times);
    let points = points.map(|(&depth, times)| (f64::from(depth), rate(times))).collect();
    let depth = curve.depths[useful];
    let picture = Picture::new(
        "Random reads per second over the number in flight: more do not help where the line is flat.",
        Axis::logarithmic("reads in flight", ""),
        Axis::logarithmic("reads per second", ""),
    );
    let picture = picture.draw("random reads", Style::Line, points).mark(f64::from(depth), "useful");
    // Where it still grows at the largest depth, it is the device's limit that was found.
    let most =
        if useful > 0 && useful == growths.len() { most.min(Rule::likely("still grows")) } else { most };
    let rule = if open { most.min(Rule::likely("near the limit")) } else { most };
    Rule::found(Parameter::UsefulQueueDepth, u64::from(depth), rule, evidence).with(picture)
}
