//! How many reads in flight are of use.
//!
//! # Method
//! 1. Random reads of one page run at each depth, all depths alternating.
//! 2. Depths run again while it is undecided whether their doubling adds 2.5 % (`DepthCurve`), within the time limit.
//! 3. If the page is not known, reads of 4 KiB stand for it.

use crate::signals::useful_depth::{DepthCurve, time_of_each};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};

use crate::caps;
use crate::halt::Halt;
use crate::patterns::reads::Walk;
use crate::priors::SMALL_IO;
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

/// The largest queue depth. Unit: IOs in flight. Source: Linux opens NVMe queues of 1024 entries. Too high:
/// the queue of the host is measured; too low: large arrays stay undetermined.
const DEPTH_MAX: u32 = 1024;
/// The fewest and the most runs of a depth. Usually time or the number of reads ends the search. Unit: runs.
/// Source: choice. Too many: the search does not end; too few: drift decides.
const RUNS: (u64, u64) = (2, 200);
/// The reads at the beginning of a run that do not count, as a multiple of the depth: IOs that were submitted
/// together still lie evenly over the dies. Unit: ratio. Source: tuned. Too high: the probe takes longer; too
/// low: the throughput is too high.
const SETTLING_DEPTHS: usize = 12;
/// The reads that count: a constant, and a multiple of the depth. Unit: reads. Source: choice. Too many: the
/// probe takes longer; too few: the throughput scatters.
const COUNTED_READS: (usize, usize) = (800, 48);
/// The share of the time for reading that the probe may take. Unit: share. Source: choice. Too high: later
/// probes have no time; too low: the depth stays undetermined.
const TIME_SHARE: f64 = 0.2;
/// The most reads. Unit: reads. Source: choice. Too many: recordings are large; too few: the depth stays
/// undetermined.
const READS_MAX: u64 = 400_000;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let page = session.known().bytes(Parameter::ReadPageSize);
    let curve = measure(session, page.unwrap_or(SMALL_IO).max(session.block()))?;
    let rule = match page {
        None => Rule::weak("unknown page"),
        Some(_) if session.holds_data() => Rule::strong("throughput"),
        Some(_) => Rule::likely("throughput without data").capped(caps::NO_DATA),
    };
    session.conclude(finding(&curve, rule));
    Ok(())
}

/// Random reads of `piece` bytes at all depths.
fn measure(session: &mut Session<'_, '_>, piece: Bytes) -> Result<DepthCurve, Halt> {
    let depths: Vec<u32> =
        (0..).map(|k| 1 << k).take_while(|&depth| depth <= session.depth().min(DEPTH_MAX)).collect();
    let walk = Walk { offset: Bytes::ZERO, slot: piece, size: piece };
    let (begin, mut reads) = (session.time_left(), 0);
    let limit = Nanos((begin.0 as f64 * TIME_SHARE) as u64);
    let mut curve = DepthCurve::new(depths);
    for turn in 0..RUNS.1 {
        let undecided = curve.undecided();
        for (index, &depth) in curve.depths.iter().enumerate() {
            if turn >= RUNS.0 && !undecided.contains(&index) {
                continue;
            }
            let in_flight = depth as usize;
            let count = (SETTLING_DEPTHS * in_flight + COUNTED_READS.0 + COUNTED_READS.1 * in_flight) as u64;
            let samples = session.run("random-reads", &walk.random(session.capacity(), count, depth))?;
            let ios = samples.iter().map(|sample| (sample.submitted, sample.completed));
            curve.times[index].extend(time_of_each(ios, SETTLING_DEPTHS * in_flight));
            reads += count;
        }
        let used = begin.since(session.time_left());
        let last = used.0 / (turn + 1) * (turn + 2) > limit.0 || reads > READS_MAX;
        if turn + 1 >= RUNS.0 && (last || curve.undecided().is_empty()) {
            break;
        }
    }
    Ok(curve)
}

fn finding(curve: &DepthCurve, most: Rule) -> Finding {
    let (growths, useful) = (curve.growths(), curve.useful());
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
    let depth = curve.depths[useful];
    let picture = Picture::new(
        "Random reads per second over the number in flight: more do not help where the line is flat.",
        Axis::logarithmic("reads in flight", ""),
        Axis::logarithmic("reads per second", ""),
    );
    let picture = picture.draw("random reads", Style::Line, curve.rates()).mark(f64::from(depth), "useful");
    // Where it still grows at the largest depth, it is the device's limit that was found.
    let most =
        if useful > 0 && useful == growths.len() { most.min(Rule::likely("still grows")) } else { most };
    let rule = if curve.is_near_the_limit() { most.min(Rule::likely("near the limit")) } else { most };
    Rule::found(Parameter::UsefulQueueDepth, u64::from(depth), rule, evidence).with(picture)
}
