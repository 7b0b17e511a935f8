//! Random operations on a volume, compared with a model in memory, as fsx does it with files.
//!
//! # Method
//! 1. The seed chooses page, segment, size and fill of a volume on a device in memory.
//! 2. Each operation (write, read, discard, flush, idle time, resize, remount, killed server) is done on the volume and on bytes in
//!    memory. Offsets and lengths are not aligned.
//! 3. Each read is compared. After each mount the whole volume is.
//! 4. After a killed server the volume has to be what it was after some update, not before the last flush. An update is one page
//!    of a write, or one discard.
//!
//! Each mount chooses one of the policies.
//!
//! [`crash`](crate::crash) tries every power failure of tiny volumes; this runs for long on larger ones, with packing in all logs.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Device, MemoryDevice};

use crate::error::RepairError;
use crate::format::VolumeUuid;
use crate::layout::{LayoutOptions, VolumeLayout};
use crate::policies::{POLICIES, default_policy};
use crate::policy::Policy;
use crate::volume::{MountOptions, Volume};

/// The longest write, read or discard: several records.
const LENGTH_MAX: u64 = 200 << 10;
/// The host flushes at the latest after this number of updates: each is a state that a kill may leave.
const UNFLUSHED_MAX: usize = 400;

/// What was exercised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExerciseReport {
    /// Operations of the host.
    pub operations: u64,
    /// What the host wrote.
    pub written: Bytes,
    /// Mounts after an orderly end.
    pub remounts: u64,
    /// Mounts after a kill.
    pub kills: u64,
    /// Sizes that were changed.
    pub resizes: u64,
    /// Segments that were packed.
    pub packed_segments: u64,
}

impl ExerciseReport {
    /// Adds what was exercised on another volume.
    pub fn add(&mut self, other: ExerciseReport) {
        self.operations += other.operations;
        self.written += other.written;
        self.remounts += other.remounts;
        self.kills += other.kills;
        self.resizes += other.resizes;
        self.packed_segments += other.packed_segments;
    }
}

/// An operation after which the volume and the model differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExerciseFailure {
    /// The seed.
    pub seed: Seed,
    /// Which operation, counted from 0.
    pub operation: u64,
    /// What is wrong.
    pub what: String,
}

/// Does random operations on a volume.
///
/// # Errors
/// The first operation after which the volume and the model differ.
pub fn exercise(operations: u64, seed: Seed) -> Result<ExerciseReport, ExerciseFailure> {
    let mut random = Prng::new(seed.derive("exerciser", 0));
    let (device, pages) = new_volume(&mut random);
    let mut exerciser = Exerciser {
        random,
        volume: None,
        content: vec![0; pages as usize],
        unflushed: Vec::new(),
        report: ExerciseReport::default(),
    };
    let failure = |operation, what| ExerciseFailure { seed, operation, what };
    exerciser.mount(device).map_err(|what| failure(0, what))?;
    for operation in 0..operations {
        exerciser.step().map_err(|what| failure(operation, what))?;
    }
    exerciser.restart(false).map_err(|what| failure(operations, what))?;
    Ok(ExerciseReport { operations, ..exerciser.report })
}

/// A new volume on a device that is a few segments larger, so that it can grow; and the bytes that it offers.
fn new_volume(random: &mut Prng) -> (MemoryDevice, u64) {
    let page = Bytes::kib(4 << random.below(3));
    let segment = Bytes(page.0 * (16 << random.below(3)));
    let capacity = Bytes(Bytes::mib(2).0 + segment.0 * (40 + random.below(120)));
    let fill = 0.4 + 0.4 * random.unit();
    let checkpoint_interval = Bytes(segment.0 * (1 + random.below(8)));
    let layout = |logical_pages| {
        let options = LayoutOptions { capacity, page, segment, logical_pages, checkpoint_interval };
        VolumeLayout::new(options)
    };
    let mut logical_pages = (capacity.0 as f64 * fill) as u64 / page.0;
    let layout = loop {
        match layout(logical_pages) {
            Ok(layout) => break layout,
            Err(_) => logical_pages = logical_pages * 9 / 10,
        }
    };
    let mut device = MemoryDevice::new(Bytes(capacity.0 + segment.0 * random.below(12)), Nanos(100));
    Volume::create(&mut device, VolumeUuid(*b"exercised volume"), layout.options)
        .expect("the layout fits the device");
    (device, logical_pages * page.0)
}

/// One update of the host, to be undone.
struct Update {
    offset: u64,
    before: Vec<u8>,
}

struct Exerciser {
    random: Prng,
    /// `None` only between two mounts.
    volume: Option<Volume<MemoryDevice>>,
    /// What the volume has to hold.
    content: Vec<u8>,
    /// Updates since the last flush.
    unflushed: Vec<Update>,
    report: ExerciseReport,
}

impl Exerciser {
    fn step(&mut self) -> Result<(), String> {
        if self.unflushed.len() >= UNFLUSHED_MAX {
            return self.flush();
        }
        match self.random.below(1000) {
            0..480 => self.write(),
            480..780 => self.read(),
            780..860 => self.discard(),
            860..930 => self.flush(),
            930..990 => self.idle(),
            990..993 => self.resize(),
            993..996 => self.restart(false),
            _ => self.restart(true),
        }
    }

    fn volume(&mut self) -> &mut Volume<MemoryDevice> {
        self.volume.as_mut().expect("the volume is open between operations")
    }

    fn page(&mut self) -> u64 {
        self.volume().layout().options.page.0
    }

    /// A range of the volume. Most ranges begin in a quarter of it, so that segments differ in their live pages.
    fn range(&mut self) -> (u64, u64) {
        let size = self.content.len() as u64;
        let offset =
            if self.random.below(10) < 7 { self.random.below(size / 4) } else { self.random.below(size) };
        let most = if self.random.below(4) > 0 { 12 << 10 } else { LENGTH_MAX };
        let (mut start, mut end) = (offset, (offset + 1 + self.random.below(most)).min(size));
        if self.random.below(2) == 0 {
            // Whole pages.
            let page = self.page();
            (start, end) = (start / page * page, end.next_multiple_of(page).min(size));
        }
        (start, end - start)
    }

    /// Notes an update of the model.
    fn update(&mut self, offset: u64, after: &[u8]) {
        let place = &mut self.content[offset as usize..][..after.len()];
        self.unflushed.push(Update { offset, before: place.to_vec() });
        place.copy_from_slice(after);
    }

    fn write(&mut self) -> Result<(), String> {
        let (offset, length) = self.range();
        let mut data = vec![0; length as usize];
        self.random.fill(&mut data);
        let page = self.page();
        let mut at = 0;
        while at < data.len() {
            let part = (page - (offset + at as u64) % page).min((data.len() - at) as u64) as usize;
            self.update(offset + at as u64, &data[at..at + part]);
            at += part;
        }
        self.report.written += Bytes(length);
        self.volume().write(offset, &data).map_err(|error| format!("{length} bytes at {offset}: {error}"))
    }

    fn read(&mut self) -> Result<(), String> {
        let (offset, length) = self.range();
        let mut read = vec![0; length as usize];
        self.volume()
            .read(offset, &mut read)
            .map_err(|error| format!("{length} bytes at {offset}: {error}"))?;
        let expected = &self.content[offset as usize..][..length as usize];
        match read.iter().zip(expected).position(|(read, expected)| read != expected) {
            None => Ok(()),
            Some(at) => {
                Err(format!("byte {} of {length} at {offset} is not what was written", offset + at as u64))
            }
        }
    }

    fn discard(&mut self) -> Result<(), String> {
        let (offset, length) = self.range();
        self.zero(offset, length)
    }

    /// Discards a range. The parts of pages at its ends are updates of their own, and come before the whole pages.
    fn zero(&mut self, offset: u64, length: u64) -> Result<(), String> {
        let (page, end) = (self.page(), offset + length);
        let (first, last) = (offset.next_multiple_of(page), end / page * page);
        let parts = if first >= last {
            let border = first.clamp(offset, end);
            [(offset, border), (border, end), (end, end)]
        } else {
            [(offset, first), (last, end), (first, last)]
        };
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            self.update(from, &vec![0; (to - from) as usize]);
        }
        self.volume()
            .discard(offset, length)
            .map_err(|error| format!("{length} discarded at {offset}: {error}"))
    }

    fn flush(&mut self) -> Result<(), String> {
        self.volume().flush().map_err(|error| format!("a flush: {error}"))?;
        self.unflushed.clear();
        Ok(())
    }

    fn idle(&mut self) -> Result<(), String> {
        for _ in 0..self.random.below(20) {
            self.volume().work_while_idle();
        }
        self.volume().poison().map_or(Ok(()), |error| Err(format!("while idle: {error}")))
    }

    /// Makes the volume larger or smaller. Refused while data lies behind the new end, or without slack for it.
    fn resize(&mut self) -> Result<(), String> {
        let (page, before) = (self.page(), self.content.len() as u64);
        let after = (before / 2 + self.random.below(before)) / page * page;
        if after < before && self.random.below(4) > 0 {
            self.zero(after, before - after)?;
        }
        let has_data = self.content.iter().skip(after as usize).any(|&byte| byte != 0);
        match self.volume().resize(Bytes(after)) {
            Ok(()) if has_data => Err(format!("data behind byte {after} was dropped")),
            Ok(()) => {
                self.report.resizes += 1;
                self.unflushed.clear();
                self.content.resize(after as usize, 0);
                self.keep_counters();
                let Some(volume) = self.volume.take() else { return Ok(()) };
                self.mount(volume.abandon())?;
                self.compare()
            }
            Err(RepairError::Options(_)) => Ok(()),
            Err(error) => Err(format!("resized from {before} to {after}: {error}")),
        }
    }

    /// Ends the server and mounts the volume anew.
    fn restart(&mut self, is_killed: bool) -> Result<(), String> {
        self.keep_counters();
        let Some(volume) = self.volume.take() else { return Ok(()) };
        let device = if is_killed {
            self.report.kills += 1;
            volume.abandon()
        } else {
            self.report.remounts += 1;
            self.unflushed.clear();
            volume.close().map_err(|error| format!("closed: {error}"))?
        };
        self.mount(device)?;
        self.compare()
    }

    fn keep_counters(&mut self) {
        // The volume counts over its whole life.
        if let Some(volume) = &self.volume {
            self.report.packed_segments = volume.counters().packed_segments;
        }
    }

    fn mount(&mut self, device: MemoryDevice) -> Result<(), String> {
        let choice = self.random.below(1 + POLICIES.len() as u64) as usize;
        let policy = |layout: &VolumeLayout| policy(choice, layout);
        let volume = Volume::open(device, MountOptions::default(), policy);
        self.volume = Some(volume.map_err(|error| format!("it is not mounted: {error}"))?);
        Ok(())
    }

    /// Compares the whole volume with the model, and takes back updates that were not flushed until both are equal.
    fn compare(&mut self) -> Result<(), String> {
        let mut found = vec![0; self.content.len()];
        let volume = self.volume();
        if volume.geometry().capacity.0 != found.len() as u64 {
            return Err(format!("it has {} and not {} bytes", volume.geometry().capacity, found.len()));
        }
        volume.read(0, &mut found).map_err(|error| format!("after a mount: {error}"))?;
        while found != self.content {
            let Some(undone) = self.unflushed.pop() else {
                let at = found.iter().zip(&self.content).position(|(found, expected)| found != expected);
                return Err(format!("after a mount byte {at:?} is from no state since the last flush"));
            };
            self.content[undone.offset as usize..][..undone.before.len()].copy_from_slice(&undone.before);
        }
        self.unflushed.clear();
        Ok(())
    }
}

/// A policy for which the volume has enough slack: the default one, or one by its number.
fn policy(choice: usize, layout: &VolumeLayout) -> Box<dyn Policy> {
    let named = POLICIES.get(choice).map(|(_, make)| make(layout.segment_count));
    let logs_max = layout.spare_segments().saturating_sub(10) / 2;
    named.filter(|policy| u32::from(policy.log_count()) <= logs_max).unwrap_or_else(|| default_policy(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_operations_are_those_on_memory() {
        let mut total = ExerciseReport::default();
        for seed in 1..=6 {
            let report = exercise(2500, Seed(seed)).unwrap_or_else(|failure| {
                panic!("cargo xtask exercise --operations 2500 --seed {seed}: {failure:?}")
            });
            total.add(report);
        }
        assert!(total.packed_segments > 200 && total.kills > 30 && total.resizes > 10, "{total:?}");
    }
}
