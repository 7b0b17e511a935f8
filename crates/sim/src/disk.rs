//! A hard disk in virtual time.
//!
//! # Model
//! After Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, March 1994): an arm whose seek time
//! grows with the root of the distance and then linearly, a position of the platters that follows from the clock, zones
//! whose outer tracks hold more, and a controller with a command cost and a link. After a read the
//! head reads on; what it has read is served from memory. Writes are done when memory has taken them; the head
//! writes them when it is free, the one that it reaches first before the others.
//!
//! # Invariants
//! - the head does one thing at a time, and what it did up to a request does not depend on later requests;
//! - a read is not answered from the disk while newer data for it waits in memory.

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

/// Written data that waits for the head, in sectors.
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
    /// When the controller can take the next command, and the link the next data.
    free: Nanos,
    /// When the head has done what it was asked for.
    head_free: Nanos,
    /// The sector that comes under the head then.
    position: u64,
    /// The sectors that were read last are kept from here on up to `position`.
    kept_from: u64,
    /// Up to where the head reads on. Not beyond `position`: it does not.
    ahead_until: u64,
    /// Whether the head had to stop reading on and has lost its sector.
    paused: bool,
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
            kept_from: 0,
            ahead_until: 0,
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

    /// When the transfer of a sector can begin that the head is sent to at `at`.
    fn reach(&self, sector: u64, write: bool, at: Nanos) -> Nanos {
        let spot = self.layout.spot(sector);
        // Where the head goes on without a pause it has nothing to wait for.
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

    /// Reads on until `now`.
    fn read_on(&mut self, now: Nanos) {
        while self.position < self.ahead_until && self.head_free < now {
            if self.paused {
                // It pays to come back when half of the memory is free.
                if (self.ahead_until - self.position) * 2 < self.sectors(self.section.read_ahead) {
                    return;
                }
                self.head_free = self.reach(self.position, false, now);
                self.paused = false;
                return;
            }
            let spot = self.layout.spot(self.position);
            if spot.sector == 0 {
                self.head_free += self.layout.switch_to(spot, false);
            }
            let sector = self.layout.sector_ns(spot);
            let passed = (now.since(self.head_free).0 as f64 / sector) as u64 + 1;
            let rest = (spot.sectors_per_track - spot.sector).min(self.ahead_until - self.position);
            let count = passed.min(rest);
            self.head_free += Nanos((count as f64 * sector).round() as u64);
            self.position += count;
        }
        // Who stands still loses the sector.
        self.paused |= self.position >= self.ahead_until && self.head_free < now;
        self.forget_far();
    }

    /// What was read is kept as far as memory reaches.
    fn forget_far(&mut self) {
        let memory = self.sectors(self.section.read_ahead);
        self.kept_from = self.kept_from.max(self.position.saturating_sub(memory));
    }

    /// Writes what waits, as long as the head begins before `now`.
    fn write_on(&mut self, now: Nanos) {
        while let Some((index, start)) = self.nearest() {
            if start >= now {
                return;
            }
            self.put(index, start);
        }
    }

    /// The waiting extent that the head reaches first, and when it sets off.
    fn nearest(&self) -> Option<(usize, Nanos)> {
        let starts = self.waiting.iter().map(|extent| extent.arrived.max(self.head_free));
        let reached = |(index, start): &(usize, Nanos)| self.reach(self.waiting[*index].first, true, *start);
        starts.enumerate().min_by_key(reached)
    }

    /// Writes a waiting extent; the head sets off at `start`. Returns the extent and when its transfer began.
    fn put(&mut self, index: usize, start: Nanos) -> (Extent, Nanos) {
        self.read_on(start);
        let extent = self.waiting.remove(index).expect("the index is of a waiting extent");
        let begins = self.reach(extent.first, true, start.max(self.head_free));
        self.head_free = begins + self.layout.transfer(extent.first, extent.sectors, true);
        self.position = extent.end();
        (self.kept_from, self.ahead_until, self.paused) = (self.position, self.position, false);
        (extent, begins)
    }

    /// Writes everything that waits.
    fn write_all(&mut self) {
        while let Some((index, start)) = self.nearest() {
            self.put(index, start);
        }
    }

    fn read(&mut self, first: u64, sectors: u64, size: Bytes, now: Nanos) -> Nanos {
        let taken = now.max(self.free) + self.section.read_command;
        self.write_on(taken);
        let end = first + sectors;
        if self.waiting.iter().any(|extent| extent.first < end && first < extent.end()) {
            self.write_all();
        }
        self.read_on(taken);
        let kept = first >= self.kept_from && first <= self.position;
        let mut ready = taken;
        if !kept || end > self.position {
            let from = if kept { self.position } else { first };
            // While the head reads on it is ahead of the clock by less than a sector.
            let start = if kept && !self.paused { self.head_free } else { taken.max(self.head_free) };
            let begins = self.reach(from, false, start);
            ready = begins + self.layout.transfer(from, end - from, false);
            (self.head_free, self.position, self.paused) = (ready, end, false);
            if !kept {
                self.kept_from = first;
            }
            self.forget_far();
        }
        let ahead = end + self.sectors(self.section.read_ahead);
        self.ahead_until = ahead.min(self.last_sector());
        let link = self.section.read_bandwidth;
        let done = (taken + link.time(size)).max(ready + link.time(self.geometry.block));
        self.free = done;
        done
    }

    fn write(&mut self, first: u64, sectors: u64, size: Bytes, now: Nanos) -> Nanos {
        let taken = now.max(self.free) + self.section.write_command;
        self.write_on(taken);
        let mut done = taken + self.section.write_bandwidth.time(size);
        self.free = done;
        if first < self.position && first + sectors > self.kept_from {
            self.kept_from = self.position;
        }
        match self.waiting.back_mut() {
            Some(last) if last.end() == first => last.sectors += sectors,
            _ => self.waiting.push_back(Extent { first, sectors, arrived: taken }),
        }
        let (room, extents) = (self.sectors(self.section.write_cache), self.section.write_extents as usize);
        loop {
            let waiting: u64 = self.waiting.iter().map(|extent| extent.sectors).sum();
            if waiting <= room && self.waiting.len() <= extents {
                return done;
            }
            let Some((index, start)) = self.nearest() else { return done };
            let (extent, begins) = self.put(index, start);
            let over = waiting.saturating_sub(room);
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
                self.write_on(now);
                let waited = !self.waiting.is_empty();
                self.write_all();
                // The head may only be reading on.
                if waited || self.ahead_until <= self.position { now.max(self.head_free) } else { now }
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
        for (operation, offset, size) in ios {
            if operation != Operation::Flush {
                self.geometry.check(offset, size)?;
            }
        }
        Ok(())
    }
}
