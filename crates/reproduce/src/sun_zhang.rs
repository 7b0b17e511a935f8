//! Sun and Zhang: the parameters of three USB drives, recovered from outside by the paper's benchmarks.

mod figures;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Arena, Device, Operation, Request};
use flashlab_sim::SimulatedDevice;

use crate::lab::{ReproduceError, Result, condition, device, mean, on_all_processors};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Look, Scale};
use crate::{Measured, Reproduction};

/// Figures 2 to 19, Tables 2 and 3.
pub(crate) const ALL_OF_IT: Reproduction = Reproduction {
    name: "sun-zhang",
    title: "Three USB drives: groups, log blocks, page size, content, large requests",
    source: "Sun and Zhang, Flash Drives: Performance Study Based On Benchmarks, Figures 2 to 19, Tables 2 and 3",
    measure,
};

/// The paper's unit of reading and writing.
const BLOCK: Bytes = Bytes::kib(4);

/// The most blocks of a request.
const LARGEST: u64 = 30;

/// The drive that the paper studies.
const UNKNOWN: &str = "sun-zhang-unknown";
const DRIVES: [&str; 3] = [UNKNOWN, "sun-zhang-kingston", "sun-zhang-pny"];

/// What a block of 4 KiB is filled with.
#[derive(Clone, Copy, Debug)]
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
    fn written(name: &'static str, seed: Seed) -> Result<Drive> {
        let mut device = device(name)?;
        let capacity = device.geometry().capacity;
        let step = Bytes::kib(128);
        let mut ios = (0..capacity.0 / step.0).map(|i| (Operation::Write, Bytes(i * step.0), step));
        condition(&mut device, &mut ios)?;
        Ok(Drive { name, device, capacity, random: Prng::new(seed) })
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

    /// Random reads of `size` within the first `end` bytes: where, and how long each takes.
    fn random_reads(&mut self, count: usize, end: Bytes, size: Bytes) -> Result<Vec<(Bytes, f64)>> {
        (0..count)
            .map(|_| {
                let offset = self.anywhere(end, size);
                Ok((offset, self.read(offset, size)?))
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

fn times(ios: &[(Bytes, f64)]) -> Vec<f64> {
    ios.iter().map(|io| io.1).collect()
}

fn measure(seed: Seed) -> Result<Measured> {
    let drives = on_all_processors(&DRIVES, |name| table_3(name, seed))?;
    let (mut values, mut pictures) = (Vec::new(), Vec::new());
    for drive in drives {
        values.extend(drive.values);
        pictures.extend(drive.pictures);
    }
    Ok(Measured { values, pictures })
}

/// Table 3 of one drive, and what else the paper says of the unknown one.
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
