//! Sun and Zhang: the parameters of three USB drives, recovered from outside by the paper's benchmarks.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Arena, Device, Operation, Request};
use flashlab_sim::SimulatedDevice;

use crate::lab::{ReproduceError, Result, device, on_all_processors};
use crate::{Agreement, Figure, Reproduction};

/// Figures 2 to 19, Tables 2 and 3.
pub(crate) const ALL_OF_IT: Reproduction = Reproduction {
    name: "sun-zhang",
    title: "Three USB drives: groups, log blocks, page size, content, large requests",
    source: "Sun and Zhang, Flash Drives: Performance Study Based On Benchmarks, Figures 2 to 19, Tables 2 and 3",
    measure,
};

/// The paper's unit of reading and writing.
const BLOCK: Bytes = Bytes::kib(4);

/// The drive, and of Table 3: groups, pages of 4 KiB in a log block, log list, whether zeros cost what ones cost.
const TABLE_3: [(&str, f64, f64, f64, f64); 3] = [
    ("sun-zhang-unknown", 4.0, 64.0, 3.0, 0.0),
    ("sun-zhang-kingston", 2.0, 128.0, 4.0, 1.0),
    ("sun-zhang-pny", 2.0, 256.0, 4.0, 1.0),
];

/// Table 2 in microseconds: m, the round, the positions.
const TABLE_2: [(u64, u32, &[f64]); 4] = [
    (3, 1, &[28994.0, 28750.0, 28657.0]),
    (3, 2, &[2600.0, 2722.0, 2598.0]),
    (4, 1, &[29296.0, 28495.0, 28723.0, 28919.0]),
    (4, 2, &[28594.0, 28726.0, 28719.0, 28797.0]),
];

/// What a block of 4 KiB is filled with.
#[derive(Clone, Copy)]
enum Fill {
    Zeros,
    Ones,
    Random,
    /// The first so many bytes random, the rest zeros.
    First(usize),
}

/// A drive and its clock, one request at a time.
struct Drive {
    name: &'static str,
    device: SimulatedDevice,
    capacity: Bytes,
    random: Prng,
}

impl Drive {
    /// A drive whose every page was written once, with anything.
    fn written(name: &'static str) -> Result<Drive> {
        let mut device = device(name)?;
        let capacity = device.geometry().capacity;
        let step = Bytes::kib(128);
        let mut ios = (0..capacity.0 / step.0).map(|i| (Operation::Write, Bytes(i * step.0), step));
        device.condition(&mut ios).map_err(|error| ReproduceError::new(name, error))?;
        Ok(Drive { name, device, capacity, random: Prng::new(Seed(1)) })
    }

    /// The response time of one request, in milliseconds.
    fn timed(&mut self, operation: Operation, offset: Bytes, size: Bytes, fill: Fill) -> Result<f64> {
        let mut buffer = Arena::buffers(1, size).remove(0);
        match fill {
            Fill::Zeros => buffer.fill(0),
            Fill::Ones => buffer.fill(0xFF),
            Fill::Random => buffer.fill(0x5A),
            Fill::First(bytes) => buffer.chunks_mut(BLOCK.0 as usize).for_each(|block| {
                block.fill(0);
                block[..bytes].fill(0x5A);
            }),
        }
        self.device.submit(Request { tag: 0, operation, offset, size, buffer });
        let done = self.device.wait(Nanos::MAX).expect("one request is in flight");
        done.result.map_err(|error| ReproduceError::new(self.name, error))?;
        Ok(done.completed.since(done.submitted).as_secs_f64() * 1e3)
    }

    fn read(&mut self, offset: Bytes, size: Bytes) -> Result<f64> {
        self.timed(Operation::Read, offset, size, Fill::Zeros)
    }

    /// A random multiple of 4 KiB below `end`, with room for `size`.
    fn anywhere(&mut self, end: Bytes, size: Bytes) -> Bytes {
        Bytes(self.random.below((end.0 - size.0) / BLOCK.0 + 1) * BLOCK.0)
    }

    /// Random reads of `size` within the first `end` bytes.
    fn random_reads(&mut self, count: usize, end: Bytes, size: Bytes) -> Result<Vec<f64>> {
        (0..count)
            .map(|_| {
                let offset = self.anywhere(end, size);
                self.read(offset, size)
            })
            .collect()
    }

    /// Writes of 4 KiB one behind the other.
    fn writes(&mut self, from: Bytes, count: u64, fill: Fill) -> Result<Vec<f64>> {
        (0..count).map(|i| self.timed(Operation::Write, from + Bytes(i * BLOCK.0), BLOCK, fill)).collect()
    }

    /// What a merge costs when blocks of one content are written over those of another: the dear ones of sequential
    /// writes, when the logs hold nothing else any more.
    fn merge_ms(&mut self, from: Bytes, before: Fill, then: Fill) -> Result<f64> {
        self.writes(from, 4096, before)?;
        let times = self.writes(from, 4096, then)?;
        Ok(levels(&times[2048..]).1)
    }
}

/// The means of the two groups that times fall into, divided at the widest gap.
fn levels(times: &[f64]) -> (f64, f64) {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let gap = |&i: &usize| sorted[i] - sorted[i - 1];
    let at = (1..sorted.len()).max_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap_or(0);
    (mean(&sorted[..at]), mean(&sorted[at..]))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn measure() -> Result<Vec<Figure>> {
    Ok(on_all_processors(&TABLE_3, table_3)?.concat())
}

fn figure(device: &str, quantity: &str, unit: &str, paper: f64, flashlab: f64, within: f64) -> Figure {
    Figure {
        device: device.to_owned(),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        paper: Some(paper),
        flashlab: Some(flashlab),
        agreement: Agreement::Within(within),
    }
}

/// Table 3 of one drive, and what else the paper says of the unknown one.
fn table_3(paper: &(&'static str, f64, f64, f64, f64)) -> Result<Vec<Figure>> {
    let &(name, groups, log_block, log_list, same) = paper;
    let mut drive = Drive::written(name)?;
    let exactly = |quantity: &str, unit: &str, paper: f64, flashlab: f64| {
        figure(name, quantity, unit, paper, flashlab, 0.0)
    };

    // Section 4.1: the shortest distance from the first block at which reads always switch.
    let everywhere = drive.random_reads(1000, drive.capacity, BLOCK)?;
    let (near, far) = levels(&everywhere);
    let mut span = Bytes::mib(1);
    while span < drive.capacity {
        drive.read(Bytes::ZERO, BLOCK)?;
        if drive.read(span, BLOCK)? > (near + far) / 2.0 {
            break;
        }
        span += Bytes::mib(1);
    }

    // Section 3.4: the distance of dear sequential writes.
    let sequential = drive.writes(Bytes::ZERO, 4096, Fill::Random)?;
    let (cheap, merge) = levels(&sequential);
    let threshold = (cheap * merge).sqrt();
    let dear: Vec<usize> = (0..sequential.len()).filter(|&i| sequential[i] > threshold).collect();
    let mut distances: Vec<f64> = dear.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    distances.sort_by(f64::total_cmp);
    let log_pages = distances.get(distances.len() / 2).copied().unwrap_or(0.0);

    // Section 4.2.
    let base = Bytes::mib(64);
    let ones = drive.merge_ms(base, Fill::Zeros, Fill::Ones)?;
    let zeros = drive.merge_ms(base, Fill::Ones, Fill::Zeros)?;
    let alike = if (zeros / ones - 1.0).abs() < 0.1 { 1.0 } else { 0.0 };

    let mut figures = vec![
        exactly("groups", "", groups, (drive.capacity.0 as f64 / span.0 as f64).round()),
        exactly("log_block_4k_pages", "", log_block, log_pages),
        exactly("zero_same_as_one", "", same, alike),
    ];
    let segment = Bytes(log_pages.round() as u64 * BLOCK.0);
    let rounds = log_list_rounds(&mut drive, segment, threshold.min((cheap * zeros).sqrt()))?;
    figures.push(exactly("log_list_size", "", log_list, rounds.size));
    if name != "sun-zhang-unknown" {
        return Ok(figures);
    }
    let near_enough =
        |quantity: &str, unit: &str, paper, flashlab| figure(name, quantity, unit, paper, flashlab, 0.15);
    figures.extend([
        near_enough("group_span_mb", "MB", 240.0, span.0 as f64 / (1 << 20) as f64),
        near_enough("random_read_same_group_ms", "ms", 0.75, mean(&drive.random_reads(1000, span, BLOCK)?)),
        near_enough("random_read_other_group_ms", "ms", 1.0, far),
        near_enough("seq_write_ms", "ms", 1.5, cheap),
        near_enough("merge_zero_ms", "ms", 25.0, zeros),
        near_enough("merge_one_ms", "ms", 120.0, ones),
    ]);
    figures.extend(unknown_drive(&mut drive, &everywhere, merge, ones)?);
    for (m, round, times) in TABLE_2 {
        for (position, (&paper, ours)) in times.iter().zip(rounds.us(m, round)).enumerate() {
            let quantity = format!("table 2 m={m} round {round} position_{}", position + 1);
            figures.push(near_enough(&quantity, "us", paper, *ours));
        }
    }
    Ok(figures)
}

/// What the figures show of the unknown drive.
fn unknown_drive(drive: &mut Drive, everywhere: &[f64], merge: f64, ones: f64) -> Result<Vec<Figure>> {
    let near_enough = |quantity: &str, unit: &str, paper, flashlab| {
        figure("sun-zhang-unknown", quantity, unit, paper, flashlab, 0.15)
    };
    let base = Bytes::mib(64);
    let mut sequential = Vec::new();
    for i in 0..1000 {
        sequential.push(drive.read(Bytes(i * BLOCK.0), BLOCK)?);
    }
    let both_halves = drive.merge_ms(base, Fill::Zeros, Fill::Random)?;
    let half = drive.merge_ms(base, Fill::Zeros, Fill::First(2048))?;
    // Section 4.2: the largest part of a block that can hold bits while the merge stays cheaper than a full one.
    let mut page_kib = 4.0;
    for part in [2048, 1024, 512] {
        if drive.merge_ms(base, Fill::Zeros, Fill::First(part))? < 0.9 * ones {
            page_kib = part as f64 / 1024.0;
            break;
        }
    }
    let mut random_writes = Vec::new();
    for _ in 0..1000 {
        let offset = drive.anywhere(drive.capacity, BLOCK);
        random_writes.push(drive.timed(Operation::Write, offset, BLOCK, Fill::Random)?);
    }
    random_writes.sort_by(f64::total_cmp);
    let (into_log, zeros_merged) = (again(drive)?, merge_of_zeros(drive)?);
    let large = Bytes(30 * BLOCK.0);
    let at_once = mean(&drive.random_reads(1000, drive.capacity, large)?);
    Ok(vec![
        near_enough("page_kib", "KiB", 2.0, page_kib),
        near_enough("random_write_merge_ms", "ms", 120.0, random_writes[500]),
        near_enough("figure 3 sequential_read_ms", "ms", 0.75, mean(&sequential)),
        near_enough("figure 4 random_write_of_zeros_ms", "ms", 30.0, zeros_merged),
        near_enough("figure 4 random_write_without_merge_ms", "ms", 2.0, into_log),
        near_enough("figure 5 sequential_write_merge_ms", "ms", 120.0, merge),
        near_enough("figure 13 merge_random_ms", "ms", 120.0, both_halves),
        near_enough("figure 14 merge_half_ms", "ms", 60.0, half),
        near_enough("figure 15 merge_both_halves_ms", "ms", 120.0, both_halves),
        near_enough("figure 16 large_read_against_small_reads", "", 0.25, at_once / 30.0 / mean(everywhere)),
        near_enough("figure 17 large_read_per_block_ms", "ms", 0.25, at_once / 30.0),
    ])
}

/// A second write to where the one before it went: the log is there (section 4.4).
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
    let mut times = Vec::new();
    for _ in 0..100 {
        let offset = drive.anywhere(size, BLOCK);
        times.push(drive.timed(Operation::Write, offset, BLOCK, Fill::Random)?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[50])
}

/// The rounds of section 4.3.
struct Rounds {
    size: f64,
    /// m, the round, the time of each position in microseconds.
    times: Vec<(u64, u32, Vec<f64>)>,
}

impl Rounds {
    fn us(&self, m: u64, round: u32) -> &[f64] {
        self.times.iter().find(|rounds| (rounds.0, rounds.1) == (m, round)).map_or(&[], |rounds| &rounds.2)
    }
}

/// Section 4.3: m writes a segment apart, twice; when the second round merges again, the list has m - 1 logs. Among
/// blocks of zeros.
fn log_list_rounds(drive: &mut Drive, segment: Bytes, merges_from_ms: f64) -> Result<Rounds> {
    let mut rounds = Rounds { size: 0.0, times: Vec::new() };
    let base = Bytes::mib(128);
    drive.writes(base, 64 * segment.0 / BLOCK.0, Fill::Zeros)?;
    for m in 1..=8 {
        let mut second = Vec::new();
        for round in 1..=2 {
            second.clear();
            for position in 0..m {
                // Each m among segments of its own.
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
