//! Damage to what was durable: flipped bits, other bytes, zeroes, older versions and what another volume has at the same place.
//!
//! # Model
//! A fault changes bytes of the device. Each sector belongs to the IO that wrote it last. A damaged write is *shown* if something that was
//! written behind the flush which made it durable is still there: that can say what was durable before. A damaged write that nothing
//! shows is as one that the power failure cut, and the host may find the state that was promised before its flush. Of all others it is
//! promised what is promised without damage. A mount or a read may fail in both cases.
//!
//! Chunks of the map's image show nothing: nobody reads an image before a superblock names it.
//!
//! This follows from the order of the writes and flushes alone, and not from what recovery does.

use std::collections::BTreeSet;
use std::ops::Range;

use flashlab_base::Prng;

use super::media::{Layer, LoggedIo, SECTOR};
use super::workload::{Mark, Run};
use crate::format::BLOCK;

/// A fault is put with this probability, in percent, on one of the last writes: most of what recovery reads is new.
const RECENT_PERCENT: u64 = 60;
/// The number of these last writes.
const RECENT: u64 = 12;
/// Most of a structure's fields lie in its first bytes.
const FIELDS: u64 = 200;

/// How bytes are changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A bit of the byte at this distance.
    Bit(u64, u8),
    /// All bits of the byte at this distance.
    Byte(u64),
    Zeroes,
    /// What was there after this number of IOs.
    Older(usize),
    /// What the same place of another volume has after this number of IOs.
    OtherVolume(usize),
}

/// A damaged device.
pub(crate) struct Damage {
    /// Bytes over those of the device.
    pub layers: Vec<Layer>,
    /// What the host is promised all the same.
    pub promised: usize,
    pub how: String,
}

/// Damages the device of a run behind any of its IOs.
pub(crate) struct Damager<'a> {
    run: &'a Run,
    /// Another volume with the same history.
    other: &'a Run,
    made: [Vec<u8>; 2],
    /// The number of IOs up to the one that wrote each sector last; 0: it was made with the volume.
    owners: Vec<usize>,
}

impl<'a> Damager<'a> {
    pub fn new(run: &'a Run, other: &'a Run) -> Damager<'a> {
        let made = [run.new_media(), other.new_media()];
        let owners = vec![0; made[0].len() / SECTOR];
        Damager { run, other, made, owners }
    }

    /// Notes that this IO is on the device.
    pub fn wrote(&mut self, io: usize) {
        let (start, size) = match &self.run.log[io] {
            LoggedIo::Write { offset, data } => (*offset as usize, data.len()),
            LoggedIo::Discard { offset, size } => (*offset as usize, *size),
            LoggedIo::Flush => return,
        };
        self.owners[start / SECTOR..(start + size).div_ceil(SECTOR)].fill(io + 1);
    }

    /// The owners of these bytes.
    pub fn owners_of(&self, offset: u64, size: usize) -> BTreeSet<usize> {
        let sectors = offset as usize / SECTOR..(offset as usize + size).div_ceil(SECTOR);
        self.owners[sectors].iter().copied().collect()
    }

    /// The owner of the first sector of a block.
    pub fn owner(&self, offset: u64) -> usize {
        self.owners[offset as usize / SECTOR]
    }

    /// A number of random faults behind an IO.
    pub fn random_faults(&self, io: usize, count: usize, random: &mut Prng) -> Vec<(Range<u64>, Fault)> {
        let mut fault = |_| {
            let place = self.place(io, random)?;
            let fault = self.fault(io, &place, random);
            Some((place, fault))
        };
        (0..count).filter_map(&mut fault).collect()
    }

    /// These faults of what the device has behind an IO. `None`: they change nothing.
    pub fn apply(
        &self,
        (io, mark): (usize, Mark),
        unflushed: &[Layer],
        base: &[u8],
        faults: &[(Range<u64>, Fault)],
    ) -> Option<Damage> {
        let mut damage = Damage { layers: Vec::new(), promised: 0, how: String::new() };
        let mut damaged = BTreeSet::new();
        for (place, fault) in faults {
            let mut before = base[place.start as usize..place.end as usize].to_vec();
            unflushed.iter().chain(&damage.layers).for_each(|layer| layer.apply(place.start, &mut before));
            let after = self.changed(place, *fault, &before);
            let sectors =
                before.chunks(SECTOR).zip(after.chunks(SECTOR)).zip(place.start as usize / SECTOR..);
            for ((before, after), sector) in sectors {
                if before != after {
                    damaged.insert(self.owners[sector]);
                }
            }
            if before != after {
                damage.how += &format!("; bytes {place:?} have {fault:?}");
                damage.layers.push(Layer::bytes(place.start, after));
            }
        }
        damage.promised = self.promised(io, mark, &damaged);
        (!damage.layers.is_empty()).then_some(damage)
    }

    /// What the host is promised behind an IO if these writes are damaged.
    pub fn promised(&self, io: usize, mark: Mark, damaged: &BTreeSet<usize>) -> usize {
        let log = &self.run.log;
        let shows = |at: &usize| match &log[*at] {
            LoggedIo::Write { offset, .. } => !self.is_image(*offset) && !damaged.contains(&(at + 1)),
            LoggedIo::Discard { .. } | LoggedIo::Flush => false,
        };
        let cut = damaged.iter().filter_map(|&owner| {
            // What was made with the volume was durable before the first IO.
            let flush = match owner {
                0 => 0,
                _ => 1 + (owner..=io).find(|&at| matches!(log[at], LoggedIo::Flush))?,
            };
            let is_shown = (flush..=io).rev().any(|at| shows(&at));
            // Behind it the device discarded what the state before may need. That takes two faults: a discard waits for a later checkpoint.
            let is_gone =
                damaged.len() > 1 && log[flush..=io].iter().any(|io| matches!(io, LoggedIo::Discard { .. }));
            let before = || if flush < 2 || is_gone { 0 } else { self.run.marks[flush - 2].flushed };
            (!is_shown).then(before)
        });
        cut.fold(mark.flushed, usize::min)
    }

    fn is_image(&self, offset: u64) -> bool {
        let layout = &self.run.layout;
        (layout.images[0].0..layout.segments.0).contains(&offset)
    }

    /// A place in something that was written.
    fn place(&self, io: usize, random: &mut Prng) -> Option<Range<u64>> {
        // Records are most of what is written; recovery trusts the rest as much.
        let wants_metadata = random.below(3) > 0;
        let logged = io as u64 + 1;
        let is_recent = random.below(100) < RECENT_PERCENT;
        let mut found = None;
        for _ in 0..20 {
            let back = random.below(if is_recent { RECENT.min(logged) } else { logged });
            if let LoggedIo::Write { offset, data } = &self.run.log[io - back as usize] {
                found = Some((*offset, data.len() as u64));
                if wants_metadata == self.is_metadata(*offset) {
                    break;
                }
            }
        }
        let (offset, size) = found?;
        let blocks = size / BLOCK.0;
        Some(match random.below(4) {
            0 => offset..offset + size,
            1 => {
                let start = offset + random.below(blocks) * BLOCK.0;
                start..start + BLOCK.0
            }
            _ => offset..offset + BLOCK.0,
        })
    }

    /// Whether it lies before the segments or behind them.
    pub fn is_metadata(&self, offset: u64) -> bool {
        let layout = &self.run.layout;
        let end = layout.segments.0 + u64::from(layout.segment_count) * layout.options.segment.0;
        !(layout.segments.0..end).contains(&offset)
    }

    fn fault(&self, io: usize, place: &Range<u64>, random: &mut Prng) -> Fault {
        let size = place.end - place.start;
        let within = if random.below(2) == 0 { size } else { FIELDS.min(size) };
        let byte = random.below(within);
        match random.below(6) {
            0 => Fault::Bit(byte, random.below(8) as u8),
            1 => Fault::Byte(byte),
            2 => Fault::Zeroes,
            3 => Fault::OtherVolume(random.below(self.other.log.len() as u64 + 1) as usize),
            // Most of the time the version right before.
            4 => Fault::Older(random.below(io as u64 + 1) as usize),
            _ => Fault::Older(self.owners[place.start as usize / SECTOR].saturating_sub(1)),
        }
    }

    fn changed(&self, place: &Range<u64>, fault: Fault, before: &[u8]) -> Vec<u8> {
        let mut after = before.to_vec();
        match fault {
            Fault::Bit(byte, bit) => after[byte as usize] ^= 1 << bit,
            Fault::Byte(byte) => after[byte as usize] ^= 0xff,
            Fault::Zeroes => after.fill(0),
            Fault::Older(ios) => return content(&self.made[0], &self.run.log[..ios], place),
            Fault::OtherVolume(ios) => {
                return content(&self.made[1], &self.other.log[..ios.min(self.other.log.len())], place);
            }
        }
        after
    }
}

/// What a place of a device has after these IOs.
fn content(made: &[u8], log: &[LoggedIo], place: &Range<u64>) -> Vec<u8> {
    let mut bytes = made[place.start as usize..place.end as usize].to_vec();
    for layer in log.iter().filter_map(|io| Layer::of(io, u128::MAX)) {
        layer.apply(place.start, &mut bytes);
    }
    bytes
}
