//! Where data lies: extents on devices, regions that are striped over several devices, and the free space.
//!
//! # Model
//! A region is one extent on one device, or one extent of the same size on each of several devices. A striped region's
//! stripe unit k lies on device k modulo the number of devices (STXXL's striping, Dementiev et al. 2008).
//!
//! # Invariants
//! - Regions that are allocated at the same time do not overlap.
//! - Offsets and sizes of extents are multiples of the machine's unit.

use std::collections::BTreeMap;
use std::ops::Range;

use flashlab_base::Bytes;

use crate::error::EmError;
use crate::machine::Machine;

/// A range of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The device, by its index in the machine.
    pub device: usize,
    /// Its first byte.
    pub offset: Bytes,
    /// Its length.
    pub size: Bytes,
}

/// Extents that hold one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    parts: Vec<Extent>,
    stripe: Bytes,
}

/// On which devices a region lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// On this device: placed by role.
    On(usize),
    /// On all devices, in units of this size.
    Striped(Bytes),
}

impl Spread {
    /// The devices, of a machine that has so many.
    pub fn devices(self, count: usize) -> Range<usize> {
        match self {
            Spread::On(device) => device..device + 1,
            Spread::Striped(_) => 0..count,
        }
    }
}

impl Region {
    /// A region that is this extent.
    pub fn on(extent: Extent) -> Region {
        Region { parts: vec![extent], stripe: extent.size }
    }

    /// Its length.
    pub fn size(&self) -> Bytes {
        Bytes(self.parts.iter().map(|part| part.size.0).sum())
    }

    /// The device and the device's offset of the byte at `offset` of the region. IOs that do not cross a stripe unit are
    /// contiguous on the device.
    pub fn locate(&self, offset: Bytes) -> (usize, Bytes) {
        let [first, ..] = self.parts[..] else { unreachable!("a region has a part") };
        if self.parts.len() == 1 {
            return (first.device, first.offset + offset);
        }
        let (unit, within) = (offset.0 / self.stripe.0, offset.0 % self.stripe.0);
        let count = self.parts.len() as u64;
        let part = self.parts[(unit % count) as usize];
        (part.device, Bytes(part.offset.0 + unit / count * self.stripe.0 + within))
    }

    /// Its extents, one for each device.
    pub fn parts(&self) -> &[Extent] {
        &self.parts
    }

    /// The stripe unit; the size of the region on one device.
    pub fn stripe(&self) -> Bytes {
        self.stripe
    }
}

/// The free space of a machine's devices.
#[derive(Clone, Debug)]
pub struct ExtentAllocator {
    /// For each device the free extents: the size by the offset.
    free: Vec<BTreeMap<u64, u64>>,
    names: Vec<String>,
    unit: Bytes,
}

impl ExtentAllocator {
    /// All space of the machine's devices is free.
    pub fn new(machine: &Machine<'_>) -> ExtentAllocator {
        let unit = machine.unit();
        let devices = 0..machine.device_count();
        let free = devices
            .clone()
            .map(|device| BTreeMap::from([(0, machine.geometry(device).capacity.round_down(unit).0)]));
        let names = devices.clone().map(|device| machine.name(device).to_owned()).collect();
        ExtentAllocator { free: free.collect(), names, unit }
    }

    /// Allocates a region of at least `size`, at the lowest free offsets.
    ///
    /// # Errors
    /// [`EmError::Space`] when a device has no extent that is large enough.
    pub fn allocate(&mut self, size: Bytes, spread: Spread) -> Result<Region, EmError> {
        let size = size.round_up(self.unit).max(self.unit);
        match spread {
            Spread::On(device) => Ok(Region::on(self.take(device, size)?)),
            Spread::Striped(stripe) => {
                let stripe = stripe.round_up(self.unit).max(self.unit);
                let devices = self.free.len();
                let units = size.0.div_ceil(stripe.0).div_ceil(devices as u64);
                let part = Bytes(units * stripe.0);
                let mut parts = Vec::with_capacity(devices);
                for device in 0..devices {
                    match self.take(device, part) {
                        Ok(extent) => parts.push(extent),
                        Err(error) => {
                            self.release(&Region { parts, stripe });
                            return Err(error);
                        }
                    }
                }
                Ok(Region { parts, stripe })
            }
        }
    }

    /// Frees a region.
    pub fn release(&mut self, region: &Region) {
        for part in &region.parts {
            let free = &mut self.free[part.device];
            let (mut offset, mut size) = (part.offset.0, part.size.0);
            if let Some((&before, &length)) = free.range(..offset).next_back()
                && before + length == offset
            {
                free.remove(&before);
                (offset, size) = (before, length + size);
            }
            if let Some(length) = free.remove(&(offset + size)) {
                size += length;
            }
            free.insert(offset, size);
        }
    }

    /// The free space of a device.
    pub fn free_on(&self, device: usize) -> Bytes {
        Bytes(self.free[device].values().sum())
    }

    /// The most that `count` regions can have together, at least: each of them has whole stripe units on every device.
    pub fn largest(&self, spread: Spread, count: u64) -> Bytes {
        let largest = |device: usize| self.free[device].values().copied().max().unwrap_or(0);
        match spread {
            Spread::On(device) => Bytes(largest(device).saturating_sub(count * self.unit.0)),
            Spread::Striped(stripe) => {
                let least = (0..self.free.len()).map(largest).min().unwrap_or(0);
                Bytes(least.saturating_sub((count + 1) * stripe.0) * self.free.len() as u64)
            }
        }
    }

    fn take(&mut self, device: usize, size: Bytes) -> Result<Extent, EmError> {
        let free = &mut self.free[device];
        let found = free.iter().find(|&(_, &length)| length >= size.0).map(|(&at, &length)| (at, length));
        let Some((offset, length)) = found else {
            let largest = Bytes(free.values().copied().max().unwrap_or(0));
            return Err(EmError::Space { device: self.names[device].clone(), needed: size, largest });
        };
        free.remove(&offset);
        if length > size.0 {
            free.insert(offset + size.0, length - size.0);
        }
        Ok(Extent { device, offset: Bytes(offset), size })
    }
}
