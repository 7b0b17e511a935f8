//! Channels, from reads of one chunk, two, three ... up to a stripe.
//!
//! # Model
//! A read of k chunks is served by k dies at once; those of one channel transfer one after the other. The response time
//! rises with the most chunks that any channel carries: where neighbours are on different channels it rises after
//! every so many chunks as there are channels, and stays between (Chen, Lee and Zhang, HPCA 2011). What rises with every
//! chunk may be the link to the host as well as a single channel, and what does not rise may be as many channels as dies or
//! transfers too short to be seen: both are left undetermined.

use flashlab_analysis::decide::level::level;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;

use super::reads::{Walk, compare_each, median, room};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const CHANNELS: Group = Group {
    name: "channels",
    about: "reads of one chunk up to a stripe: after how many chunks another transfer has to be waited for",
    parameters: &[Parameter::Channels],
    write_share: 0.0,
    probe,
};

/// The most chunks of a read.
const CHUNKS_MAX: u64 = 32;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let known = session.known();
    let dies = known.count(Parameter::ParallelUnits);
    if dies == Some(1) {
        session.conclude(Finding::found(Parameter::Channels, 1u64, 0.96, "there is one die"));
        return Ok(());
    }
    let (Some(dies), Some(chunk), Some(stripe)) =
        (dies, known.bytes(Parameter::ChunkSize), known.bytes(Parameter::StripeSize))
    else {
        return Err(Halt::Failed("the chunks on the dies are not known".to_owned()));
    };
    let most = dies.min(CHUNKS_MAX);
    let slot = stripe * 3;
    let slots = room(session).0 / slot.0;
    if slots < 8 {
        return Err(Halt::Misfit("it has too few stripes".to_owned()));
    }
    let patterns: Vec<_> = (1..=most)
        .map(|k| {
            let walk = Walk { offset: Bytes::ZERO, slot, size: chunk * k };
            walk.random(slot * slots, 16, 1)
        })
        .collect();
    let times = compare_each(session, "chunks", &patterns, 8)?;
    let curve: Vec<f64> = times.iter().map(|times| median(times)).collect();
    // Half the interval of a median with 95 %, as two standard errors.
    let errors: Vec<f64> = times
        .iter()
        .map(|times| level(times, 0.95).map_or(f64::INFINITY, |level| (level.high - level.low) / 4.0))
        .collect();
    let words: Vec<String> = curve.iter().map(|time| format!("{:.1}", time / 1000.0)).collect();
    let evidence = format!("reads of 1, 2, 3 ... chunks take {} us", words.join(" "));
    let picture = Picture::new(
        "Response time of reads of whole chunks; it rises where a channel carries one more of them.",
        Axis::linear("chunks", ""),
        Axis::linear("median response time", "ns"),
    );
    let points = curve.iter().enumerate().map(|(k, &time)| ((k + 1) as f64, time)).collect();
    let picture = picture.draw("one read", Style::Dots, points);
    session.conclude(match steps(&curve, &errors).filter(|channels| dies.is_multiple_of(*channels)) {
        Some(channels) => {
            let picture = picture.mark(channels as f64, "channels");
            Finding::found(Parameter::Channels, channels, 0.95, evidence).with(picture)
        }
        None => Finding::undetermined(Parameter::Channels, evidence).with(picture),
    });
    Ok(())
}

/// After how many figures they rise, again and again, staying the same between.
fn steps(curve: &[f64], errors: &[f64]) -> Option<u64> {
    let rises: Vec<f64> = curve
        .windows(2)
        .zip(errors.windows(2))
        .map(|(times, errors)| (times[1] - times[0]) / errors[0].hypot(errors[1]).max(f64::MIN_POSITIVE))
        .collect();
    let first = rises.iter().position(|&rise| rise > 5.0)? + 1;
    // Twice at least, and nothing between.
    let regular = rises
        .iter()
        .enumerate()
        .all(|(k, &rise)| if (k + 1) % first == 0 { rise > 4.0 } else { rise.abs() < 3.5 });
    (first >= 2 && rises.len() >= first && regular).then_some(first as u64)
}
