//! Counts a view's IOs for the panels: one by one, or from the pyramid.
//!
//! # Method
//! 1. The windows of the view are cut to what the recording has, and the panels' columns are chosen.
//! 2. If the row groups of the window have few IOs, or the caller waits for it, each IO is looked at.
//! 3. Otherwise the pyramid's cells are added, and the windows become those of whole cells.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_samples::Columns;
use rayon::prelude::*;

use crate::error::ViewError;
use crate::ios::IoColumns;
use crate::panels::{Counted, PanelLayout, Tally};
use crate::recording::{COUNTED_IOS_MOST, ViewedRecording};
use crate::response_bins::ResponseBins;
use crate::view::View;
use crate::windows::Windows;

/// IOs in view that are shown one by one.
pub const POINTS_MOST: usize = 100_000;
/// Columns of the panels over time, at most.
pub const COLUMNS_MOST: usize = 4096;

/// Counts the IOs of `view` in panels of `width` columns. If `is_patient`, each IO is looked at, however many there are.
///
/// # Errors
/// If samples are damaged, or `is_cancelled` was set.
pub fn count(
    recording: &ViewedRecording,
    view: &View,
    width: usize,
    is_patient: bool,
    is_cancelled: &AtomicBool,
) -> Result<Counted, ViewError> {
    let windows = Windows::of(view, &recording.overview);
    let width = width.clamp(1, COLUMNS_MOST);
    let layout = PanelLayout::finest(&windows, width);
    // IOs of whole columns, so that those in flight are known in the first and in the last as well.
    let groups = row_groups(recording, &(layout.time.start()..layout.time.end()));
    let ios: u64 = groups.iter().map(|&group| recording.row_groups[group].ios).sum();
    if let Some(pyramid) = &recording.pyramid
        && ios > COUNTED_IOS_MOST
        && !is_patient
        // Its cells do not know them.
        && view.process.is_none()
        && view.run.is_none()
    {
        return Ok(pyramid.count(view, &windows, width, recording.overview.time_end_ns));
    }
    let keeps = ios <= COUNTED_IOS_MOST;
    let one_each = rayon::current_num_threads().max(1);
    let parts: Vec<(Tally, Option<IoColumns>)> = groups
        .par_chunks(groups.len().div_ceil(one_each).max(1))
        .map(|some| count_groups(recording, some, view, &windows, &layout, keeps, is_cancelled))
        .collect::<Result<_, _>>()?;
    let mut tally = Tally::new(layout);
    let mut points = Some(IoColumns::default());
    for (part, some) in &parts {
        tally.add(part);
        points = join(points, some.as_ref());
    }
    Ok(Counted { tally, is_exact: true, could_be_finer: false, has_column_sums: true, points, windows })
}

/// Row groups with IOs that began within the window, or were in flight.
pub fn row_groups(recording: &ViewedRecording, time_ns: &Range<u64>) -> Vec<usize> {
    let groups = recording.row_groups.iter().enumerate();
    groups
        .filter(|(_, group)| group.time_ns.0 < time_ns.end && group.completed_ns >= time_ns.start)
        .map(|(index, _)| index)
        .collect()
}

fn count_groups(
    recording: &ViewedRecording,
    groups: &[usize],
    view: &View,
    windows: &Windows,
    layout: &PanelLayout,
    keeps: bool,
    is_cancelled: &AtomicBool,
) -> Result<(Tally, Option<IoColumns>), ViewError> {
    let bins = ResponseBins::default();
    let kinds = view.kinds();
    let mut tally = Tally::new(layout.clone());
    let mut points = Some(IoColumns::default());
    let mut columns = Columns::default();
    for &group in groups {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(ViewError::Cancelled);
        }
        let ios = recording.ios(group, keeps, &mut columns)?;
        for index in 0..ios.len() {
            if !kinds[usize::from(ios.kind[index].0)] || !view.has_rest(&ios, index) {
                continue;
            }
            let begin = ios.time_ns[index];
            tally.add_flight(begin, begin.saturating_add(ios.response_ns[index]));
            if windows.time_ns.contains(&begin) {
                tally.add_io(&ios, index, &bins);
                points = points.filter(|points| points.len() < POINTS_MOST);
                if let Some(points) = &mut points {
                    points.push(&ios, index);
                }
            }
        }
    }
    Ok((tally, points))
}

/// Both together, if they are few enough.
fn join(own: Option<IoColumns>, more: Option<&IoColumns>) -> Option<IoColumns> {
    let (mut own, more) = (own?, more?);
    if own.len() + more.len() >= POINTS_MOST {
        return None;
    }
    (0..more.len()).for_each(|index| own.push(more, index));
    Some(own)
}
