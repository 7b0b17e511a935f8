//! The steady rate of a write workload on the model of a drive.
//!
//! # Method
//! 1. The part in use is written from begin to end, unless the workload begins on an empty drive.
//! 2. Three quarters of the row's writes are done without times.
//! 3. The last quarter, in which the row's rate was measured, is done in virtual time with the depth of SSD-iq's scripts. The first
//!    tenth of it fills the buffers and is not counted. Where a quarter is longer than [`MOST_TIMED`] capacities, its end is measured.

use std::cell::RefCell;

use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_sim::Profile;

use super::drives::RealDrive;
use super::workload::{LARGE_WRITE, Workload, Writes};
use crate::lab::{ReproduceError, Result, condition};

/// The page of the drives' maps, and the block of small writes.
pub(crate) const PAGE: Bytes = Bytes::kib(4);

/// Small writes in flight: four threads with 128 each (SSD-iq, commit 8a0a3f4, scripts/benchwa.sh).
const SMALL_DEPTH: usize = 512;
/// Large writes in flight of the sequential run. The scripts give 1 for some runs and leave others open; one write at a time does not reach
/// the rates of the rows.
const SEQUENTIAL_DEPTH: usize = 32;
/// Large writes in flight of whole zones (scripts/benchseq.sh: one thread with depth 1).
const ZONE_DEPTH: usize = 1;
/// The most capacities of writes that are done in virtual time: long enough for the waves of garbage collection.
const MOST_TIMED: f64 = 1.0;

/// What a workload came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steady {
    pub mib_s: f64,
    pub media_per_host: f64,
}

/// A model of a drive, with what it needs to scale a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model<'a> {
    pub drive: &'static RealDrive,
    pub profile: &'a Profile,
}

impl Model<'_> {
    /// How many pages of the drive a page of the model stands for.
    pub(crate) fn drive_pages(&self) -> f64 {
        self.drive.capacity().0 as f64 / self.profile.capacity.0 as f64
    }

    /// The pages of the model for `gib` of the drive.
    pub(crate) fn pages(&self, gib: f64) -> u32 {
        let all = (self.profile.capacity.0 / PAGE.0) as f64;
        (all * (gib / self.drive.gib as f64).min(1.0)).floor().max(1.0) as u32
    }
}

/// An IO of these pages.
fn io((page, count): (u32, u32)) -> (Operation, Bytes, Bytes) {
    (Operation::Write, PAGE * u64::from(page), PAGE * u64::from(count))
}

/// Writes pages from begin to end without times.
pub(crate) fn fill(device: &mut dyn Device, pages: u32) -> Result<()> {
    let firsts = (0..pages).step_by(LARGE_WRITE as usize);
    condition(device, &mut firsts.map(|first| io((first, LARGE_WRITE.min(pages - first)))))
}

/// Writes `pages` pages of a workload without times.
pub(crate) fn overwrite(device: &mut dyn Device, writes: &mut Writes, pages: u64) -> Result<()> {
    let written = RefCell::new(0);
    let mut some = std::iter::from_fn(|| {
        let mut written = written.borrow_mut();
        if *written >= pages {
            return None;
        }
        let write = writes.next()?;
        *written += u64::from(write.1);
        Some(io(write))
    });
    condition(device, &mut some)
}

/// Measures a workload on `gib` of a drive that is written `overwrites` times.
pub(crate) fn steady(
    model: Model<'_>,
    workload: &Workload,
    gib: f64,
    overwrites: f64,
    seed: Seed,
) -> Result<Steady> {
    let wrong = |error: &dyn std::fmt::Display| ReproduceError::new(&model.profile.name, error);
    let mut device = model.profile.device().map_err(|error| wrong(&error))?;
    let pages = model.pages(gib);
    let mut writes = workload.writes(pages, model.drive_pages(), seed);
    if !workload.begins_empty() {
        fill(&mut device, pages)?;
    }
    let total = overwrites * f64::from(pages);
    let timed = (total / 4.0).min(MOST_TIMED * f64::from(pages));
    overwrite(&mut device, &mut writes, (total - timed) as u64)?;
    let depth = match workload {
        Workload::Sequential => SEQUENTIAL_DEPTH,
        Workload::WholeZones { .. } => ZONE_DEPTH,
        _ => SMALL_DEPTH,
    };
    let programmed = |device: &mut dyn Device| {
        device.telemetry().and_then(|counters| counters.programmed()).map_or(0, |bytes| bytes.0)
    };
    closed_loop(&mut device, &mut writes, depth, (timed * 0.1) as u64)?;
    let (from, media) = (device.now(), programmed(&mut device));
    let host = closed_loop(&mut device, &mut writes, depth, (timed * 0.9) as u64)?;
    let elapsed = device.now().since(from).as_secs_f64();
    let media = programmed(&mut device) - media;
    Ok(Steady {
        mib_s: host as f64 / elapsed / f64::from(1 << 20),
        media_per_host: media as f64 / host as f64,
    })
}

/// Writes `pages` pages with `depth` writes in flight. Returns the bytes written.
fn closed_loop(device: &mut dyn Device, writes: &mut Writes, depth: usize, pages: u64) -> Result<u64> {
    let name = device.identity().target;
    let (mut submitted, mut in_flight) = (0, 0);
    loop {
        while in_flight < depth && submitted < pages * PAGE.0 {
            let Some(write) = writes.next() else { break };
            let (operation, offset, size) = io(write);
            device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
            submitted += size.0;
            in_flight += 1;
        }
        let Some(done) = device.wait(Nanos::MAX) else { return Ok(submitted) };
        done.result.map_err(|error| ReproduceError::new(&name, error))?;
        in_flight -= 1;
    }
}
