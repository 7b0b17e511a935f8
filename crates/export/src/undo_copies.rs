//! The old content of blocks that were written since the last flush. A simulated power loss puts this content back, as if the
//! writes were lost.
//!
//! # Invariants
//! - There are never more copies than slots: one more drops the oldest copy.

use std::collections::{HashMap, VecDeque};
use std::io;

use flashlab_base::Bytes;
use flashlab_host::Memory;

/// The size of one copy: 4 KiB, the usual block size of file systems and size of a page of memory.
pub(crate) const BLOCK: u64 = 4096;

/// The copies. Their virtual memory is reserved when the disk opens, so no IO calls the memory allocator. The kernel provides
/// the physical page when a slot is first used.
pub(crate) struct UndoCopies {
    /// Slots of one block each, used round-robin.
    slots: Memory,
    slot_count: usize,
    next_slot: usize,
    /// The copy of each block that has one.
    copies: HashMap<u64, UndoCopy>,
    /// The blocks with a copy, oldest copy first.
    order: VecDeque<u64>,
    /// One bit for each block that may contain anything but zeroes. A block whose bit is 0 is neither read
    /// nor copied. That would make the kernel allocate two pages of memory: one in the disk's image and one in the slot.
    maybe_nonzero: Vec<u64>,
}

/// The old content of a block.
#[derive(Clone, Copy)]
struct UndoCopy {
    slot: usize,
    /// The block was zeroes, whatever the slot holds.
    is_zeroes: bool,
}

impl UndoCopies {
    /// Allocates `slot_count` slots, 1 or more. `is_zeroes` says that all `blocks` blocks of the disk are zeroes now.
    pub fn new(slot_count: usize, blocks: u64, is_zeroes: bool) -> io::Result<UndoCopies> {
        let maybe_nonzero = vec![if is_zeroes { 0 } else { u64::MAX }; blocks.div_ceil(64) as usize];
        Ok(UndoCopies {
            slots: Memory::zeroes(Bytes(slot_count as u64 * BLOCK))?,
            slot_count,
            next_slot: 0,
            copies: HashMap::with_capacity(slot_count),
            order: VecDeque::with_capacity(slot_count),
            maybe_nonzero,
        })
    }

    /// Whether the block has a copy.
    pub fn has(&self, block: u64) -> bool {
        self.copies.contains_key(&block)
    }

    /// The number of blocks with a copy.
    pub fn count(&self) -> u64 {
        self.copies.len() as u64
    }

    /// The blocks with their copies; `None` is a block of zeroes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        self.copies.iter().map(|(&block, copy)| {
            let content = &self.slots[copy.slot * BLOCK as usize..][..BLOCK as usize];
            (block, (!copy.is_zeroes).then_some(content))
        })
    }

    /// Whether the block may hold something other than zeroes.
    pub fn maybe_nonzero(&self, block: u64) -> bool {
        self.maybe_nonzero[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// Notes that a range is written.
    pub fn note_write(&mut self, offset: u64, size: u64) {
        for block in offset / BLOCK..(offset + size).div_ceil(BLOCK) {
            self.maybe_nonzero[block as usize / 64] |= 1 << (block % 64);
        }
    }

    /// The slot for the next copy. If all are in use, the oldest copy is dropped.
    pub fn free_slot(&mut self) -> &mut [u8] {
        if self.order.len() == self.slot_count
            && let Some(oldest) = self.order.pop_front()
        {
            self.copies.remove(&oldest);
        }
        self.slot(self.next_slot)
    }

    /// Records the copy of `block`: zeroes if `is_zeroes`, otherwise what the caller wrote into [`UndoCopies::free_slot`].
    pub fn add(&mut self, block: u64, is_zeroes: bool) {
        self.copies.insert(block, UndoCopy { slot: self.next_slot, is_zeroes });
        self.order.push_back(block);
        self.next_slot = (self.next_slot + 1) % self.slot_count;
    }

    /// The copy of `block`, for the caller to change. A copy that was only marked as zeroes is filled with zeroes first.
    pub fn get_mut(&mut self, block: u64) -> Option<&mut [u8]> {
        let copy = self.copies.get_mut(&block)?;
        let (slot, is_zeroes) = (copy.slot, std::mem::take(&mut copy.is_zeroes));
        let content = self.slot(slot);
        if is_zeroes {
            content.fill(0);
        }
        Some(content)
    }

    /// Drops all copies.
    pub fn clear(&mut self) {
        self.copies.clear();
        self.order.clear();
    }

    fn slot(&mut self, slot: usize) -> &mut [u8] {
        &mut self.slots[slot * BLOCK as usize..][..BLOCK as usize]
    }
}
