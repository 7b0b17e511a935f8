//! What the panels count, against a look at every sample.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use flashlab_base::Sample;
use flashlab_view::count::count;
use flashlab_view::ios::IoKind;
use flashlab_view::panels::Counted;
use flashlab_view::response_bins::ResponseBins;
use flashlab_view::view::{Errors, View};

use crate::made;
use crate::shared::{LARGE, Made, SMALL};

/// Cells with their reads and writes.
type Cells = BTreeMap<(usize, usize), [u32; 2]>;

fn counted(made: &Made, view: &View, is_patient: bool) -> Counted {
    count(&made.recording, view, 500, is_patient, &AtomicBool::new(false)).unwrap()
}

fn kind(sample: &Sample) -> IoKind {
    IoKind::new(sample.mode.is_write(), sample.errno != 0, sample.size.0)
}

/// Counts the samples of the windows that were counted, and compares.
fn compare(made: &Made, view: &View, counted: &Counted) {
    let (windows, layout) = (&counted.windows, &counted.tally.layout);
    let bins = ResponseBins::default();
    let [mut time_response, mut offset_response, mut time_offset] =
        [Cells::new(), Cells::new(), Cells::new()];
    let mut extremes: BTreeMap<(usize, usize), [u64; 2]> = BTreeMap::new();
    let mut bytes: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut spent = vec![0.0; layout.time.count];
    let origin = made.origin_ns();
    for (run, sample) in &made.samples {
        let (time, response) = (sample.intended.0 - origin, sample.completed.0 - sample.intended.0);
        let is_shown = view.has_kind(kind(sample))
            && windows.offset_bytes.contains(&sample.offset.0)
            && windows.response_ns.contains(&response)
            && view.process.is_none_or(|process| process == sample.process)
            && view.run.is_none_or(|shown| shown == *run);
        if !is_shown {
            continue;
        }
        let columns = layout.time.count as u64;
        let column_of =
            |time: u64| (time >> layout.time.shift).saturating_sub(layout.time.first).min(columns);
        for column in column_of(time)..=column_of(time + response).min(columns - 1) {
            let spent = &mut spent[column as usize];
            let start = layout.time.start() + column * layout.time.step();
            let end = start + layout.time.step();
            *spent += (time + response).min(end).saturating_sub(time.max(start)) as f64;
        }
        if !windows.time_ns.contains(&time) {
            continue;
        }
        let mode = usize::from(sample.mode.is_write());
        let column = layout.time.column(time).unwrap();
        let row = layout.offset.column(sample.offset.0).unwrap();
        let bin = usize::from(bins.bin(response) - layout.bins.start);
        time_response.entry((column, bin)).or_default()[mode] += 1;
        offset_response.entry((row, bin)).or_default()[mode] += 1;
        time_offset.entry((layout.offset_time.column(time).unwrap(), row)).or_default()[mode] += 1;
        let known = extremes.entry((column, mode)).or_insert([u64::MAX, 0]);
        *known = [known[0].min(response), known[1].max(response)];
        *bytes.entry((column, mode)).or_default() += sample.size.0;
    }
    let bin_count = usize::from(layout.bins.end - layout.bins.start);
    let cells = |counts: &[[u32; 2]], rows: usize| -> Cells {
        let with_ios = counts.iter().enumerate().filter(|(_, count)| **count != [0, 0]);
        with_ios.map(|(at, count)| ((at / rows, at % rows), *count)).collect()
    };
    assert!(!time_response.is_empty(), "the view shows something");
    assert_eq!(cells(&counted.tally.time_response, bin_count), time_response);
    assert_eq!(cells(&counted.tally.offset_response, bin_count), offset_response);
    assert_eq!(cells(&counted.tally.time_offset, layout.offset.count), time_offset);
    if counted.has_column_sums {
        for (column, sums) in counted.tally.columns.iter().enumerate() {
            for mode in 0..2 {
                let expected = extremes.get(&(column, mode)).copied().unwrap_or([u64::MAX, 0]);
                assert_eq!([sums.response_ns_min[mode], sums.response_ns_max[mode]], expected);
                assert_eq!(sums.bytes[mode], bytes.get(&(column, mode)).copied().unwrap_or(0));
            }
        }
        for (column, (mean, spent)) in counted.tally.in_flight().iter().zip(&spent).enumerate() {
            let expected = spent / layout.time.step() as f64;
            assert!(
                (mean - expected).abs() < 1e-6,
                "column {column}: {mean} in flight, {expected} by the samples"
            );
        }
    }
}

#[test]
fn the_pyramid_counts_all_ios() {
    let counted = counted(&LARGE, &View::default(), false);
    assert!(counted.is_exact && counted.has_column_sums && counted.points.is_none());
    compare(&LARGE, &View::default(), &counted);
    assert_eq!(counted.tally.ios(), [540_000, 540_000]);
}

#[test]
fn one_outlier_among_all_ios_has_a_cell_of_its_own() {
    let counted = counted(&LARGE, &View::default(), false);
    let longest = counted.tally.columns.iter().flat_map(|column| column.response_ns_max).max();
    assert_eq!(longest, Some(made::OUTLIER.0));
    assert_eq!(counted.tally.histogram.last(), Some(&[0, 1]));
}

#[test]
fn the_pyramid_counts_whole_cells_of_windows_and_filters() {
    let end = LARGE.recording.overview.time_end_ns;
    let views = [
        View { time_ns: Some(1000..end - 1000), ..View::default() },
        View { offset_bytes: Some(100 << 20..300 << 20), ..View::default() },
        View { response_ns: Some(20_000..3_000_000), ..View::default() },
        View { without_reads: true, ..View::default() },
        View { errors: Errors::None, size_classes: Some(BTreeSet::from([12, 16])), ..View::default() },
    ];
    for view in views {
        let counted = counted(&LARGE, &view, false);
        assert!(counted.points.is_none(), "{view:?}");
        compare(&LARGE, &view, &counted);
    }
}

#[test]
fn a_look_at_each_io_counts_exactly_the_windows() {
    let end = LARGE.recording.overview.time_end_ns;
    let windows = View {
        time_ns: Some(end / 3 + 1..end / 3 * 2 + 5),
        offset_bytes: Some(123_456_789..987_654_321),
        response_ns: Some(13_000..160_001),
        ..View::default()
    };
    let views = [
        windows.clone(),
        View { errors: Errors::Only, ..View::default() },
        View { process: Some(1), ..windows.clone() },
        View { run: Some(2), ..View::default() },
        View { size_classes: Some(BTreeSet::from([14])), ..View::default() },
    ];
    for view in views {
        let counted = counted(&LARGE, &view, true);
        assert!(counted.is_exact && !counted.could_be_finer && counted.has_column_sums, "{view:?}");
        compare(&LARGE, &view, &counted);
        let windows = &counted.windows;
        for (asked, counted) in [
            (&view.time_ns, &windows.time_ns),
            (&view.offset_bytes, &windows.offset_bytes),
            (&view.response_ns, &windows.response_ns),
        ] {
            assert!(asked.as_ref().is_none_or(|asked| asked == counted), "{asked:?} for {counted:?}");
        }
    }
}

#[test]
fn few_ios_are_there_as_points() {
    let view = View { errors: Errors::None, ..View::default() };
    let counted = counted(&SMALL, &view, false);
    compare(&SMALL, &view, &counted);
    let points = counted.points.expect("20,000 IOs are few");
    let mut found: Vec<(u64, u64)> = points.time_ns.iter().copied().zip(points.response_ns).collect();
    let origin = SMALL.origin_ns();
    let good = SMALL.samples.iter().filter(|(_, sample)| sample.errno == 0);
    let mut expected: Vec<(u64, u64)> = good
        .map(|(_, sample)| (sample.intended.0 - origin, sample.completed.0 - sample.intended.0))
        .collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn windows_outside_of_the_recording_count_nothing() {
    for view in [
        View { time_ns: Some(u64::MAX - 5..u64::MAX), ..View::default() },
        View { offset_bytes: Some(1 << 40..1 << 41), ..View::default() },
        View { response_ns: Some(1 << 60..1 << 61), ..View::default() },
    ] {
        for made in [&SMALL, &LARGE] {
            let counted = counted(made, &view, false);
            assert_eq!(counted.tally.ios(), [0, 0], "{view:?}");
        }
    }
}
