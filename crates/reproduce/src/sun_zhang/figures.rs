//! Figures 2 to 19, for the unknown drive.

use flashlab_base::{Bytes, median};
use flashlab_device::Operation;

use super::drive::{BLOCK, Drive, Fill, LARGEST, UNKNOWN, times};
use crate::lab::{Result, mean};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::Measured;

/// The paper's value in a picture.
fn level(quantity: &str, unit: &str) -> FigureSeries {
    let value = paper("sun-zhang", UNKNOWN, quantity);
    FigureSeries::level(format!("paper: {value} {unit}"), value)
}

fn ms(label: &str, scale: Scale) -> FigureAxis {
    FigureAxis::new(&format!("{label} (ms)"), scale)
}

/// Figures 2, 7 and 8: random reads over the distance from the previous read.
pub(super) fn figure_7(reads: &[(Bytes, f64)]) -> FigurePicture {
    let distance =
        |pair: &[(Bytes, f64)]| (pair[1].0.0.abs_diff(pair[0].0.0) as f64 / (1 << 20) as f64, pair[1].1);
    let span = paper("sun-zhang", UNKNOWN, "group_span_mb");
    let series = vec![
        FigureSeries::new(
            "random read of 4 KiB",
            SeriesStyle::Dots,
            reads.windows(2).map(distance).collect(),
        ),
        level("random_read_same_group_ms", "ms"),
        level("random_read_other_group_ms", "ms"),
        FigureSeries::place(format!("paper: {span} MB"), span),
    ];
    let x = FigureAxis::new("distance from the previous read (MiB)", Scale::Linear);
    let title = "Random reads of 4 KiB on the unknown drive";
    FigurePicture::new("sun-zhang-fig7", title, x, ms("response time", Scale::Linear), series)
}

/// Figure 5: sequential writes.
pub(super) fn figure_5(writes: &[f64]) -> FigurePicture {
    let series = vec![
        FigureSeries::new(
            "sequential write of 4 KiB",
            SeriesStyle::Dots,
            in_order(&writes[..writes.len().min(1000)]),
        ),
        level("seq_write_ms", "ms"),
        level("figure 5 sequential_write_merge_ms", "ms"),
    ];
    let title = "Sequential writes of 4 KiB on the unknown drive";
    FigurePicture::new(
        "sun-zhang-fig5",
        title,
        FigureAxis::new("write", Scale::Linear),
        ms("response time", Scale::Decimal),
        series,
    )
}

fn in_order(times: &[f64]) -> Vec<(f64, f64)> {
    times.iter().enumerate().map(|(i, ms)| (i as f64, *ms)).collect()
}

/// The values of the other figures. `everywhere` are random reads of one block, `ones` is the time of a merge
/// of ones, and `segment` is the size of a log block.
pub(super) fn measure(
    drive: &mut Drive,
    everywhere: &[(Bytes, f64)],
    ones: f64,
    segment: Bytes,
) -> Result<Measured> {
    let base = Bytes::mib(64);
    let mut sequential = Vec::new();
    for i in 0..1000 {
        sequential.push(drive.read(Bytes(i * BLOCK.0), BLOCK)?);
    }
    let both_halves = drive.merge_ms(base, Fill::Zeros, Fill::Random)?;
    let half = drive.merge_ms(base, Fill::Zeros, Fill::First(2048))?;
    // Section 4.2: the largest part of a block that can contain ones while the merge is still faster than
    // that of a full block.
    let mut page_kib = 4.0;
    for part in [2048, 1024, 512] {
        if drive.merge_ms(base, Fill::Zeros, Fill::First(part))? < 0.9 * ones {
            page_kib = part as f64 / 1024.0;
            break;
        }
    }
    let random_writes = random_writes(drive, 1000, drive.capacity)?;
    let (into_log, zeros_merged) = (again(drive)?, merge_of_zeros(drive)?);
    let reads = large_reads(drive)?;
    let merges = [
        ("figure 9 merge_zero_over_zero_ms", drive.merge_ms(base, Fill::Zeros, Fill::Zeros)?),
        ("figure 10 merge_one_over_zero_ms", drive.merge_ms(base, Fill::Zeros, Fill::Ones)?),
        ("figure 11 merge_zero_over_one_ms", drive.merge_ms(base, Fill::Ones, Fill::Zeros)?),
        ("figure 12 merge_one_over_one_ms", drive.merge_ms(base, Fill::Ones, Fill::Ones)?),
        ("figure 13 merge_random_ms", both_halves),
        ("figure 14 merge_half_ms", half),
        ("figure 15 merge_both_halves_ms", both_halves),
    ];
    let writes = large_writes(drive, segment)?;
    let per_block = |points: &[(f64, f64)]| points.last().map_or(f64::NAN, |point| point.1);
    let of_a_small_write = writes.first().map_or(f64::NAN, |point| point.1);
    let value = |quantity: &str, unit, value: f64| Measurement::new(UNKNOWN, quantity, unit, value);
    let mut values = vec![
        value("page_kib", "KiB", page_kib),
        value("random_write_merge_ms", "ms", median(&random_writes).unwrap_or(f64::NAN)),
        value("figure 3 sequential_read_ms", "ms", mean(&sequential)),
        value("figure 4 random_write_of_zeros_ms", "ms", zeros_merged),
        value("figure 4 random_write_without_merge_ms", "ms", into_log),
        value("figure 16 large_read_against_small_reads", "", per_block(&reads) / mean(&times(everywhere))),
        value("figure 17 large_read_per_block_ms", "ms", per_block(&reads)),
        value("figure 18 large_write_against_small_writes", "", per_block(&writes) / of_a_small_write),
        value("figure 19 large_write_per_block_ms", "ms", per_block(&writes)),
    ];
    values.extend(merges.iter().map(|(quantity, ms)| value(quantity, "ms", *ms)));
    let pictures = vec![figure_4(&random_writes), figures_9_to_15(&merges), figures_17_and_19(reads, writes)];
    Ok(Measured { values, pictures })
}

/// Random writes of a block within the first `end` bytes.
fn random_writes(drive: &mut Drive, count: usize, end: Bytes) -> Result<Vec<f64>> {
    let write = |_| {
        let offset = drive.anywhere(end, BLOCK);
        drive.timed(Operation::Write, offset, BLOCK, Fill::Random)
    };
    (0..count).map(write).collect()
}

/// A second write to the offset of the previous write, which has a log block now (section 4.4).
fn again(drive: &mut Drive) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..100 {
        let offset = drive.anywhere(drive.capacity, BLOCK);
        drive.timed(Operation::Write, offset, BLOCK, Fill::Random)?;
        times.push(drive.timed(Operation::Write, offset, BLOCK, Fill::Random)?);
    }
    Ok(mean(&times))
}

/// Random writes among blocks of zeros.
fn merge_of_zeros(drive: &mut Drive) -> Result<f64> {
    let size = Bytes::mib(128);
    drive.writes(Bytes::ZERO, size.0 / BLOCK.0, Fill::Zeros)?;
    Ok(median(&random_writes(drive, 100, size)?).unwrap_or(f64::NAN))
}

/// Figure 17: reads of several blocks at once, and the time per block.
fn large_reads(drive: &mut Drive) -> Result<Vec<(f64, f64)>> {
    let per_block = |blocks: u64| {
        let reads = drive.random_reads(1000, drive.capacity, Bytes(blocks * BLOCK.0))?;
        Ok((blocks as f64, mean(&times(&reads)) / blocks as f64))
    };
    (1..=LARGEST).map(per_block).collect()
}

/// Figure 19: the second of two writes to the same offset. It finds the log block of the first one and stays
/// within it.
fn large_writes(drive: &mut Drive, segment: Bytes) -> Result<Vec<(f64, f64)>> {
    let mut points = Vec::new();
    for blocks in 1..=LARGEST {
        let size = Bytes(blocks * BLOCK.0);
        let mut times = Vec::new();
        for _ in 0..100 {
            let from = drive.anywhere(drive.capacity - segment, segment).round_down(segment);
            let offset = from + drive.anywhere(segment, size);
            drive.timed(Operation::Write, offset, BLOCK, Fill::Random)?;
            times.push(drive.timed(Operation::Write, offset, size, Fill::Random)?);
        }
        points.push((blocks as f64, mean(&times) / blocks as f64));
    }
    Ok(points)
}

fn figure_4(writes: &[f64]) -> FigurePicture {
    let series = vec![
        FigureSeries::new("random write of 4 KiB", SeriesStyle::Dots, in_order(writes)),
        level("random_write_merge_ms", "ms"),
        level("figure 4 random_write_of_zeros_ms", "ms"),
        level("figure 4 random_write_without_merge_ms", "ms"),
    ];
    let title = "Random writes of 4 KiB on the unknown drive";
    FigurePicture::new(
        "sun-zhang-fig4",
        title,
        FigureAxis::new("write", Scale::Linear),
        ms("response time", Scale::Decimal),
        series,
    )
}

fn figures_9_to_15(merges: &[(&str, f64)]) -> FigurePicture {
    let figure = |i: usize| (9 + i) as f64;
    let ours = merges.iter().enumerate().map(|(i, (_, ms))| (figure(i), *ms)).collect();
    let of_paper = |quantity| paper("sun-zhang", UNKNOWN, quantity);
    let papers =
        merges.iter().enumerate().map(|(i, (quantity, _))| (figure(i), of_paper(quantity))).collect();
    let series = vec![
        FigureSeries::new("flashlab", SeriesStyle::Dots, ours),
        FigureSeries::new("paper", SeriesStyle::PaperCrosses, papers),
    ];
    let x = FigureAxis::new(
        "Figure: 9 and 11 write zeros, 10 and 12 ones, 13 and 15 both, 14 half of each block",
        Scale::Steps,
    );
    let title = "A merge on the unknown drive by what is written";
    FigurePicture::new("sun-zhang-fig9-15", title, x, ms("expensive sequential write", Scale::Linear), series)
}

fn figures_17_and_19(reads: Vec<(f64, f64)>, writes: Vec<(f64, f64)>) -> FigurePicture {
    let series = vec![
        FigureSeries::new("random reads", SeriesStyle::Curve, reads),
        FigureSeries::new("second writes to the same place", SeriesStyle::Curve, writes),
        level("figure 17 large_read_per_block_ms", "ms"),
    ];
    let x = FigureAxis::new("blocks of 4 KiB in a request", Scale::Linear);
    let title = "Large requests on the unknown drive";
    FigurePicture::new("sun-zhang-fig17-19", title, x, ms("time for each block", Scale::Linear), series)
}
