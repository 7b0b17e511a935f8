//! Latencies of reads under a ladder of write rates, on the model of a drive.
//!
//! # Model
//! (provenance.md and SSD-iq, commit 8a0a3f4, scripts/benchlat.sh.) The drive is filled and overwritten three times at random. Then
//! random writes of 4 KiB come at a rate, as a Poisson process with at most 384 in flight (six threads with 64 each). 10,000 operations
//! a second of the offered ones come from a probe with at most 64 in flight: half of them reads, half writes. Latencies are the probe's.
//!
//! # Limits
//! The rates of the ladder are measured for [`MEASURED`] of virtual time each, and the drives were for two minutes: rare stalls are missed.

use flashlab_base::{Nanos, Prng, Seed, quantile};
use flashlab_device::{Buffer, Device, Operation, Request};

use super::experiment::{Model, PAGE, fill, overwrite};
use super::workload::Workload;
use crate::lab::{ReproduceError, Result};

/// The probe's operations a second.
const PROBE_RATE: f64 = 10_000.0;
const PROBE_DEPTH: u32 = 64;
const OTHER_DEPTH: u32 = 384;
/// The time until the buffers are as full as the rate makes them.
const WARM_UP: Nanos = Nanos::from_millis(200);
/// The time in which 4,000 reads and 4,000 writes of the probe are measured: 40 are above p99.
const MEASURED: Nanos = Nanos::from_millis(800);
/// How often the whole drive was written at random before.
const OVERWRITES: u64 = 3;

/// What a rate came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rung {
    pub offered: f64,
    pub writes_per_s: f64,
    pub read_p50_us: f64,
    pub read_p99_us: f64,
    pub write_p50_us: f64,
    pub write_p99_us: f64,
}

/// Measures these rates of offered operations.
pub(crate) fn climb(model: Model<'_>, offered: &[f64], seed: Seed) -> Result<Vec<Rung>> {
    let wrong = |error: &dyn std::fmt::Display| ReproduceError::new(&model.profile.name, error);
    let mut device = model.profile.device().map_err(|error| wrong(&error))?;
    let pages = model.pages(model.drive.gib as f64);
    fill(&mut device, pages)?;
    let mut writes = Workload::Uniform.writes(pages, model.drive_pages(), seed);
    overwrite(&mut device, &mut writes, OVERWRITES * u64::from(pages))?;
    if let Some(conditioning) = device.conditioning() {
        conditioning.remember();
    }
    let mut rungs = Vec::new();
    for &offered in offered {
        if let Some(conditioning) = device.conditioning() {
            conditioning.recall();
        }
        rungs.push(rung(&mut device, pages, offered, seed.derive("rung", offered as u64))?);
    }
    Ok(rungs)
}

/// A source of operations: when the next one is due, and how many are in flight.
struct Source {
    rate: f64,
    depth: u32,
    due: f64,
    in_flight: u32,
}

impl Source {
    fn new(rate: f64, depth: u32, now: Nanos) -> Source {
        Source { rate, depth, due: now.0 as f64, in_flight: 0 }
    }

    /// When it submits its next operation; `None` while it waits for one in flight.
    fn next(&self) -> Option<Nanos> {
        (self.in_flight < self.depth && self.rate > 0.0).then_some(Nanos(self.due as u64))
    }

    fn submitted(&mut self, prng: &mut Prng) {
        self.in_flight += 1;
        self.due += prng.exponential() * 1e9 / self.rate;
    }
}

/// The sources and operations, as tags of requests.
const OTHER: u64 = 0;
const PROBE_WRITE: u64 = 1;
const PROBE_READ: u64 = 2;

fn rung(device: &mut dyn Device, pages: u32, offered: f64, seed: Seed) -> Result<Rung> {
    let name = device.identity().target;
    let mut prng = Prng::new(seed);
    let begin = device.now();
    let (from, until) = (begin + WARM_UP, begin + WARM_UP + MEASURED);
    let mut other = Source::new((offered - PROBE_RATE).max(0.0), OTHER_DEPTH, begin);
    let mut probe = Source::new(PROBE_RATE.min(offered), PROBE_DEPTH, begin);
    let (mut reads, mut probe_writes, mut writes) = (Vec::new(), Vec::new(), 0u64);
    loop {
        let due = [other.next(), probe.next()].into_iter().flatten().min().unwrap_or(Nanos::MAX);
        let Some(done) = device.wait(due.min(until)) else {
            if device.now() >= until {
                break;
            }
            let is_probe = probe.next().is_some_and(|next| next <= due);
            let tag = match is_probe {
                false => OTHER,
                true if prng.below(2) == 0 => PROBE_READ,
                true => PROBE_WRITE,
            };
            let operation = if tag == PROBE_READ { Operation::Read } else { Operation::Write };
            let offset = PAGE * prng.below(pages.into());
            device.submit(Request { tag, operation, offset, size: PAGE, buffer: Buffer::empty() });
            if is_probe { &mut probe } else { &mut other }.submitted(&mut prng);
            continue;
        };
        done.result.map_err(|error| ReproduceError::new(&name, error))?;
        if done.tag == OTHER { &mut other } else { &mut probe }.in_flight -= 1;
        if done.completed >= from {
            let time = done.completed.since(done.submitted).0;
            writes += u64::from(done.tag != PROBE_READ);
            match done.tag {
                PROBE_READ => reads.push(time),
                PROBE_WRITE => probe_writes.push(time),
                _ => {}
            }
        }
    }
    while device.wait(Nanos::MAX).is_some() {}
    let [read_p50_us, read_p99_us] = percentiles(&reads);
    let [write_p50_us, write_p99_us] = percentiles(&probe_writes);
    let writes_per_s = writes as f64 / MEASURED.as_secs_f64();
    Ok(Rung { offered, writes_per_s, read_p50_us, read_p99_us, write_p50_us, write_p99_us })
}

/// p50 and p99 of times in nanoseconds, in microseconds; not a number without times.
fn percentiles(times: &[u64]) -> [f64; 2] {
    let us = || times.iter().map(|&time| time as f64 / 1e3);
    [0.5, 0.99].map(|share| quantile(us(), share).unwrap_or(f64::NAN))
}
