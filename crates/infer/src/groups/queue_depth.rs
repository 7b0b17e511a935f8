//! How many reads in flight are of use.
//!
//! # Model
//! By Little's law the throughput is the number of reads in flight over the mean response time, so doubling the
//! first brings a factor of twice the ratio of the second. An outlier only keeps its place in the queue for itself: it
//! is left out of the mean, as a read of more than [`OUTLIER`] medians.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};

use super::reads::{Walk, in_order, median, times};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const QUEUE_DEPTH: Group = Group {
    name: "queue-depth",
    about: "random reads of a page over the number in flight: where doubling it brings less than 2.5 %",
    parameters: &[Parameter::UsefulQueueDepth],
    write_share: 0.0,
    probe,
};

/// The throughput has to grow by this much.
const GROWTH: f64 = 1.025;
/// So many medians are an outlier.
const OUTLIER: f64 = 5.0;
/// Read where the page is not known.
const PIECE: Bytes = Bytes::kib(4);
/// The largest depth that is looked at.
const DEPTH_MAX: u32 = 1024;
/// Runs of each depth in one turn of all.
const TURNS: u64 = 6;
/// The share of the time for reading that it may take.
const TIME_SHARE: f64 = 0.12;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let page = session.known().bytes(Parameter::ReadPageSize);
    let piece = page.unwrap_or(PIECE).max(session.block());
    let depths: Vec<u32> =
        (0..).map(|k| 1 << k).take_while(|&depth| depth <= session.depth().min(DEPTH_MAX)).collect();
    let walk = Walk { offset: Bytes::ZERO, slot: piece, size: piece };
    let mut means: Vec<Vec<f64>> = vec![Vec::new(); depths.len()];
    let begin = session.time_left();
    let limit = Nanos((begin.0 as f64 * TIME_SHARE) as u64);
    for turn in 1.. {
        for (&depth, means) in depths.iter().zip(&mut means) {
            let count = 200 + 4 * u64::from(depth);
            let samples = session.run("random-reads", &walk.random(session.capacity(), count, depth))?;
            means.push(mean(&in_order(&samples, depth as usize)));
        }
        let used = begin.since(session.time_left());
        let undecided = (1..depths.len()).any(|i| is_open(growth(&means[i - 1], &means[i])));
        if (turn >= TURNS && !undecided) || turn >= 8 * TURNS || used.0 / turn * (turn + 1) > limit.0 {
            break;
        }
    }
    conclude(session, &depths, &means, page.is_some());
    Ok(())
}

fn mean(times: &[f64]) -> f64 {
    let limit = OUTLIER * median(times);
    let usual: Vec<f64> = times.iter().copied().filter(|&time| time <= limit).collect();
    usual.iter().sum::<f64>() / usual.len().max(1) as f64
}

/// By how much the throughput grows from one depth to its double.
fn growth(single: &[f64], double: &[f64]) -> Interval {
    let Interval { estimate: _, low, high } = times(double, single);
    let estimate = 2.0 * median(single) / median(double).max(1.0);
    Interval { estimate, low: (2.0 * low).min(estimate), high: (2.0 * high).max(estimate) }
}

/// Whether a growth may lie on either side; the outliers that are left out make it inexact by a little.
fn is_open(growth: Interval) -> bool {
    growth.low < GROWTH + 0.005 && growth.high > GROWTH - 0.005
}

fn conclude(session: &mut Session<'_, '_>, depths: &[u32], means: &[Vec<f64>], page_is_known: bool) {
    let growths: Vec<Interval> = means.windows(2).map(|pair| growth(&pair[0], &pair[1])).collect();
    let useful = growths.iter().position(|growth| growth.estimate < GROWTH).unwrap_or(growths.len());
    let open = growths.iter().take(useful + 1).any(|&growth| is_open(growth));
    let words: Vec<String> =
        growths.iter().map(|growth| format!("{:+.1}", (growth.estimate - 1.0) * 100.0)).collect();
    let evidence = if growths.is_empty() {
        "the device takes one IO at a time".to_owned()
    } else {
        format!("doubling the reads in flight, from 1 on, brings {} % of throughput", words.join(", "))
    };
    let points = depths.iter().zip(means);
    let points =
        points.map(|(&depth, means)| (f64::from(depth), 1e9 * f64::from(depth) / median(means))).collect();
    let picture = Picture::new(
        "Random reads a second over the number in flight.",
        Axis::logarithmic("reads in flight", ""),
        Axis::logarithmic("reads a second", ""),
    );
    let picture = picture.draw("random reads", Style::Line, points).mark(f64::from(depths[useful]), "useful");
    let confidence = match (open, page_is_known && session.holds_data()) {
        (true, _) => 0.7,
        (false, true) => 0.97,
        (false, false) => 0.85,
    };
    let depth = u64::from(depths[useful]);
    session.conclude(Finding::found(Parameter::UsefulQueueDepth, depth, confidence, evidence).with(picture));
}
