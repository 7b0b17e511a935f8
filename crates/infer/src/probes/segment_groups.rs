//! Segment groups: parts of the address space; switching from one to another costs time.
//!
//! # Model
//! Sun and Zhang, section 4.1: a read takes longer if the read before it was in another group. Within a group the distance
//! does not matter. Groups are consecutive spans of addresses, and after the last group the first one may come again. A seek
//! whose time depends on the distance alone has no boundary: two close reads on both sides of one cost nothing.
//!
//! # Method
//! 1. Reads alternate between two offsets, one read at a time, and are compared with close reads at each of them. The distance
//!    doubles until it costs time.
//! 2. Bisection finds the boundary. Close reads across it must cost time, and distant reads within the next span must not.
//! 3. Offset 0 is paired with one offset of each further span, until a pair costs nothing: there the first group comes again.

use flashlab_analysis::decide::ranks::{Interval, mann_whitney};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::signals::figures::median;
use flashlab_base::Bytes;
use flashlab_plan::Pattern;

use crate::caps;
use crate::halt::Halt;
use crate::patterns::in_turn;
use crate::patterns::reads::{Walk, compare_each, how_many_times};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::{duration, percent, times};

pub(crate) const PROBE: Probe = Probe {
    name: "segment-groups",
    about: "reads that alternate between two offsets: at which distance does a seek begin to cost time?",
    parameters: &[Parameter::SegmentGroups, Parameter::SegmentGroupSpan],
    hands_in: &[],
    write_share: 0.0,
};

/// The distance of close reads. It has to be smaller than a group: the smallest span in the zoo is 4 MiB (sdcard). Spans below 512 KiB
/// are not found.
const NEAR: Bytes = Bytes::kib(256);
/// The chance that a distance seems to cost something, of all that are tried.
const ALPHA: f64 = 1e-4;
/// What going must cost, at least, relative to a read.
const COST_MIN: f64 = 1.03;
/// Rounds of reads at a distance that may cost nothing, until that is known: 28 reads each, far ones and close ones. With the most
/// of them 3 % show where reads scatter by half.
const NO_SEEK_ROUNDS: [usize; 3] = [16, 64, 256];
/// The most spans that are looked at.
const SPANS_MAX: u64 = 512;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let mut curve = Vec::new();
    let (mut fast, mut slow) = (NEAR, None);
    let mut distance = NEAR * 2;
    let last = session.capacity().0.saturating_sub(2 * session.block().0);
    let last = Bytes(last).round_down(session.block());
    if last < NEAR * 4 {
        return Err(Halt::Misfit("it has no two distant offsets".to_owned()));
    }
    loop {
        let distance_now = distance.min(last);
        let found = pair(session, Bytes::ZERO, distance_now, 6)?;
        curve.push((distance_now.0 as f64, found.far));
        if found.costs() {
            slow = Some((distance_now, found));
            break;
        }
        fast = distance_now;
        if distance_now == last {
            break;
        }
        distance = distance * 2;
    }
    let picture = Picture::new(
        "Response time of reads that alternate between two offsets, over their distance: it rises where a seek costs time.",
        Axis::logarithmic("distance", "bytes"),
        Axis::linear("median response time", "ns"),
    )
    .draw("alternating reads", Style::Line, curve);
    let Some((slow, found)) = slow else { return none(session, picture) };
    groups(session, fast, slow, found, picture)
}

/// Going nowhere costs anything: one group, if the measurement would have shown it.
fn none(session: &mut Session<'_, '_>, picture: Picture) -> Result<(), Halt> {
    let last = session.capacity().round_down(session.block()) - session.block() * 2;
    let mut most: f64 = 1.0;
    for thirds in 1..=3 {
        let place = Bytes(last.0 * thirds / 3).round_down(session.block());
        // More reads where they scatter so much that a seek might be hidden.
        let mut times = 0.0;
        for rounds in NO_SEEK_ROUNDS {
            times = pair(session, Bytes::ZERO, place, rounds)?.times.high;
            if times <= COST_MIN {
                break;
            }
        }
        most = most.max(times);
    }
    let evidence = format!(
        "Alternating reads between two distant offsets takes at most {} longer than between two close ones, at every distance.",
        percent(most - 1.0)
    );
    if most > COST_MIN {
        undetermined(session, picture, evidence);
        return Ok(());
    }
    // Writes may still know groups, and reads of empty addresses may not need any.
    let rule = Rule::strong("no seek").capped(caps::of_data(session.holds_data()));
    session.conclude(Rule::found(Parameter::SegmentGroups, 1u64, rule, evidence).with(picture));
    let reason = "There is one segment group.";
    session.conclude(Rule::not_identifiable(Parameter::SegmentGroupSpan, rule, reason));
    Ok(())
}

/// The groups, if a seek from 0 to `slow` costs time and one to `fast` does not.
fn groups(
    session: &mut Session<'_, '_>,
    fast: Bytes,
    slow: Bytes,
    found: Pair,
    picture: Picture,
) -> Result<(), Halt> {
    let limit = found.times.estimate.sqrt();
    let span = boundary(session, fast, slow, limit)?;
    if let Some(evidence) = contradiction(session, span, &found, limit)? {
        undetermined(session, picture, evidence);
        return Ok(());
    }
    let spans = session.capacity().0.div_ceil(span.0);
    let count = first_group_again(session, span, limit)?;
    if count.is_none() && spans > SPANS_MAX {
        let evidence = format!(
            "Crossing a boundary every {span} costs time; more than {SPANS_MAX} spans are different groups."
        );
        let groups = Finding::undetermined(Parameter::SegmentGroups, evidence.clone());
        session.conclude(groups.with(picture.clone()));
        let rule = Rule::strong("more spans than looked at");
        session.conclude(Rule::found(Parameter::SegmentGroupSpan, span, rule, evidence).with(picture));
        return Ok(());
    }
    let evidence = format!(
        "Alternating reads between two close offsets takes {}, and {} when a multiple of {span} lies between them: crossing a \
         boundary every {span} costs {}. Seeks within a span cost nothing. {}",
        duration(found.near),
        duration(found.far),
        duration(found.far - found.near),
        match count {
            Some(count) => format!("After {count} spans the first group comes again."),
            None => format!("All {spans} spans of the device are different groups."),
        },
    );
    let (picture, rule) = (picture.mark(span.0 as f64, "span"), Rule::strong("boundary"));
    let groups = Rule::found(Parameter::SegmentGroups, count.unwrap_or(spans), rule, evidence.clone());
    session.conclude(groups.with(picture.clone()));
    session.conclude(Rule::found(Parameter::SegmentGroupSpan, span, rule, evidence).with(picture));
    Ok(())
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

/// What contradicts that `span` is a boundary of groups: close reads across it cost nothing, or distant reads within the second
/// group cost time.
fn contradiction(
    session: &mut Session<'_, '_>,
    span: Bytes,
    found: &Pair,
    limit: f64,
) -> Result<Option<String>, Halt> {
    let block = session.block();
    let far = (span * 2 - block).min(session.capacity().round_down(block) - block * 2);
    let across = is_slow(session, span - NEAR, span, limit)?;
    let within = is_slow(session, span + NEAR, far, limit)?;
    let is_group = across && !within && far >= span + NEAR;
    Ok((!is_group).then(|| {
        format!(
            "Alternating reads that are more than {span} apart take {} the time of closer ones, but {span} is no boundary of segment \
             groups. Reads close together across it cost {}, and reads far apart within the next span cost {}.",
            times(found.times.estimate),
            if across { "as much" } else { "nothing more" },
            if within { "as much" } else { "nothing more" },
        )
    }))
}

/// The number of spans after which the first group comes again; `None` if all spans that are compared are other groups.
fn first_group_again(session: &mut Session<'_, '_>, span: Bytes, limit: f64) -> Result<Option<u64>, Halt> {
    let (block, spans) = (session.block(), session.capacity().0.div_ceil(span.0));
    for count in 2..spans.min(SPANS_MAX) {
        let offset = span * count + NEAR.min(Bytes(span.0 / 2)).round_down(block);
        if offset + block > session.capacity() {
            break;
        }
        if !is_slow(session, Bytes::ZERO, offset, limit)? && come_again(session, span, count, limit)? {
            return Ok(Some(count));
        }
    }
    Ok(None)
}

/// Concludes that neither the groups nor their span are known.
fn undetermined(session: &mut Session<'_, '_>, picture: Picture, evidence: String) {
    session.conclude(Finding::undetermined(Parameter::SegmentGroups, evidence.clone()).with(picture));
    session.conclude(Finding::undetermined(Parameter::SegmentGroupSpan, evidence));
}

/// Whether groups come again after `count` spans: what is so far apart costs nothing to go between, wherever it is. One
/// place alone may be at hand for another reason.
fn come_again(session: &mut Session<'_, '_>, span: Bytes, count: u64, limit: f64) -> Result<bool, Halt> {
    let inside = NEAR.min(Bytes(span.0 / 2)).round_down(session.block());
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

/// How reads at two places compare with near ones.
struct Pair {
    near: f64,
    far: f64,
    times: Interval,
    p: f64,
}

impl Pair {
    fn costs(&self) -> bool {
        self.p < ALPHA && self.times.estimate > COST_MIN
    }
}

/// Reads at `first` and `second` in turn, and at two places near them, beside reads that stay near either. A place may take
/// longer by itself, as the slow pages of cells with several bits do, and that is no cost of going: all four places are
/// read as often far as near.
fn pair(session: &mut Session<'_, '_>, first: Bytes, second: Bytes, rounds: usize) -> Result<Pair, Halt> {
    let before = if first >= NEAR { first - NEAR } else { first + NEAR };
    let is_last = second + NEAR + session.block() * 2 > session.capacity();
    let behind = if is_last { second - NEAR } else { second + NEAR };
    let pairs = [(first, second), (before, behind), (first, before), (second, behind)];
    let figures =
        compare_each(session, "two-places", &pairs.map(|(one, other)| places(session, one, other)), rounds)?;
    let (far, near) = (figures[..2].concat(), figures[2..].concat());
    let p = mann_whitney(&far, &near).p_above;
    Ok(Pair { near: median(&near), far: median(&far), times: how_many_times(&near, &far), p })
}

fn places(session: &Session<'_, '_>, first: Bytes, second: Bytes) -> Pattern {
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
