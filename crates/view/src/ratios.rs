//! How much slower one recording is than another in a view, with the intervals of `flashlab compare`.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::{Ratio, Responses, Statistic, ratios};
use flashlab_samples::Columns;
use serde_json::{Value, json};

use crate::count::row_groups;
use crate::error::ViewError;
use crate::recording::{COUNTED_IOS_MOST, ViewedRecording};
use crate::view::View;
use crate::windows::Windows;

/// The other recording's response times over those of the first, of reads and of writes: null where one of them has none in view.
///
/// # Errors
/// If one has too many IOs in the view's time, samples are damaged, or `is_cancelled` was set.
pub fn ratios_in_view(
    first: &ViewedRecording,
    other: &ViewedRecording,
    view: &View,
    is_cancelled: &AtomicBool,
) -> Result<Value, ViewError> {
    let [first, other] = [first, other].map(|recording| responses(recording, view, is_cancelled));
    let (first, other) = (first?, other?);
    let [read, write] = [0, 1].map(|mode| {
        let (first, other) = (Responses::new(&first[mode])?, Responses::new(&other[mode])?);
        let rows = Statistic::ALL.iter().zip(ratios(&first, &other));
        Some(rows.map(|(statistic, ratio)| row(*statistic, &ratio)).collect::<Vec<Value>>())
    });
    Ok(json!({ "read": read, "write": write }))
}

fn row(statistic: Statistic, ratio: &Ratio) -> Value {
    json!({
        "statistic": statistic.name(),
        "first_ns": ratio.first_ns,
        "other_ns": ratio.other_ns,
        "ratio": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
        "verdict": ratio.verdict,
    })
}

/// Response times of reads and of writes in view, those of each run in the order of its IOs.
fn responses(
    recording: &ViewedRecording,
    view: &View,
    is_cancelled: &AtomicBool,
) -> Result<[Vec<Vec<u64>>; 2], ViewError> {
    let windows = Windows::of(view, &recording.overview);
    let groups = row_groups(recording, &windows.time_ns);
    let ios: u64 = groups.iter().map(|&group| recording.row_groups[group].ios).sum();
    if ios > COUNTED_IOS_MOST {
        return Err(ViewError::TooMany { ios, most: COUNTED_IOS_MOST, purpose: "compared" });
    }
    let kinds = view.kinds();
    let mut runs: [Vec<(u32, Vec<u64>)>; 2] = Default::default();
    let mut columns = Columns::default();
    for group in groups {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(ViewError::Cancelled);
        }
        let ios = recording.ios(group, true, &mut columns)?;
        for index in 0..ios.len() {
            let kind = ios.kind[index];
            // A failed IO has no response time of the device.
            if kind.is_failed() || !windows.show(view, &kinds, &ios, index) {
                continue;
            }
            let of_mode = &mut runs[usize::from(kind.is_write())];
            let run = ios.run[index];
            match of_mode.iter_mut().rev().find(|(known, _)| *known == run) {
                Some((_, responses)) => responses.push(ios.response_ns[index]),
                None => of_mode.push((run, vec![ios.response_ns[index]])),
            }
        }
    }
    Ok(runs.map(|runs| runs.into_iter().map(|(_, responses)| responses).collect()))
}
