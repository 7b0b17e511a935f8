//! The answers of the server: what is shown, and the panels of a view in a frame (module `frame`).

use flashlab_base::{Bytes, Nanos, Span};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::frame::Arrays;
use crate::grid::ColumnGrid;
use crate::ios::IoKind;
use crate::panels::{ByMode, Counted, Tally};
use crate::recording::{MarkKind, ViewedRecording};
use crate::response_bins::{PER_OCTAVE, ResponseBins};

/// Shares of the distribution that are named.
const QUANTILES: [f64; 8] = [0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// A pause of less than one part in so many of a recording is no mark: it would be narrower than a pixel.
const PAUSES_MOST: u64 = 1000;

/// A recording, as the page shows it in its head.
#[derive(Serialize)]
pub struct RecordingHead<'a> {
    id: usize,
    name: &'a str,
    target: &'a str,
    verb: &'a str,
    ios: u64,
    failed: u64,
    is_growing: bool,
    has_report: bool,
    time_ns: [u64; 2],
    offset_bytes: [u64; 2],
    response_ns: [u64; 2],
    size_classes: Vec<SizeClass>,
    process_count: u32,
    runs: Vec<Run<'a>>,
    marks: Vec<Value>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct SizeClass {
    class: u8,
    name: String,
    ios: u64,
}

#[derive(Serialize)]
struct Run<'a> {
    run: u32,
    name: &'a str,
    time_ns: [u64; 2],
    ios: u64,
}

impl<'a> RecordingHead<'a> {
    /// The head of recording `id`.
    pub fn of(id: usize, recording: &'a ViewedRecording) -> RecordingHead<'a> {
        let (source, overview) = (&recording.source, &recording.overview);
        let by_kind =
            || overview.ios_by_kind.iter().enumerate().map(|(kind, &ios)| (IoKind(kind as u8), ios));
        let size_classes = (0..64).filter_map(|class| {
            let ios: u64 = by_kind().filter(|(kind, _)| kind.size_class() == class).map(|(_, ios)| ios).sum();
            (ios > 0).then(|| SizeClass { class, name: size_class_name(class), ios })
        });
        let name = |run| source.runs.iter().find(|label| label.run == run).map_or("", |label| &label.name);
        let mut notes = source.notes.clone();
        if overview.backward > 0 {
            notes.push(format!(
                "{} IOs completed before they began, by the clock of the recording: they are shown with 0 ns",
                overview.backward
            ));
        }
        let is_empty = overview.ios() == 0;
        let some = |window: [u64; 2]| if is_empty { [0, 0] } else { window };
        RecordingHead {
            id,
            name: &source.name,
            target: &source.target,
            verb: &source.verb,
            ios: overview.ios(),
            failed: by_kind().filter(|(kind, _)| kind.is_failed()).map(|(_, ios)| ios).sum(),
            is_growing: source.is_growing,
            has_report: source.report.is_some(),
            time_ns: some([0, overview.time_end_ns]),
            offset_bytes: some([overview.offset_first, overview.offset_end]),
            response_ns: some([overview.response_ns.0, overview.response_ns.1]),
            size_classes: size_classes.collect(),
            process_count: overview.process_count,
            runs: overview
                .runs
                .iter()
                .map(|run| Run {
                    run: run.run,
                    name: name(run.run),
                    time_ns: [run.time_ns.0, run.time_ns.1.saturating_add(1)],
                    ios: run.ios,
                })
                .collect(),
            marks: marks(recording),
            notes,
        }
    }
}

/// Start-up phases of runs, the pauses between them, failures, and what the source knows.
fn marks(recording: &ViewedRecording) -> Vec<Value> {
    let overview = &recording.overview;
    let runs = &overview.runs;
    let mark = |time_ns: (u64, u64), kind: &str, text: String| json!({ "time_ns": [time_ns.0, time_ns.1], "kind": kind, "text": text });
    let start_up = runs.iter().filter_map(|run| {
        let text = format!("start-up phase of run {}", run.run);
        Some(mark((run.time_ns.0, run.start_up_end_ns?.saturating_add(1)), "start-up phase", text))
    });
    // Between most runs of a simulated device there is none.
    let least = overview.time_end_ns / PAUSES_MOST;
    let pauses = runs.windows(2).filter_map(|two| {
        let (start, end) = (two[0].time_ns.1, two[1].time_ns.0);
        let text = || format!("pause of {} before run {}", Nanos(end - start), two[1].run);
        (end > start && end - start > least).then(|| mark((start, end), "pause", text()))
    });
    let failures = overview.failures.iter().map(|&Span { start_ns, end_ns, amount: count }| {
        mark(
            (start_ns, end_ns),
            "fault",
            if count == 1 { "an IO failed".to_owned() } else { format!("{count} IOs failed") },
        )
    });
    let of_source = recording.source.marks.iter().filter_map(|known| {
        let kind = match known.kind {
            MarkKind::Collection => "collection",
            MarkKind::Finding => "finding",
        };
        Some(mark(recording.marked_ns(known.when)?, kind, known.text.clone()))
    });
    start_up.chain(pauses).chain(failures).chain(of_source).collect()
}

/// The sizes of a class, as people read them.
fn size_class_name(class: u8) -> String {
    // A class of sectors has one size: between 2 KiB and 4 KiB there is seldom one.
    format!("up to {}", Bytes(1 << class.min(62)))
}

/// The panels of a view, as bytes.
pub fn panels(counted: &Counted) -> Vec<u8> {
    let tally = &counted.tally;
    let layout = &tally.layout;
    let mut arrays = Arrays::default();
    let bins = usize::from(layout.bins.end - layout.bins.start);
    let first = u32::from(layout.bins.start);
    arrays.put("time_response", cells(&tally.time_response, bins, first));
    arrays.put("offset_response", cells(&tally.offset_response, bins, first));
    arrays.put("time_offset", cells(&tally.time_offset, layout.offset.count, 0));
    let histogram = tally.histogram.iter().zip(first..).filter(|(counts, _)| **counts != [0, 0]);
    arrays.put(
        "histogram",
        histogram
            .flat_map(|(&[reads, writes], bin)| [bin, reads as u32, writes as u32])
            .collect::<Vec<u32>>(),
    );
    let distributions = [0, 1].map(|mode| Distribution::of(counted, mode));
    for (name, distribution) in ["cdf_read", "cdf_write"].into_iter().zip(&distributions) {
        arrays.put(name, distribution.as_ref().map_or(Vec::new(), |of| of.cdf.clone()));
    }
    arrays.put("rate", rates(counted));
    arrays.put("extremes", extremes(counted));
    let points = counted.points.as_ref();
    if let Some(points) = points {
        let floats = |values: &[u64]| values.iter().map(|&value| value as f64).collect::<Vec<f64>>();
        arrays.put("point_time", floats(&points.time_ns));
        arrays.put("point_offset", floats(&points.offset_bytes));
        arrays.put("point_response", floats(&points.response_ns));
        arrays.put("point_size", floats(&points.size_bytes));
        let kind = |kind: &IoKind| u32::from(kind.is_write()) | u32::from(kind.is_failed()) << 1;
        arrays.put("point_kind", points.kind.iter().map(kind).collect::<Vec<u32>>());
    }
    let [reads, writes] = tally.ios();
    let windows = &counted.windows;
    let [read, write] = distributions.map(|of| of.map(|of| of.summary));
    let failed: Option<u64> =
        counted.has_column_sums.then(|| tally.columns.iter().map(|column| column.failed).sum());
    let header = json!({
        "is_exact": counted.is_exact,
        "could_be_finer": counted.could_be_finer,
        "window": {
            "time_ns": [windows.time_ns.start, windows.time_ns.end],
            "offset_bytes": [windows.offset_bytes.start, windows.offset_bytes.end],
            "response_ns": [windows.response_ns.start, windows.response_ns.end],
        },
        "ios": { "read": reads, "write": writes, "failed": failed },
        "bins_per_octave": PER_OCTAVE,
        "time": columns(&layout.time, "ns"),
        "offset_time": columns(&layout.offset_time, "ns"),
        "offset": columns(&layout.offset, "bytes"),
        "points": points.map_or(0, |points| points.len()),
        "distribution": { "read": read, "write": write },
    });
    arrays.framed(header)
}

fn columns(grid: &ColumnGrid, unit: &str) -> Value {
    let mut columns = Map::new();
    columns.insert(format!("start_{unit}"), grid.start().into());
    columns.insert(format!("step_{unit}"), grid.step().into());
    columns.insert("count".to_owned(), grid.count.into());
    Value::Object(columns)
}

/// The cells that have IOs: column, row, reads, writes.
fn cells(counts: &[ByMode<u32>], rows: usize, first_row: u32) -> Vec<u32> {
    let with_ios = counts.iter().enumerate().filter(|(_, count)| **count != [0, 0]);
    with_ios
        .flat_map(|(at, &[reads, writes])| {
            [(at / rows) as u32, (at % rows) as u32 + first_row, reads, writes]
        })
        .collect()
}

/// Rates in each column over time: reads/s, writes/s, read bytes/s, written bytes/s, mean IOs in flight.
fn rates(counted: &Counted) -> Vec<f64> {
    let tally = &counted.tally;
    let grid = tally.layout.time;
    let in_flight = tally.in_flight();
    let ios = ios_by_column(tally);
    let mut rates = Vec::with_capacity(5 * grid.count);
    for (column, sums) in tally.columns.iter().enumerate() {
        // Of the first and of the last column only a part may be in the window.
        let start = grid.start() + ((column as u64) << grid.shift);
        let window = &counted.windows.time_ns;
        let covered_ns = (start + grid.step()).min(window.end).saturating_sub(start.max(window.start)).max(1);
        let per_second = |amount: u64| amount as f64 * 1e9 / covered_ns as f64;
        rates.extend(ios[column].map(per_second));
        if counted.has_column_sums {
            rates.extend([per_second(sums.bytes[0]), per_second(sums.bytes[1]), in_flight[column]]);
        } else {
            rates.extend([f64::NAN; 3]);
        }
    }
    rates
}

fn ios_by_column(tally: &Tally) -> Vec<ByMode<u64>> {
    let rows = usize::from(tally.layout.bins.end - tally.layout.bins.start);
    let sum = |cells: &[ByMode<u32>], mode: usize| cells.iter().map(|cell| u64::from(cell[mode])).sum();
    tally.time_response.chunks(rows).map(|cells| [0, 1].map(|mode| sum(cells, mode))).collect()
}

/// The shortest and the longest response time of each column, of reads and of writes; NaN where they are not known.
fn extremes(counted: &Counted) -> Vec<f64> {
    let known =
        |sums: &crate::panels::ColumnSums, mode: usize| match counted.has_column_sums && sums.ios[mode] > 0 {
            true => [sums.response_ns_min[mode] as f64, sums.response_ns_max[mode] as f64],
            false => [f64::NAN; 2],
        };
    counted
        .tally
        .columns
        .iter()
        .flat_map(|sums| [known(sums, 0), known(sums, 1)].into_iter().flatten())
        .collect()
}

/// How response times are distributed.
struct Distribution {
    summary: Value,
    /// Pairs: a response time, and the share of IOs that took at most so long.
    cdf: Vec<f64>,
}

impl Distribution {
    /// That of reads or of writes; `None` without IOs.
    fn of(counted: &Counted, mode: usize) -> Option<Distribution> {
        let tally = &counted.tally;
        let count = tally.ios()[mode];
        if count == 0 {
            return None;
        }
        let bins = ResponseBins::default();
        let sums = || tally.columns.iter().filter(|column| column.ios[mode] > 0);
        let extremes = counted.has_column_sums.then(|| {
            let shortest = sums().map(|column| column.response_ns_min[mode]).min();
            shortest.zip(sums().map(|column| column.response_ns_max[mode]).max())
        });
        let (shortest, longest) = extremes.flatten().unzip();
        let mean = counted
            .has_column_sums
            .then(|| sums().map(|column| column.response_ns_sum[mode] as f64).sum::<f64>() / count as f64);
        let mut cdf = Vec::new();
        let mut quantiles = Vec::new();
        let mut below = 0;
        for (bin, counts) in (tally.layout.bins.start..).zip(&tally.histogram) {
            if counts[mode] == 0 {
                continue;
            }
            below += counts[mode];
            let edge = (bins.lower_edge(bin + 1) - 1).min(longest.unwrap_or(u64::MAX)) as f64;
            cdf.extend([edge, below as f64 / count as f64]);
            while let Some(share) = QUANTILES.get(quantiles.len())
                && below as f64 >= share * count as f64
            {
                quantiles.push((*share, edge));
            }
        }
        let summary =
            json!({ "mean_ns": mean, "min_ns": shortest, "max_ns": longest, "quantiles": quantiles });
        Some(Distribution { summary, cdf })
    }
}
