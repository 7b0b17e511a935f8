//! Segment groups: parts of the address space; switching from one to another costs time.
//!
//! # Model
//! Sun and Zhang, section 4.1: a read takes longer if the read before it was in another group. Within a group the
//! distance does not matter. Groups are consecutive spans of addresses, and after the last group the first one may
//! come again. A seek whose time depends on the distance alone has no boundary: two close reads on both sides of one
//! cost nothing.
//!
//! # Method
//! 1. Reads alternate between two offsets, one read at a time, and are compared with close reads at each of them. The
//!    distance doubles until it costs time.
//! 2. Bisection finds the boundary. Close reads across it must cost time, and distant reads within the next span must
//!    not.
//! 3. Offset 0 is paired with one offset of each further span, until a pair costs nothing: there the first group
//!    comes again.

use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::{Interval, mann_whitney};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;
use flashlab_plan::Pattern;

use crate::caps;
use crate::halt::Halt;
use crate::patterns::in_turn;
use crate::patterns::reads::{Walk, compare_each, how_many_times};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::thresholds;
use crate::words::{duration, percent, times};

pub(crate) const PROBE: Probe = Probe {
    name: "segment-groups",
    about: "reads that alternate between two offsets: at which distance does a seek begin to cost time?",
    parameters: &[Parameter::SegmentGroups, Parameter::SegmentGroupSpan],
    hands_in: &[],
    write_share: 0.0,
};

/// The distance of close reads. It has to be smaller than a segment group: the smallest span in the zoo is 4
/// MiB (sdcard). Source: choice; spans below 512 KiB are not found. Too large: small groups are not found;
/// too small: close reads are cached.
const CLOSE_DISTANCE: Bytes = Bytes::kib(256);
/// Reads with a seek take at least this many times close ones. Unit: ratio. Source: tuned. Too high: short
/// seeks are not found; too low: drift is a seek.
const SEEK_RATIO: f64 = 1.03;
/// The rounds of reads at a distance that may cost nothing, until that is known: 28 reads each. Unit: rounds.
/// Source: derivation: the most of them show 3 % where reads scatter by half. Too many: the probe takes
/// longer; too few: devices with noise stay undetermined.
const NO_SEEK_ROUNDS: [usize; 3] = [16, 64, 256];
/// The most spans that are compared with the first one. Unit: spans. Source: choice. Too many: the probe
/// takes longer; too few: the number of groups stays undetermined.
const SPANS_MAX: u64 = 512;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let (curve, costly) = first_costly_distance(session)?;
    let picture = Picture::new(
        "Response time of reads that alternate between two offsets, over their distance: it rises where a seek costs time.",
        Axis::logarithmic("distance", "bytes"),
        Axis::linear("median response time", "ns"),
    )
    .draw("alternating reads", Style::Line, curve);
    let seen = match costly {
        Some(costly) => look_at_boundary(session, costly)?,
        None => Seen::NoSeek { most: most_of_any_seek(session)? },
    };
    for finding in answers(&seen, picture, session.holds_data()) {
        session.conclude(finding);
    }
    Ok(())
}

/// The median response time over the distance.
type Curve = Vec<(f64, f64)>;

/// A distance that costs time, and the largest one before it, which does not.
struct Costly {
    fast: Bytes,
    slow: Bytes,
    reads: Pair,
}

/// Doubles the distance between two offsets until it costs time; also the response time over the distance.
fn first_costly_distance(session: &mut Session<'_, '_>) -> Result<(Curve, Option<Costly>), Halt> {
    let mut curve = Vec::new();
    let (mut fast, mut distance) = (CLOSE_DISTANCE, CLOSE_DISTANCE * 2);
    let last = session.capacity().0.saturating_sub(2 * session.block().0);
    let last = Bytes(last).round_down(session.block());
    if last < CLOSE_DISTANCE * 4 {
        return Err(Halt::Misfit("it has no two distant offsets".to_owned()));
    }
    loop {
        let slow = distance.min(last);
        let reads = pair(session, Bytes::ZERO, slow, 6)?;
        curve.push((slow.0 as f64, reads.far));
        if reads.costs() {
            return Ok((curve, Some(Costly { fast, slow, reads })));
        }
        if slow == last {
            return Ok((curve, None));
        }
        (fast, distance) = (slow, distance * 2);
    }
}

/// What a seek costs at most, relative to a read, where no distance seems to cost anything.
fn most_of_any_seek(session: &mut Session<'_, '_>) -> Result<f64, Halt> {
    let last = session.capacity().round_down(session.block()) - session.block() * 2;
    let mut most: f64 = 1.0;
    for thirds in 1..=3 {
        let place = Bytes(last.0 * thirds / 3).round_down(session.block());
        // More reads where they scatter so much that a seek might be hidden.
        let mut times = 0.0;
        for rounds in NO_SEEK_ROUNDS {
            times = pair(session, Bytes::ZERO, place, rounds)?.times.high;
            if times <= SEEK_RATIO {
                break;
            }
        }
        most = most.max(times);
    }
    Ok(most)
}

/// The distance at which a seek begins to cost time, whether it is a boundary of groups, and after how many of
/// them the first one repeats.
fn look_at_boundary(session: &mut Session<'_, '_>, costly: Costly) -> Result<Seen, Halt> {
    let Costly { fast, slow, reads } = costly;
    let (block, limit) = (session.block(), reads.times.estimate.sqrt());
    let span = boundary(session, fast, slow, limit)?;
    let far = (span * 2 - block).min(session.capacity().round_down(block) - block * 2);
    let across = is_slow(session, span - CLOSE_DISTANCE, span, limit)?;
    let within = is_slow(session, span + CLOSE_DISTANCE, far, limit)?;
    if !across || within || far < span + CLOSE_DISTANCE {
        return Ok(Seen::NoBoundary { span, times: reads.times.estimate, across, within });
    }
    let spans = session.capacity().0.div_ceil(span.0);
    let again = first_group_again(session, span, limit)?;
    Ok(Seen::Boundary { span, spans, again, near: reads.near, far: reads.far })
}

/// What reads that alternate between two offsets showed.
enum Seen {
    /// No distance costs anything, or at most this factor.
    NoSeek { most: f64 },
    /// More than `span` takes `times` as long, but is no boundary of groups. Either close reads `across` it
    /// cost nothing, or distant ones `within` the next span cost time.
    NoBoundary { span: Bytes, times: f64, across: bool, within: bool },
    /// One of the device's spans is a group, and after this number of them the first group comes `again`.
    Boundary { span: Bytes, spans: u64, again: Option<u64>, near: f64, far: f64 },
}

/// The groups and their span.
fn answers(seen: &Seen, picture: Picture, holds_data: bool) -> [Finding; 2] {
    let (groups, of_span) = (Parameter::SegmentGroups, Parameter::SegmentGroupSpan);
    let undetermined = |picture: Picture, evidence: String| {
        [
            Finding::undetermined(groups, evidence.clone()).with(picture),
            Finding::undetermined(of_span, evidence),
        ]
    };
    match *seen {
        Seen::NoSeek { most } => {
            let evidence = format!(
                "Alternating reads between two distant offsets takes at most {} longer than between two close ones, at every distance.",
                percent(most - 1.0)
            );
            if most > SEEK_RATIO {
                return undetermined(picture, evidence);
            }
            // Writes may still know groups, and reads of empty addresses may not need any.
            let rule = Rule::strong("no seek").capped(caps::of_data(holds_data));
            let one = Rule::found(groups, 1u64, rule, evidence).with(picture);
            [one, Rule::not_identifiable(of_span, rule, "There is one segment group.")]
        }
        Seen::NoBoundary { span, times: ratio, across, within } => {
            let cost = |is_slow: bool| if is_slow { "as much" } else { "nothing more" };
            let evidence = format!(
                "Alternating reads that are more than {span} apart take {} the time of closer ones, but {span} is no boundary of \
                 segment groups. Reads close together across it cost {}, and reads far apart within the next span cost {}.",
                times(ratio),
                cost(across),
                cost(within),
            );
            undetermined(picture, evidence)
        }
        Seen::Boundary { span, spans, again: None, .. } if spans > SPANS_MAX => {
            let evidence = format!(
                "Crossing a boundary every {span} costs time; more than {SPANS_MAX} spans are different groups."
            );
            let unknown = Finding::undetermined(groups, evidence.clone()).with(picture.clone());
            let rule = Rule::strong("more spans than looked at");
            [unknown, Rule::found(of_span, span, rule, evidence).with(picture)]
        }
        Seen::Boundary { span, spans, again, near, far } => {
            let evidence = format!(
                "Alternating reads between two close offsets takes {}, and {} when a multiple of {span} lies between them: crossing a \
                 boundary every {span} costs {}. Seeks within a span cost nothing. {}",
                duration(near),
                duration(far),
                duration(far - near),
                match again {
                    Some(count) => format!("After {count} spans the first group comes again."),
                    None => format!("All {spans} spans of the device are different groups."),
                },
            );
            let (picture, rule) = (picture.mark(span.0 as f64, "span"), Rule::strong("boundary"));
            let found = Rule::found(groups, again.unwrap_or(spans), rule, evidence.clone());
            [found.with(picture.clone()), Rule::found(of_span, span, rule, evidence).with(picture)]
        }
    }
}

/// The shortest distance from 0 to which a seek costs time, to the block, by bisection.
fn boundary(session: &mut Session<'_, '_>, fast: Bytes, slow: Bytes, limit: f64) -> Result<Bytes, Halt> {
    let block = session.block();
    let (mut fast, mut slow) = (fast.0 / block.0, slow.0 / block.0);
    while slow - fast > 1 {
        let middle = (fast + slow) / 2;
        if is_slow(session, Bytes::ZERO, block * middle, limit)? { slow = middle } else { fast = middle }
    }
    Ok(block * slow)
}

/// The number of spans after which the first group comes again; `None` if all spans that are compared are other groups.
fn first_group_again(session: &mut Session<'_, '_>, span: Bytes, limit: f64) -> Result<Option<u64>, Halt> {
    let (block, spans) = (session.block(), session.capacity().0.div_ceil(span.0));
    for count in 2..spans.min(SPANS_MAX) {
        let offset = span * count + CLOSE_DISTANCE.min(Bytes(span.0 / 2)).round_down(block);
        if offset + block > session.capacity() {
            break;
        }
        if !is_slow(session, Bytes::ZERO, offset, limit)? && come_again(session, span, count, limit)? {
            return Ok(Some(count));
        }
    }
    Ok(None)
}

/// Whether groups come again after `count` spans: what is so far apart costs nothing to go between, wherever it is. One
/// place alone may be at hand for another reason.
fn come_again(session: &mut Session<'_, '_>, span: Bytes, count: u64, limit: f64) -> Result<bool, Halt> {
    let inside = CLOSE_DISTANCE.min(Bytes(span.0 / 2)).round_down(session.block());
    let whole = session.capacity().0 / span.0;
    let last = whole.saturating_sub(count + 1);
    let mut firsts = vec![0, last / 3, 2 * last / 3, last];
    firsts.dedup();
    for first in firsts {
        let first = span * first + inside;
        if is_slow(session, first, first + span * count, limit)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads that alternate between two offsets, compared with close ones.
struct Pair {
    near: f64,
    far: f64,
    times: Interval,
    p: f64,
}

impl Pair {
    fn of(far: &[f64], near: &[f64]) -> Pair {
        let p = mann_whitney(far, near).p_above;
        Pair { near: upper_median(near), far: upper_median(far), times: how_many_times(near, far), p }
    }

    fn costs(&self) -> bool {
        self.p < thresholds::FALSE_ALARM && self.times.estimate > SEEK_RATIO
    }
}

/// Reads that alternate between `first` and `second`, or two offsets close to them, and reads that stay close
/// to either. One offset alone may be slow, as a slow page is. So all four offsets are read equally often in
/// both.
fn pair(session: &mut Session<'_, '_>, first: Bytes, second: Bytes, rounds: usize) -> Result<Pair, Halt> {
    let before = if first >= CLOSE_DISTANCE { first - CLOSE_DISTANCE } else { first + CLOSE_DISTANCE };
    let is_last = second + CLOSE_DISTANCE + session.block() * 2 > session.capacity();
    let behind = if is_last { second - CLOSE_DISTANCE } else { second + CLOSE_DISTANCE };
    let pairs = [(first, second), (before, behind), (first, before), (second, behind)];
    let figures = compare_each(
        session,
        "two-places",
        &pairs.map(|(one, other)| alternating(session, one, other)),
        rounds,
    )?;
    Ok(Pair::of(&figures[..2].concat(), &figures[2..].concat()))
}

fn alternating(session: &Session<'_, '_>, first: Bytes, second: Bytes) -> Pattern {
    let block = session.block();
    let place = |offset| Walk { offset, slot: block, size: block }.pattern(block, 14, 1);
    in_turn(place(first), place(second))
}

/// Whether switching costs more than `limit` says; asked again with more reads where that is not clear.
fn is_slow(session: &mut Session<'_, '_>, first: Bytes, second: Bytes, limit: f64) -> Result<bool, Halt> {
    let mut slow = false;
    for rounds in [2, 6, 24] {
        let pair = pair(session, first, second, rounds)?;
        slow = pair.times.estimate > limit;
        if pair.times.low > limit || pair.times.high < limit {
            break;
        }
    }
    Ok(slow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that take about so long.
    fn reads(level: f64) -> Vec<f64> {
        (0..168).map(|index| level * (1.0 + 0.05 * f64::from(index * 7 % 11) / 11.0)).collect()
    }

    #[test]
    fn a_distance_costs_time_where_far_reads_are_clearly_slower() {
        assert!(Pair::of(&reads(150e3), &reads(100e3)).costs());
        assert!(!Pair::of(&reads(100e3), &reads(100e3)).costs());
        // Less than 3 %, however clear.
        assert!(!Pair::of(&reads(102e3), &reads(100e3)).costs());
    }

    #[test]
    fn boundaries_show_groups_and_their_span() {
        let of = |seen: Seen| {
            let picture = Picture::new("Reads.", Axis::linear("x", ""), Axis::linear("y", ""));
            answers(&seen, picture, true).map(|finding| finding.number())
        };
        let boundary =
            |spans, again| Seen::Boundary { span: Bytes::mib(8), spans, again, near: 1e5, far: 2e5 };
        let span = Some(Bytes::mib(8).0 as f64);
        assert_eq!(of(boundary(12, Some(4))), [Some(4.0), span]);
        assert_eq!(of(boundary(12, None)), [Some(12.0), span]);
        assert_eq!(of(boundary(SPANS_MAX + 1, None)), [None, span]);
        assert_eq!(of(Seen::NoSeek { most: 1.01 }), [Some(1.0), None]);
        assert_eq!(of(Seen::NoSeek { most: 1.2 }), [None, None]);
        let none = Seen::NoBoundary { span: Bytes::mib(8), times: 1.5, across: false, within: true };
        assert_eq!(of(none), [None, None]);
    }
}
