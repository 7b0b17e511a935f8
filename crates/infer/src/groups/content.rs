//! Whether it matters what is written (Sun and Zhang, section 4.2).
//!
//! # Model
//! Programming a page of zeros or ones may take less time than one of random bits, or the controller may not write it
//! at all. Writes of one page in sequence, of random content, zeros and ones in turns, each to fresh places of its own,
//! differ in nothing else.
//!
//! # Invariants
//! - the three alternate, so that the device's state is the same for all;
//! - the ratio is found to three per cent or it is not sure.

use flashlab_analysis::decide::ranks::ratio;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_plan::{Content, Location};

use super::writes::{median, place, times, with_content, writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "content",
    about: "pages of random bits, of zeros and of ones, in sequence and in turns",
    parameters: &[Parameter::ZerosProgramShare, Parameter::OnesProgramShare],
    write_share: 0.014,
    probe,
};

const KINDS: [(&str, Content); 3] =
    [("random", Content::Incompressible), ("zeros", Content::Zeros), ("ones", Content::Ones)];
/// Turns, and the fewest and the most writes of each kind in one.
const TURNS: u64 = 6;
const IN_TURN: (u64, u64) = (12, 96);

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let known = session.known();
    let page = known.bytes(Parameter::WritePageSize).or(known.bytes(Parameter::ReadPageSize));
    let Some(size) = page else {
        return Err(Halt::Failed("the share depends on the write page, which is not known".to_owned()));
    };
    let affordable = session.writes_left().0 / size.0 / (3 * TURNS);
    let count = affordable.clamp(IN_TURN.0, IN_TURN.1);
    let length = size * count;
    let origin = place(session, 0.81, length);
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    for turn in 0..TURNS {
        for (kind, (name, content)) in KINDS.into_iter().enumerate() {
            let at = origin + length * ((turn * 3 + kind as u64) % 18);
            let pattern = with_content(writes(Location::Sequential, size, count, at, length), content);
            costs[kind].extend(times(session, name, &pattern)?);
        }
    }
    let picture = KINDS.into_iter().zip(&costs).fold(
        Picture::new(
            format!("Writes of {size} in sequence by what they write, ascending."),
            Axis::linear("share of the writes", "ratio"),
            Axis::logarithmic("response time", "ns"),
        ),
        |picture, ((name, _), costs)| {
            let mut sorted = costs.clone();
            sorted.sort_by(f64::total_cmp);
            let all = sorted.len() as f64;
            let points = sorted.iter().enumerate().map(|(i, &cost)| ((i as f64 + 0.5) / all, cost)).collect();
            picture.draw(name, Style::Line, points)
        },
    );
    let [random, zeros, ones] = costs;
    for (parameter, of, name) in
        [(Parameter::ZerosProgramShare, zeros, "zeros"), (Parameter::OnesProgramShare, ones, "ones")]
    {
        let share = median(&of) / median(&random).max(1.0);
        let evidence = format!(
            "writing {size} of {name} takes {share:.3} times as long as random content (medians of {} writes each)",
            of.len()
        );
        let finding = match ratio(&of, &random, 0.99) {
            Some(interval) => {
                let half = (interval.high - interval.low) / 2.0 / share;
                // Ranks and medians are two estimates of the same ratio: where levels are mixed they part.
                let apart = (interval.estimate / share - 1.0).abs();
                let confidence = if half <= 0.03 && apart <= 0.015 { 0.96 } else { 0.7 };
                let exact = if interval.holds(1.0) && half <= 0.03 { 1.0 } else { share };
                Finding::found(parameter, exact, confidence, evidence)
            }
            None => Finding::undetermined(parameter, evidence),
        };
        session.conclude(finding.with(picture.clone()));
    }
    Ok(())
}
