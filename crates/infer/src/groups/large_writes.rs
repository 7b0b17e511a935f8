//! What a write costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! # Model
//! A sequential write of n bytes takes T = A + nB (El Maghraoui et al., section 4). Throughput grows with the size as
//! long as A counts, or dies are left without work; where doubling brings less than 2.5 % it is saturated (Ajwani et
//! al., appendix A). All sizes together are one sequence of writes, large ones first in each turn so that all are aligned:
//! nothing is merged but what sequential writes merge anyway. Medians leave most of that and outliers out.
//!
//! # Invariants
//! - growth that may be 2.5 % or not, by the figures' interval, decides nothing.

use flashlab_analysis::decide::line::line;
use flashlab_analysis::decide::ranks::{Interval, ratio};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::Location;

use super::writes::{median, place, times, writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "large-writes",
    about: "sequential writes of doubling size: what each costs beyond its bytes, and where larger brings nothing",
    parameters: &[Parameter::WriteCostPerIo, Parameter::WriteSaturationSize],
    write_share: 0.0125,
    probe,
};

/// The sizes that are measured; those of the line are the last but those beyond it.
const SMALLEST: Bytes = Bytes::kib(4);
const LARGEST: Bytes = Bytes::mib(32);
const LINE: (Bytes, Bytes) = (Bytes::kib(64), Bytes::mib(1));
/// What is written with each size in a turn: whole numbers of the largest of the line.
const IN_TURN: Bytes = Bytes::mib(2);
/// The most turns, and the fewest that say anything.
const TURNS: (u64, u64) = (3, 8);
/// Writes of each size beyond the line.
const BEYOND: u64 = 8;
/// Throughput has to grow by this much.
const GROWTH: f64 = 1.025;
/// Growth below this is none: something else is seen.
const SLOWER: f64 = 0.9;

/// Response times by size, ascending.
type Curve = Vec<(Bytes, Vec<f64>)>;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let smallest = SMALLEST.max(session.block());
    let mut sizes = vec![smallest];
    while sizes[sizes.len() - 1] < LINE.1 {
        sizes.push(sizes[sizes.len() - 1] * 2);
    }
    let turn = IN_TURN * sizes.len() as u64;
    let turns = (session.writes_left().0 / turn.0).min(TURNS.1);
    if turns < TURNS.0 {
        return Err(Halt::Budget { needed: turn * TURNS.0, left: session.writes_left() });
    }
    let mut curve: Curve = sizes.into_iter().map(|size| (size, Vec::new())).collect();
    let mut stream = Stream { origin: place(session, 0.07, LINE.1), length: turn * 2, written: Bytes::ZERO };
    if stream.length * 2 > session.capacity() {
        stream.length = turn;
    }
    for _ in 0..turns {
        for (size, costs) in curve.iter_mut().rev() {
            costs.extend(stream.write(session, *size, IN_TURN.0 / size.0)?);
        }
    }
    // Larger ones until two of them bring nothing, as far as the budget goes.
    let mut size = LINE.1 * 2;
    while size <= LARGEST
        && !is_saturated(&curve)
        && size * BEYOND <= session.writes_left().min(stream.length)
    {
        let costs = stream.write(session, size, BEYOND)?;
        curve.push((size, costs));
        size = size * 2;
    }
    conclude_cost(session, &curve);
    conclude_saturation(session, &curve);
    Ok(())
}

/// One sequence of writes of all sizes, round and round through a part of the device.
struct Stream {
    origin: Bytes,
    length: Bytes,
    written: Bytes,
}

impl Stream {
    fn write(&mut self, session: &mut Session<'_, '_>, size: Bytes, count: u64) -> Result<Vec<f64>, Halt> {
        let length = size * count;
        let mut at = Bytes(self.written.0 % self.length.0);
        if at + length > self.length {
            at = Bytes::ZERO;
        }
        self.written = at + length;
        let pattern = writes(Location::Sequential, size, count, self.origin + at, length);
        times(session, "sequential-writes", &pattern)
    }
}

/// By how much throughput grows from each size to its double.
fn growths(curve: &Curve) -> Vec<(Bytes, Option<Interval>)> {
    let growth = |pair: &[(Bytes, Vec<f64>)]| {
        let grown = ratio(&pair[0].1, &pair[1].1, 0.98).map(|time| Interval {
            estimate: time.estimate * 2.0,
            low: time.low * 2.0,
            high: time.high * 2.0,
        });
        (pair[0].0, grown)
    };
    curve.windows(2).map(growth).collect()
}

/// The last two doublings brought nothing.
fn is_saturated(curve: &Curve) -> bool {
    let growths = growths(curve);
    growths.len() >= 2
        && growths[growths.len() - 2..].iter().all(|(_, growth)| growth.is_some_and(|g| g.high < GROWTH))
}

fn picture(curve: &Curve) -> Picture {
    let points = curve.iter().map(|(size, costs)| (size.0 as f64, median(costs).max(1.0))).collect();
    Picture::new(
        "Median response time of sequential writes over their size.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("sequential writes", Style::Line, points)
}

fn conclude_cost(session: &mut Session<'_, '_>, curve: &Curve) {
    let parameter = Parameter::WriteCostPerIo;
    let within = curve.iter().filter(|(size, _)| (LINE.0..=LINE.1).contains(size));
    let medians: Vec<(f64, f64)> =
        within.clone().map(|(size, costs)| (size.0 as f64, median(costs))).collect();
    let picture = picture(curve);
    let (mean_x, mean_y) = medians.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let count = medians.len().max(1) as f64;
    let (mean_x, mean_y) = (mean_x / count, mean_y / count);
    let (over, under) = medians.iter().fold((0.0, 0.0), |(over, under), (x, y)| {
        (over + (x - mean_x) * (y - mean_y), under + (x - mean_x).powi(2))
    });
    let slope = if under > 0.0 { over / under } else { 0.0 };
    let cost = mean_y - slope * mean_x;
    let each = within.flat_map(|(size, costs)| costs.iter().map(move |&cost| (size.0 as f64, cost)));
    let robust = line(&each.collect::<Vec<_>>(), 0.95);
    let largest = medians.iter().map(|(x, y)| (y - cost - slope * x).abs() / y).fold(0.0, f64::max);
    let evidence = format!(
        "medians of sequential writes of 64 KiB to 1 MiB lie on {} + {:.1} ns for each KiB, to {:.1} %",
        Nanos(cost.max(0.0) as u64),
        slope * 1024.0,
        largest * 100.0
    );
    let (Some(robust), true) = (robust, cost > 0.0) else {
        session.conclude(Finding::undetermined(parameter, evidence).with(picture));
        return;
    };
    let (low, high) = (robust.intercept.low, robust.intercept.high);
    let half = ((high - low) / 2.0).max((robust.intercept.estimate - cost).abs()) / cost;
    if half > 0.5 {
        let evidence =
            format!("{evidence}; what each takes beyond them may be {:.0} % more or less", half * 100.0);
        session.conclude(Finding::undetermined(parameter, evidence).with(picture));
        return;
    }
    let confidence = if half <= 0.03 { 0.95 } else { f64::max(0.9 - half, 0.4) };
    session.conclude(Finding::found(parameter, Nanos(cost as u64), confidence, evidence).with(picture));
}

fn conclude_saturation(session: &mut Session<'_, '_>, curve: &Curve) {
    let parameter = Parameter::WriteSaturationSize;
    let picture = picture(curve);
    let growths = growths(curve);
    let first = growths.iter().find(|(_, growth)| growth.is_none_or(|growth| growth.low < GROWTH));
    let Some((size, growth)) = first else {
        let evidence =
            format!("throughput still grows with writes of {}", curve.last().map_or(Bytes::ZERO, |c| c.0));
        session.conclude(Finding::undetermined(parameter, evidence).with(picture));
        return;
    };
    let shown = growth.map_or("an unknown share".to_owned(), |growth| {
        format!(
            "{:.1} % ({:.1} to {:.1} %)",
            (growth.estimate - 1.0) * 100.0,
            (growth.low - 1.0) * 100.0,
            (growth.high - 1.0) * 100.0
        )
    });
    let evidence = format!(
        "from {size} to its double, throughput grows by {shown}; before that it always grows by more"
    );
    let finding = match growth {
        // A larger write that is slower than two of its halves was merged: it says nothing of larger writes.
        Some(growth) if growth.high < GROWTH && growth.low > SLOWER => {
            Finding::found(parameter, *size, 0.95, evidence)
        }
        _ => Finding::undetermined(parameter, evidence),
    };
    session.conclude(finding.with(picture.mark(size.0 as f64, "saturated")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_of_throughput() {
        let curve: Curve = vec![
            (Bytes::kib(4), vec![10.0; 9]),
            (Bytes::kib(8), vec![10.0; 9]),
            (Bytes::kib(16), vec![20.0; 9]),
            (Bytes::kib(32), vec![40.0; 9]),
        ];
        let estimates: Vec<f64> =
            growths(&curve).iter().map(|(_, growth)| growth.map_or(0.0, |growth| growth.estimate)).collect();
        assert!((estimates[0] - 2.0).abs() < 1e-9 && (estimates[1] - 1.0).abs() < 1e-9, "{estimates:?}");
        assert!(is_saturated(&curve) && !is_saturated(&curve[..3].to_vec()));
    }
}
