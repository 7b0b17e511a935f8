//! The location functions: the offset of each IO in the target (uFLIP section 3.1 and Table 1).
//!
//! # Model
//! The target is divided into slots. A slot is one SlotSize wide, if the pattern has one. Otherwise, for IOs
//! of one size, a slot is one IOSize: the number of a slot times IOSize is the paper's address relative to
//! TargetOffset + IOShift. For IOs of random sizes:
//! - `Sequential` starts each IO where the previous one ended;
//! - `Random`, `Zipf` and `HotCold` start at any multiple of the smallest size;
//! - the other functions have slots of the largest size.
//!
//! # Invariants
//! - Every IO lies within the target: `offset + size <= length`.
//! - No function has memory that grows with the target or with the number of IOs.

use std::ops::Range;

use flashlab_base::{Bytes, Prng, Seed};

use crate::permutation::Permutation;
use crate::zipf::Zipf;
use crate::{IoSize, Location};

/// A target's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// How many there are.
    pub(crate) count: u64,
    /// The distance from the start of one slot to the start of the next.
    pub(crate) width: Bytes,
    /// The end of the last slot's IOs, relative to the start of the first slot.
    pub(crate) end: Bytes,
    /// Whether the pattern has a SlotSize: then each IO of any size starts at the start of a slot.
    pub(crate) apart: bool,
}

impl Slots {
    /// The slots of a target of `length` for IOs of `io_size`, whose sizes are multiples of the
    /// device's block already.
    pub(crate) fn of(location: Location, io_size: IoSize, slot: Option<Bytes>, length: Bytes) -> Slots {
        let largest = io_size.largest();
        let scattered =
            matches!(location, Location::Random | Location::Zipf { .. } | Location::HotCold { .. });
        let width = match (slot, io_size) {
            (Some(slot), _) => slot,
            (None, IoSize::Uniform { min, .. }) if scattered => min,
            _ => largest,
        };
        let count = length.0.checked_sub(largest.0).map_or(0, |rest| rest / width.0 + 1);
        let end = match (location, slot, io_size) {
            (Location::Sequential, None, IoSize::Uniform { .. }) => length,
            _ => Bytes(count.saturating_sub(1) * width.0 + largest.0),
        };
        Slots { count, width, end, apart: slot.is_some() }
    }
}

/// A location function at work.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    slots: Slots,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    Cursor { next: Bytes },
    Random,
    Permutation { permutation: Permutation, seed: Seed, pass: u64, index: u64 },
    Ordered { stride: u64, upwards: bool, slot: u64, column: u64 },
    Partitioned { partitions: u64, partition: u64, row: u64 },
    Zipf { zipf: Zipf, scatter: Permutation },
    HotCold { hot_ios: f64, hot: Range<u64> },
}

impl Walk {
    /// The function before its first IO. There is at least one slot, and the number of slots fits the
    /// location (as [`crate::Pattern::place`] checks).
    pub(crate) fn new(location: Location, slots: Slots, seed: Seed) -> Walk {
        let step = match location {
            Location::Sequential if slots.apart => {
                Step::Ordered { stride: 1, upwards: true, slot: 0, column: 0 }
            }
            Location::Sequential => Step::Cursor { next: Bytes::ZERO },
            Location::Random => Step::Random,
            Location::Permutation => Step::Permutation {
                permutation: Permutation::new(slots.count, seed.derive("pass", 0)),
                seed,
                pass: 0,
                index: 0,
            },
            Location::Ordered { incr } => {
                Step::Ordered { stride: incr.unsigned_abs(), upwards: incr >= 0, slot: 0, column: 0 }
            }
            Location::Partitioned { partitions } => {
                Step::Partitioned { partitions: u64::from(partitions), partition: 0, row: 0 }
            }
            Location::Zipf { theta } => Step::Zipf {
                zipf: Zipf::new(slots.count, theta),
                scatter: Permutation::new(slots.count, seed.derive("scatter", 0)),
            },
            Location::HotCold { ios, space } => {
                Step::HotCold { hot_ios: ios, hot: 0..hot_slots(slots.count, space) }
            }
        };
        Walk { slots, step }
    }

    /// The start of the next IO, which has this size.
    #[inline]
    pub(crate) fn next(&mut self, size: Bytes, prng: &mut Prng) -> Bytes {
        let count = self.slots.count;
        let slot = match &mut self.step {
            Step::Cursor { next } => {
                let offset = if next.0 + size.0 <= self.slots.end.0 { *next } else { Bytes::ZERO };
                *next = offset + size;
                return offset;
            }
            Step::Random => prng.below(count),
            Step::Permutation { permutation, seed, pass, index } => {
                if *index == count {
                    (*pass, *index) = (*pass + 1, 0);
                    *permutation = Permutation::new(count, seed.derive("pass", *pass));
                }
                *index += 1;
                permutation.at(*index - 1)
            }
            Step::Ordered { stride, upwards, slot, column } => {
                let current = *slot;
                step_by_columns(*stride, count, slot, column);
                if *upwards || current == 0 { current } else { count - current }
            }
            Step::Partitioned { partitions, partition, row } => {
                let rows = count / *partitions;
                let current = *partition * rows + *row;
                *partition += 1;
                if *partition == *partitions {
                    *partition = 0;
                    *row = if *row + 1 == rows { 0 } else { *row + 1 };
                }
                current
            }
            Step::Zipf { zipf, scatter } => scatter.at(zipf.draw(prng) - 1),
            Step::HotCold { hot_ios, hot } => {
                if prng.unit() < *hot_ios {
                    prng.below(hot.end)
                } else {
                    hot.end + prng.below(count - hot.end)
                }
            }
        };
        Bytes(slot * self.slots.width.0)
    }
}

/// Moves on by one stride. After the end of the target the next column starts, and after the last column the
/// first one. A stride of 0 stays.
fn step_by_columns(stride: u64, count: u64, slot: &mut u64, column: &mut u64) {
    if stride == 0 {
        return;
    }
    *slot += stride;
    if *slot >= count {
        *column = if *column + 1 >= stride { 0 } else { *column + 1 };
        *slot = *column;
    }
}

/// The number of hot slots: at least one, and at least one is cold.
pub(crate) fn hot_slots(count: u64, space: f64) -> u64 {
    ((count as f64 * space).round() as u64).clamp(1, count.max(2) - 1)
}
