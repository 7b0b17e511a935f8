//! Places a pattern on a device: decides which bytes each process uses, and checks that they exist.
//!
//! # Model
//! Process p of a parallel pattern gets the p-th of ParallelDegree equal parts of the target (uFLIP Table 1),
//! rounded down to IOSize. Within its part, IOs lie in slots, shifted by IOShift. The last slot ends within
//! the part, so a shifted pattern has one slot less than an aligned one.
//!
//! # Invariants
//! - Every IO of a placed pattern lies within its target and within the device, and is a multiple
//!   of the device's block in offset and size.

use std::ops::Range;

use flashlab_base::{Bytes, Prng, Seed};

use crate::check::check;
use crate::ios::Stream;
use crate::location::{Slots, Walk};
use crate::{Basic, IoSize, Ios, Location, Misfit, Pattern, PatternParameter, PlanError};

/// What a pattern has to know about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The first offset that does not exist.
    pub capacity: Bytes,
    /// Offsets and sizes of IOs are multiples of this.
    pub block: Bytes,
}

/// A pattern that fits the device it was placed on.
#[derive(Clone, Debug)]
pub struct Placed {
    pattern: Pattern,
    seed: Seed,
    first: Site,
    second: Option<Site>,
}

/// The place of a basic pattern: process p uses the slots from `base + p * part` on.
#[derive(Clone, Debug)]
struct Site {
    basic: Basic,
    io_size: IoSize,
    block: Bytes,
    base: Bytes,
    part: Bytes,
    slots: Slots,
}

impl Pattern {
    /// Places the pattern on a device. Everything random in it follows from the seed.
    ///
    /// # Errors
    /// [`PlanError::Placement`] with the parameter, its value and its legal range. Its [`Misfit`] says
    /// whether another device could run the pattern.
    pub fn place(&self, space: Space, seed: Seed) -> Result<Placed, PlanError> {
        check(self).map_err(|illegal| PlanError::Placement {
            parameter: illegal.parameter.name().to_owned(),
            value: illegal.value,
            legal: illegal.legal,
            misfit: Misfit::Value,
        })?;
        let site = |basic: &Basic| Site::new(basic, self.parallel_degree, space);
        let second = self.mix.as_ref().map(|mix| site(&mix.second)).transpose()?;
        Ok(Placed { pattern: self.clone(), seed, first: site(&self.first)?, second })
    }
}

impl Placed {
    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// How many processes there are: ParallelDegree.
    pub fn processes(&self) -> u32 {
        self.pattern.parallel_degree
    }

    /// The IOs of process `process`, from 0. Panics if there is no such process.
    pub fn ios(&self, process: u32) -> Ios {
        assert!(process < self.processes(), "process {process} of {} was asked for", self.processes());
        let first = self.first.stream(process, self.seed.derive("first", u64::from(process)));
        let second = self.second.as_ref().zip(self.pattern.mix.as_ref()).map(|(site, mix)| {
            (site.stream(process, self.seed.derive("second", u64::from(process))), mix.ratio)
        });
        Ios::new(first, second, self.pattern.io_count)
    }

    /// The largest IO: the size of the buffers that the pattern needs.
    pub fn largest_io(&self) -> Bytes {
        self.sites().map(|site| site.io_size.largest()).max().expect("there is a first site")
    }

    /// The ranges of bytes that it may use: ascending, without overlap, adjacent ones joined.
    pub fn target(&self) -> Vec<Range<Bytes>> {
        let mut ranges: Vec<Range<Bytes>> =
            self.sites().flat_map(|site| (0..self.processes()).map(|p| site.range(p))).collect();
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<Bytes>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }

    fn sites(&self) -> impl Iterator<Item = &Site> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

impl Site {
    fn new(basic: &Basic, degree: u32, space: Space) -> Result<Site, PlanError> {
        let block = space.block.max(Bytes(1));
        let io_size = fit_to_block(basic, block)?;
        let target = target_size(basic, space)?;
        let largest = io_size.largest();
        let slot = basic.slot();
        let part = if degree == 1 { target } else { Bytes(target.0 / u64::from(degree)).round_down(slot) };
        let length = Bytes(part.0.saturating_sub(basic.io_shift.0));
        let slots = Slots::of(basic.location, io_size, basic.slot_size, length);
        if slots.count == 0 {
            return Err(no_slot(basic, largest, slot, degree, target));
        }
        check_slots(basic.location, slots.count, target)?;
        let base = basic.target_offset + basic.io_shift;
        Ok(Site { basic: basic.clone(), io_size, block, base, part, slots })
    }

    fn range(&self, process: u32) -> Range<Bytes> {
        let start = self.base + self.part * u64::from(process);
        start..start + self.slots.end
    }

    fn stream(&self, process: u32, seed: Seed) -> Stream {
        Stream {
            mode: self.basic.mode,
            time: self.basic.time,
            io_size: self.io_size,
            block: self.block,
            base: self.range(process).start,
            walk: Walk::new(self.basic.location, self.slots, seed),
            content: self.basic.content,
            prng: Prng::new(seed),
            in_burst: 0,
        }
    }
}

fn misfit(parameter: PatternParameter, value: String, legal: String, misfit: Misfit) -> PlanError {
    PlanError::Placement { parameter: parameter.name().to_owned(), value, legal, misfit }
}

/// The sizes of the IOs, rounded to multiples of the block. Offsets must already be multiples.
fn fit_to_block(basic: &Basic, block: Bytes) -> Result<IoSize, PlanError> {
    let multiple = |parameter, value: Bytes| {
        if value.is_multiple_of(block) {
            return Ok(());
        }
        let legal = format!("a multiple of the device's block of {}", block.exact());
        Err(misfit(parameter, value.exact(), legal, Misfit::Block))
    };
    multiple(PatternParameter::SlotSize, basic.slot_size.unwrap_or_default())?;
    multiple(PatternParameter::IoShift, basic.io_shift)?;
    multiple(PatternParameter::TargetOffset, basic.target_offset)?;
    multiple(PatternParameter::TargetSize, basic.target_size.unwrap_or_default())?;
    match basic.io_size {
        IoSize::Fixed(size) => multiple(PatternParameter::IoSize, size)?,
        IoSize::Uniform { min, max } => {
            let (min, max) = (min.round_up(block), max.round_down(block));
            if min <= max {
                return Ok(IoSize::Uniform { min, max });
            }
            let legal = format!("a range that holds a multiple of the device's block of {}", block.exact());
            return Err(misfit(PatternParameter::IoSize, basic.io_size.to_string(), legal, Misfit::Block));
        }
    }
    Ok(basic.io_size)
}

/// TargetSize, or the size up to the end of the device.
fn target_size(basic: &Basic, space: Space) -> Result<Bytes, PlanError> {
    let (offset, capacity) = (basic.target_offset, space.capacity);
    let Some(left) = capacity.0.checked_sub(offset.0).filter(|&left| left > 0) else {
        let legal = format!("below the device's capacity of {}", capacity.exact());
        return Err(misfit(PatternParameter::TargetOffset, offset.exact(), legal, Misfit::Space));
    };
    match basic.target_size {
        Some(size) if size.0 > left => {
            let legal = format!(
                "at most {}, as the device ends at {} and the target starts at {}",
                Bytes(left).exact(),
                capacity.exact(),
                offset.exact()
            );
            Err(misfit(PatternParameter::TargetSize, size.exact(), legal, Misfit::Space))
        }
        size => Ok(size.unwrap_or(Bytes(left))),
    }
}

/// The error that the target is too small for one IO of each process.
fn no_slot(basic: &Basic, largest: Bytes, slot: Bytes, degree: u32, target: Bytes) -> PlanError {
    let one = largest + basic.io_shift;
    let fits = format!("one IO of {} with IOShift {}", largest.exact(), basic.io_shift.exact());
    let legal = if degree == 1 {
        format!("at least {}, for {fits}", one.exact())
    } else {
        // Each process's part is rounded down to whole slots, so a shift takes one whole slot of it.
        let least = Bytes(one.round_up(slot).0.saturating_mul(u64::from(degree)));
        format!("at least {}, for {fits} in each of {degree} processes", least.exact())
    };
    misfit(PatternParameter::TargetSize, target.exact(), legal, Misfit::Space)
}

/// Checks that the location function has the slots that it needs.
fn check_slots(location: Location, count: u64, target: Bytes) -> Result<(), PlanError> {
    let (parameter, value, legal) = match location {
        Location::Partitioned { partitions } if u64::from(partitions) > count => {
            let legal = format!("from 1 to {count}, the number of IOs that fit into the target");
            (PatternParameter::Partitions, partitions.to_string(), legal)
        }
        Location::Ordered { incr } if incr.unsigned_abs() > (count - 1).max(1) => {
            let most = (count - 1).max(1);
            let legal = format!("from -{most} to {most}, as {count} IOs fit into the target");
            (PatternParameter::Incr, incr.to_string(), legal)
        }
        Location::HotCold { .. } if count < 2 => {
            let legal = "long enough for two IOs of each process, a hot one and a cold one".to_owned();
            (PatternParameter::TargetSize, target.exact(), legal)
        }
        _ => return Ok(()),
    };
    Err(misfit(parameter, value, legal, Misfit::Space))
}
