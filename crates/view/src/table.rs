//! The IOs of a view one by one: the first so many in an order, or all of them.
//!
//! # Method
//! The order by response time, longest first, visits the row groups by their longest response time, and ends when the others cannot have
//! a longer one than those that were found. So the worst IOs of 10^8 are found in a few row groups. Other orders look at every IO of the
//! windows, and are refused beyond [`SORTED_IOS_MOST`].

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_base::Sample;
use flashlab_samples::Columns;
use serde_json::{Value, json};

use crate::count::row_groups;
use crate::error::ViewError;
use crate::ios::IoColumns;
use crate::recording::ViewedRecording;
use crate::view::View;
use crate::windows::Windows;

/// The most IOs in the windows of a table that is not ordered by the longest response time: a second of reading.
const SORTED_IOS_MOST: u64 = 8 << 20;
/// The most rows of a table.
const ROWS_MOST: usize = 10_000;
/// The most rows of an exported file, which is made in memory.
const EXPORTED_MOST: usize = 1 << 20;

/// What a table is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The begin.
    Time,
    /// The response time.
    Response,
    /// The offset.
    Offset,
    /// The size.
    Size,
    /// The run.
    Run,
    /// The process.
    Process,
}

impl Order {
    /// By the name of its column.
    pub fn named(name: &str) -> Result<Order, ViewError> {
        Ok(match name {
            "time_ns" => Order::Time,
            "response_ns" => Order::Response,
            "offset_bytes" => Order::Offset,
            "size_bytes" => Order::Size,
            "run" => Order::Run,
            "process" => Order::Process,
            _ => {
                let takes = "time_ns, response_ns, offset_bytes, size_bytes, run or process";
                return Err(ViewError::query("sort", name, takes));
            }
        })
    }

    fn key(self, ios: &IoColumns, index: usize) -> u64 {
        match self {
            Order::Time => ios.time_ns[index],
            Order::Response => ios.response_ns[index],
            Order::Offset => ios.offset_bytes[index],
            Order::Size => ios.size_bytes[index],
            Order::Run => u64::from(ios.run[index]),
            Order::Process => u64::from(ios.process[index]),
        }
    }
}

/// How a table is sorted.
#[derive(Clone, Copy, Debug)]
pub struct Sorting {
    /// The order.
    pub order: Order,
    /// Whether the largest are first.
    pub is_descending: bool,
}

/// Which rows of a table.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// How it is sorted.
    pub sorting: Sorting,
    /// The first row.
    pub start: usize,
    /// How many rows.
    pub count: usize,
}

/// An IO in the table's order: its place in the order, its row group, its index in that.
type Ranked = (u64, u32, u32);

/// The rows of a page, as a JSON document.
///
/// # Errors
/// If samples are damaged, the order needs too many IOs, or `is_cancelled` was set.
pub fn page(
    recording: &ViewedRecording,
    view: &View,
    page: Page,
    is_cancelled: &AtomicBool,
) -> Result<Value, ViewError> {
    let (start, count) = (page.start, page.count.min(ROWS_MOST));
    let end = start.saturating_add(count).min(EXPORTED_MOST);
    let (ranked, matching) = ranked(recording, view, page.sorting, end, is_cancelled)?;
    let rows = samples(recording, &ranked[start.min(ranked.len())..])?;
    let rows: Vec<Value> = rows.iter().map(|(run, sample)| row(recording, *run, sample)).collect();
    Ok(json!({ "matching": matching, "is_bounded": matching.is_none(), "columns": COLUMNS, "rows": rows }))
}

/// The columns of a table.
pub(crate) const COLUMNS: [&str; 10] = [
    "run",
    "process",
    "position",
    "mode",
    "time_ns",
    "offset_bytes",
    "size_bytes",
    "submission_delay_ns",
    "response_ns",
    "errno",
];

/// The mode of an IO.
pub fn mode(sample: &Sample) -> &'static str {
    if sample.mode.is_write() { "write" } else { "read" }
}

/// When an IO began, since the first of its recording.
pub fn time_ns(recording: &ViewedRecording, sample: &Sample) -> i64 {
    (sample.intended.0 as i64).wrapping_sub(recording.origin_ns)
}

/// How long an IO took from its begin, negative by a clock that went backwards.
pub fn response_ns(sample: &Sample) -> i64 {
    sample.completed.0.wrapping_sub(sample.intended.0) as i64
}

/// How long an IO waited for its submission.
pub fn submission_delay_ns(sample: &Sample) -> i64 {
    sample.submitted.0.wrapping_sub(sample.intended.0) as i64
}

/// An IO by the columns of a table.
pub fn row(recording: &ViewedRecording, run: u32, sample: &Sample) -> Value {
    json!([
        run,
        sample.process,
        sample.position,
        mode(sample),
        time_ns(recording, sample),
        sample.offset.0,
        sample.size.0,
        submission_delay_ns(sample),
        response_ns(sample),
        sample.errno,
    ])
}

/// All IOs of the view in the order of time, with their runs.
///
/// # Errors
/// As [`page`], and if there are more than fit into a file that is made in memory.
pub fn all(
    recording: &ViewedRecording,
    view: &View,
    is_cancelled: &AtomicBool,
) -> Result<Vec<(u32, Sample)>, ViewError> {
    let by_time = Sorting { order: Order::Time, is_descending: false };
    let (ranked, matching) = ranked(recording, view, by_time, EXPORTED_MOST + 1, is_cancelled)?;
    if ranked.len() > EXPORTED_MOST {
        return Err(ViewError::TooMany {
            ios: matching.unwrap_or(ranked.len() as u64),
            most: EXPORTED_MOST as u64,
            purpose: "exported",
        });
    }
    samples(recording, &ranked)
}

/// The `count` slowest IOs of a recording with their runs, or all if it has fewer; the slowest first.
///
/// # Errors
/// If samples are damaged or cannot be read.
pub(crate) fn slowest(recording: &ViewedRecording, count: usize) -> Result<Vec<(u32, Sample)>, ViewError> {
    let slowest_first = Sorting { order: Order::Response, is_descending: true };
    let (ranked, _) = ranked(recording, &View::default(), slowest_first, count, &AtomicBool::new(false))?;
    samples(recording, &ranked)
}

/// The first `end` IOs of the view in the order, and how many match if each was looked at.
fn ranked(
    recording: &ViewedRecording,
    view: &View,
    sorting: Sorting,
    end: usize,
    is_cancelled: &AtomicBool,
) -> Result<(Vec<Ranked>, Option<u64>), ViewError> {
    let windows = Windows::of(view, &recording.overview);
    let kinds = view.kinds();
    let mut groups = row_groups(recording, &windows.time_ns);
    groups.retain(|&group| recording.row_groups[group].time_ns.1 >= windows.time_ns.start);
    let by_worst = sorting.order == Order::Response && sorting.is_descending;
    let ios: u64 = groups.iter().map(|&group| recording.row_groups[group].ios).sum();
    if by_worst {
        groups.sort_by_key(|&group| Reverse(recording.row_groups[group].response_ns_max));
    } else if ios > SORTED_IOS_MOST {
        return Err(ViewError::TooMany { ios, most: SORTED_IOS_MOST, purpose: "sorted" });
    }
    // Ascending ranks are in the table's order.
    let rank = |key: u64| if sorting.is_descending { u64::MAX - key } else { key };
    let mut found: Vec<Ranked> = Vec::new();
    let mut matching = 0;
    let mut columns = Columns::default();
    let mut is_complete = true;
    for group in groups {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(ViewError::Cancelled);
        }
        let best_left = rank(recording.row_groups[group].response_ns_max);
        // Counting all of a narrow window costs little, and tells how many there are.
        if by_worst && ios > SORTED_IOS_MOST && found.len() >= end {
            found.sort_unstable();
            found.truncate(end);
            let Some(&(last, ..)) = found.last() else { continue };
            is_complete = false;
            if last < best_left {
                break;
            }
            // One column is read in a tenth of the time of all.
            if recording.longest_response(group, &mut columns, &windows)? < u64::MAX - last {
                continue;
            }
        }
        let ios = recording.ios(group, ios <= SORTED_IOS_MOST, &mut columns)?;
        for index in 0..ios.len() {
            if windows.show(view, &kinds, &ios, index) {
                matching += 1;
                found.push((rank(sorting.order.key(&ios, index)), group as u32, index as u32));
            }
        }
        if found.len() > 4 * end + 4096 {
            found.select_nth_unstable(end);
            found.truncate(end);
        }
    }
    found.sort_unstable();
    found.truncate(end);
    Ok((found, is_complete.then_some(matching)))
}

/// The whole samples of these IOs, with their runs.
fn samples(recording: &ViewedRecording, ranked: &[Ranked]) -> Result<Vec<(u32, Sample)>, ViewError> {
    let mut order: Vec<usize> = (0..ranked.len()).collect();
    order.sort_by_key(|&at| ranked[at].1);
    let mut samples: Vec<Option<(u32, Sample)>> = vec![None; ranked.len()];
    let mut columns = Columns::default();
    for of_group in order.chunk_by(|&a, &b| ranked[a].1 == ranked[b].1) {
        recording.read_whole(ranked[of_group[0]].1 as usize, &mut columns)?;
        for &at in of_group {
            let index = ranked[at].2 as usize;
            samples[at] = Some((columns.run[index] as u32, columns.sample(index)));
        }
    }
    Ok(samples.into_iter().flatten().collect())
}
