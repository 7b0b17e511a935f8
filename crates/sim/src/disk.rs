//! A hard disk in virtual time.
//!
//! # Model
//! After Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, March 1994):
//! - the seek time of the arm grows with the root of the distance, and from a boundary on linearly;
//! - the angle of the platters follows from the clock;
//! - the disk has zones, and the tracks of outer zones have more sectors;
//! - the controller has a cost for each command, and a link to the host.
//!
//! # Method
//! 1. A read is served from the read cache if its sectors are there. Otherwise the arm seeks, waits for the rotation and
//!    reads. After a read the head continues with the sectors behind it (read-ahead).
//! 2. A write is complete when the write cache has taken it. The head writes the extents of the cache while it is free,
//!    and of all extents the one first that it reaches first.
//!
//! # Invariants
//! - the head does one operation at a time, and what it did before a request does not depend on later requests;
//! - a read is not served from the disk while the write cache has newer data of it.

mod layout;

use std::collections::VecDeque;

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{
    Completion, Conditioning, DataHandling, Device, Geometry, IoError, Operation, Request, VirtualQueue,
    VirtualTime,
};

use crate::noise::NoiseSource;
use crate::profile::{DiskSection, Profile};
use layout::Layout;

/// A run of sectors in the write cache.
#[derive(Clone, Copy, Debug)]
struct Extent {
    first: u64,
    sectors: u64,
    arrived: Nanos,
}

impl Extent {
    fn end(&self) -> u64 {
        self.first + self.sectors
    }
}

/// A hard disk.
#[derive(Debug)]
pub struct HardDisk {
    identity: Identity,
    geometry: Geometry,
    section: DiskSection,
    layout: Layout,
    noise: NoiseSource,
    noisy: bool,
    queue: VirtualQueue,
    /// From when on the controller can take the next command, and the link the next data.
    free: Nanos,
    /// When the head has completed its last operation.
    head_free: Nanos,
    /// The sector that comes under the head at `head_free`.
    position: u64,
    /// The read cache has the sectors from here up to `position`.
    cached_from: u64,
    /// The end of the read-ahead. At most `position`: the head does not read ahead.
    read_ahead_until: u64,
    /// Whether read-ahead stopped, so that the head has to wait for `position` to come round.
    paused: bool,
    /// The write cache, in the order of arrival.
    waiting: VecDeque<Extent>,
}

impl HardDisk {
    /// The disk that a profile describes, with the head over the first sector.
    pub(crate) fn new(profile: &Profile, section: &DiskSection) -> HardDisk {
        let capacity = profile.capacity.round_down(profile.block);
        HardDisk {
            identity: Identity { rotational: Some(true), ..profile.identity() },
            geometry: Geometry {
                capacity,
                block: profile.block,
                depth: section.depth,
                data: DataHandling::Ignored,
            },
            layout: Layout::new(section, capacity, profile.block),
            noise: NoiseSource::new(profile.noise.unwrap_or_default()),
            noisy: profile.noise.is_some(),
            queue: VirtualQueue::new(section.depth),
            section: section.clone(),
            free: Nanos::ZERO,
            head_free: Nanos::ZERO,
            position: 0,
            cached_from: 0,
            read_ahead_until: 0,
            paused: false,
            waiting: VecDeque::new(),
        }
    }

    fn sectors(&self, size: Bytes) -> u64 {
        size.0 / self.geometry.block.0
    }

    fn last_sector(&self) -> u64 {
        self.sectors(self.geometry.capacity)
    }

    /// When the transfer of a sector can begin, if the head sets off at `at`.
    fn transfer_start(&self, sector: u64, write: bool, at: Nanos) -> Nanos {
        let spot = self.layout.spot(sector);
        // A head that continues with the next sector needs no seek and no rotation.
        if at == self.head_free && sector == self.position && !self.paused {
            let switch = if spot.sector == 0 { self.layout.switch_to(spot, write) } else { Nanos::ZERO };
            return at + switch;
        }
        let from = self.layout.spot(self.position.min(self.last_sector() - 1));
        let mut arrived = at + self.section.seek.time(from.cylinder.abs_diff(spot.cylinder));
        if from.cylinder == spot.cylinder && from.head != spot.head {
            arrived += self.section.head_switch;
        }
        if write {
            arrived += self.section.write_settle;
        }
        arrived + self.layout.rotation(spot, arrived)
    }

    /// Reads ahead until `now`.
    fn read_ahead_until_time(&mut self, now: Nanos) {
        while self.position < self.read_ahead_until && self.head_free < now {
            if self.paused {
                // The head returns to read-ahead only when half of the read cache is free again.
                if (self.read_ahead_until - self.position) * 2 < self.sectors(self.section.read_ahead) {
                    return;
                }
                self.head_free = self.transfer_start(self.position, false, now);
                self.paused = false;
                return;
            }
            let spot = self.layout.spot(self.position);
            if spot.sector == 0 {
                self.head_free += self.layout.switch_to(spot, false);
            }
            let sector = self.layout.sector_ns(spot);
            let passed = (now.since(self.head_free).0 as f64 / sector) as u64 + 1;
            let left = (spot.sectors_per_track - spot.sector).min(self.read_ahead_until - self.position);
            let count = passed.min(left);
            self.head_free += Nanos((count as f64 * sector).round() as u64);
            self.position += count;
        }
        // A head that stops lets the next sector pass.
        self.paused |= self.position >= self.read_ahead_until && self.head_free < now;
        self.trim_read_cache();
    }

    /// Drops what the read cache has no memory for.
    fn trim_read_cache(&mut self) {
        let memory = self.sectors(self.section.read_ahead);
        self.cached_from = self.cached_from.max(self.position.saturating_sub(memory));
    }

    /// Writes the extents of the write cache that the head begins before `now`.
    fn write_until(&mut self, now: Nanos) {
        while let Some((index, start)) = self.nearest() {
            if start >= now {
                return;
            }
            self.write_extent(index, start);
        }
    }

    /// The extent of the write cache that the head reaches first, and when it sets off.
    fn nearest(&self) -> Option<(usize, Nanos)> {
        let starts = self.waiting.iter().map(|extent| extent.arrived.max(self.head_free));
        let reached =
            |(index, start): &(usize, Nanos)| self.transfer_start(self.waiting[*index].first, true, *start);
        starts.enumerate().min_by_key(reached)
    }

    /// Writes an extent of the write cache; the head sets off at `start`. Returns the extent and when its transfer began.
    fn write_extent(&mut self, index: usize, start: Nanos) -> (Extent, Nanos) {
        self.read_ahead_until_time(start);
        let extent = self.waiting.remove(index).expect("the index is of a waiting extent");
        let begins = self.transfer_start(extent.first, true, start.max(self.head_free));
        self.head_free = begins + self.layout.transfer(extent.first, extent.sectors, true);
        self.position = extent.end();
        (self.cached_from, self.read_ahead_until, self.paused) = (self.position, self.position, false);
        (extent, begins)
    }

    /// Empties the write cache to the disk.
    fn write_all(&mut self) {
        while let Some((index, start)) = self.nearest() {
            self.write_extent(index, start);
        }
    }

    fn read(&mut self, first: u64, sectors: u64, size: Bytes, now: Nanos) -> Nanos {
        let taken = now.max(self.free) + self.section.read_command;
        self.write_until(taken);
        let end = first + sectors;
        if self.waiting.iter().any(|extent| extent.first < end && first < extent.end()) {
            self.write_all();
        }
        self.read_ahead_until_time(taken);
        let cached = first >= self.cached_from && first <= self.position;
        let mut ready = taken;
        if !cached || end > self.position {
            let from = if cached { self.position } else { first };
            // During read-ahead the head is ahead of the clock by less than a sector.
            let start = if cached && !self.paused { self.head_free } else { taken.max(self.head_free) };
            let begins = self.transfer_start(from, false, start);
            ready = begins + self.layout.transfer(from, end - from, false);
            (self.head_free, self.position, self.paused) = (ready, end, false);
            if !cached {
                self.cached_from = first;
            }
            self.trim_read_cache();
        }
        let ahead = end + self.sectors(self.section.read_ahead);
        self.read_ahead_until = ahead.min(self.last_sector());
        let link = self.section.read_bandwidth;
        let done = (taken + link.time(size)).max(ready + link.time(self.geometry.block));
        self.free = done;
        done
    }

    fn write(&mut self, first: u64, sectors: u64, size: Bytes, now: Nanos) -> Nanos {
        let taken = now.max(self.free) + self.section.write_command;
        self.write_until(taken);
        let mut done = taken + self.section.write_bandwidth.time(size);
        self.free = done;
        if first < self.position && first + sectors > self.cached_from {
            self.cached_from = self.position;
        }
        match self.waiting.back_mut() {
            Some(last) if last.end() == first => last.sectors += sectors,
            _ => self.waiting.push_back(Extent { first, sectors, arrived: taken }),
        }
        let capacity = self.sectors(self.section.write_cache);
        let extents = self.section.write_extents as usize;
        loop {
            let waiting: u64 = self.waiting.iter().map(|extent| extent.sectors).sum();
            if waiting <= capacity && self.waiting.len() <= extents {
                return done;
            }
            let Some((index, start)) = self.nearest() else { return done };
            let (extent, begins) = self.write_extent(index, start);
            let over = waiting.saturating_sub(capacity);
            done = done.max(if (1..extent.sectors).contains(&over) && self.waiting.len() < extents {
                begins + self.layout.transfer(extent.first, over, true)
            } else {
                self.head_free
            });
        }
    }

    fn serve(&mut self, request: &Request) -> Result<Nanos, IoError> {
        let now = self.queue.now();
        let Request { operation, offset, size, .. } = *request;
        if operation != Operation::Flush {
            self.geometry.check(offset, size)?;
        }
        let (first, sectors) = (self.sectors(offset), self.sectors(size));
        Ok(match operation {
            Operation::Read => self.read(first, sectors, size, now),
            Operation::Write => self.write(first, sectors, size, now),
            Operation::Discard => now.max(self.free),
            Operation::Flush => {
                self.write_until(now);
                let waited = !self.waiting.is_empty();
                self.write_all();
                // With nothing to write, a flush does not wait for read-ahead.
                if waited || self.read_ahead_until <= self.position { now.max(self.head_free) } else { now }
            }
        })
    }
}

impl Device for HardDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, request: Request) {
        let now = self.queue.now();
        let served = self.serve(&request);
        let mut completed = served.unwrap_or(now);
        if self.noisy {
            completed = now + self.noise.disturbed(completed.since(now).0 as f64);
        }
        self.queue.push(request, completed, served.map(drop));
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        Some(&mut self.queue)
    }

    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        Some(self)
    }
}

impl Conditioning for HardDisk {
    /// Only checks the ranges: a hard disk's response times do not depend on earlier writes.
    fn condition(&mut self, ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>) -> Result<(), IoError> {
        self.geometry.check_all(ios)
    }
}
