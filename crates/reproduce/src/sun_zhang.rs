//! Reproduces Sun and Zhang: the hidden parameters of three USB drives, found from outside with the paper's
//! benchmarks.

mod drive;
mod figures;

use flashlab_base::{Bytes, Seed};
use flashlab_device::Operation;

use crate::lab::{Result, mean, on_all_processors};
use crate::papers::Measurement;
use crate::reproduction::{Measured, Reproduction};
use drive::{BLOCK, Drive, Fill, UNKNOWN, levels, times};

/// Figures 2 to 19, Tables 2 and 3.
pub(crate) const ALL_OF_IT: Reproduction = Reproduction {
    name: "sun-zhang",
    title: "Three USB drives: groups, log blocks, page size, content, large requests",
    source: "Sun and Zhang, Flash Drives: Performance Study Based On Benchmarks, Figures 2 to 19, Tables 2 and 3",
    measure,
};

const DRIVES: [&str; 3] = [UNKNOWN, "sun-zhang-kingston", "sun-zhang-pny"];

fn measure(seed: Seed) -> Result<Measured> {
    let drives = on_all_processors(&DRIVES, |name| table_3(name, seed))?;
    let (mut values, mut pictures) = (Vec::new(), Vec::new());
    for drive in drives {
        values.extend(drive.values);
        pictures.extend(drive.pictures);
    }
    Ok(Measured { values, pictures })
}

/// Table 3 of one drive, and the paper's other values of the unknown drive.
fn table_3(name: &'static str, seed: Seed) -> Result<Measured> {
    let mut drive = Drive::written(name, seed)?;
    let value = |quantity: &str, unit, value: f64| Measurement::new(name, quantity, unit, value);

    // Section 4.1: the shortest distance from the first block at which reads always switch.
    let everywhere = drive.random_reads(1000, drive.capacity, BLOCK)?;
    let (near, far) = levels(&times(&everywhere));
    let mut span = Bytes::mib(1);
    while span < drive.capacity {
        drive.read(Bytes::ZERO, BLOCK)?;
        if drive.read(span, BLOCK)? > (near + far) / 2.0 {
            break;
        }
        span += Bytes::mib(1);
    }

    // Section 3.4: the distance between slow sequential writes.
    let sequential = drive.writes(Bytes::ZERO, 4096, Fill::Random)?;
    let (cheap, merge) = levels(&sequential);
    let threshold = (cheap * merge).sqrt();
    let expensive: Vec<usize> = (0..sequential.len()).filter(|&i| sequential[i] > threshold).collect();
    let mut distances: Vec<f64> = expensive.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    distances.sort_by(f64::total_cmp);
    let log_pages = distances.get(distances.len() / 2).copied().unwrap_or(0.0);

    // Section 4.2.
    let base = Bytes::mib(64);
    let ones = drive.merge_ms(base, Fill::Zeros, Fill::Ones)?;
    let zeros = drive.merge_ms(base, Fill::Ones, Fill::Zeros)?;
    let alike = if (zeros / ones - 1.0).abs() < 0.1 { 1.0 } else { 0.0 };

    let segment = Bytes(log_pages.round() as u64 * BLOCK.0);
    let rounds = log_list_rounds(&mut drive, segment, threshold.min((cheap * zeros).sqrt()))?;
    let mut values = vec![
        value("groups", "", (drive.capacity.0 as f64 / span.0 as f64).round()),
        value("log_block_4k_pages", "", log_pages),
        value("zero_same_as_one", "", alike),
        value("log_list_size", "", rounds.size),
    ];
    if name != UNKNOWN {
        return Ok(Measured { values, pictures: Vec::new() });
    }
    let same_group = drive.random_reads(1000, span, BLOCK)?;
    values.extend([
        value("group_span_mb", "MB", span.0 as f64 / (1 << 20) as f64),
        value("random_read_same_group_ms", "ms", mean(&times(&same_group))),
        value("random_read_other_group_ms", "ms", far),
        value("seq_write_ms", "ms", cheap),
        value("merge_zero_ms", "ms", zeros),
        value("merge_one_ms", "ms", ones),
        value("figure 5 sequential_write_merge_ms", "ms", merge),
    ]);
    // Table 2.
    for (m, round) in [(3, 1), (3, 2), (4, 1), (4, 2)] {
        let us = rounds.us(m, round).iter().enumerate();
        values.extend(us.map(|(i, us)| value(&format!("position_{} m={m} round={round}", i + 1), "us", *us)));
    }
    let mut pictures = vec![figures::figure_7(&everywhere), figures::figure_5(&sequential)];
    let rest = figures::measure(&mut drive, &everywhere, ones, segment)?;
    values.extend(rest.values);
    pictures.extend(rest.pictures);
    Ok(Measured { values, pictures })
}

/// The rounds of section 4.3.
struct Rounds {
    size: f64,
    /// m, the round, and the time of each position in microseconds.
    times: Vec<(u64, u32, Vec<f64>)>,
}

impl Rounds {
    fn us(&self, m: u64, round: u32) -> &[f64] {
        self.times.iter().find(|rounds| (rounds.0, rounds.1) == (m, round)).map_or(&[], |rounds| &rounds.2)
    }
}

/// Section 4.3: m writes, one to each of m segments of zeros, in two rounds. If the second round merges
/// again, the list has m - 1 logs.
fn log_list_rounds(drive: &mut Drive, segment: Bytes, merges_from_ms: f64) -> Result<Rounds> {
    let mut rounds = Rounds { size: 0.0, times: Vec::new() };
    let base = Bytes::mib(128);
    drive.writes(base, 64 * segment.0 / BLOCK.0, Fill::Zeros)?;
    for m in 1..=8 {
        let mut second = Vec::new();
        for round in 1..=2 {
            second.clear();
            for position in 0..m {
                // Each m has its own segments.
                let at = base + Bytes((m * (m - 1) / 2 + position) * segment.0);
                second.push(1e3 * drive.timed(Operation::Write, at, BLOCK, Fill::Random)?);
            }
            rounds.times.push((m, round, second.clone()));
        }
        if second.iter().all(|&us| us > 1e3 * merges_from_ms) {
            rounds.size = (m - 1) as f64;
            break;
        }
    }
    Ok(rounds)
}
