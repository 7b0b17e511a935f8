//! Each fault of what recovery trusts, one after the other: each bit and byte of superblocks, checkpoints, images and record headers, and
//! each block of them as zeroes, as it was before and as another volume has it, alone and in pairs.

use std::ops::Range;

use super::super::damage::Fault;
use super::super::media::{Layer, LoggedIo, SECTOR};
use super::super::report::CrashReport;
use super::super::workload::{Mark, Run};
use super::Explorer;
use crate::format::BLOCK;
use crate::seeded_bug::SeededBug;

/// Bytes of a block that are damaged one by one even if they are zero.
const FIELDS: usize = 256;

/// Tries the faults where the run's volume was last closed in order, and at its end, where it was not: one in this number of them.
pub(crate) fn explore(run: &Run, other: &Run, one_in: u64, bug: Option<SeededBug>, report: &mut CrashReport) {
    let mut explorer = Explorer::new(run, other, bug, report);
    let mut unflushed = Vec::new();
    let closed = run.closed.last().copied();
    for at in 0..run.log.len().min(run.marks.len()) {
        explorer.advance(at, &mut unflushed);
        if let Some((_, mark)) = closed.filter(|closed| closed.0 == at && unflushed.is_empty()) {
            explorer.every_fault((at, mark), &[], one_in);
        }
    }
    if let Some(end) = run.log.len().min(run.marks.len()).checked_sub(1) {
        explorer.every_fault((end, run.marks[end]), &unflushed, one_in);
    }
}

impl Explorer<'_> {
    fn every_fault(&mut self, place: (usize, Mark), unflushed: &[usize], one_in: u64) {
        let all = vec![true; unflushed.len()];
        let layers = self.subset(unflushed, &all, false).layers;
        let blocks = self.trusted_blocks(place.0);
        let whole = |io: usize, before: usize| {
            [Fault::Zeroes, Fault::Older(before), Fault::OtherVolume(io + 1), Fault::Byte(0)]
        };
        let mut of_blocks: Vec<(Range<u64>, Fault)> = Vec::new();
        for block in &blocks {
            let before = self.damager.owner(block.start).saturating_sub(1);
            of_blocks.extend(whole(place.0, before).map(|fault| (block.clone(), fault)));
            let mut bytes = self.base[block.start as usize..block.end as usize].to_vec();
            layers.iter().for_each(|layer| layer.apply(block.start, &mut bytes));
            for (at, byte) in bytes.iter().enumerate() {
                if *byte == 0 && at >= FIELDS {
                    continue;
                }
                let bits = (0..8).map(|bit| Fault::Bit(at as u64, bit));
                for fault in bits.chain([Fault::Byte(at as u64)]) {
                    self.try_one_in(one_in, place, &layers, &[(block.clone(), fault)]);
                }
            }
        }
        for (index, first) in of_blocks.iter().enumerate() {
            self.try_faults(place, &layers, std::slice::from_ref(first));
            for second in &of_blocks[index + 1..] {
                self.try_one_in(one_in, place, &layers, &[first.clone(), second.clone()]);
            }
        }
    }

    fn try_one_in(
        &mut self,
        one_in: u64,
        place: (usize, Mark),
        layers: &[Layer],
        faults: &[(Range<u64>, Fault)],
    ) {
        if !self.is_done() && self.random.below(one_in.max(1)) == 0 {
            self.try_faults(place, layers, faults);
        }
    }

    /// The blocks that hold superblocks, checkpoints, chunks of images and record headers behind an IO.
    fn trusted_blocks(&self, io: usize) -> Vec<Range<u64>> {
        let block = |start: u64| start..start + BLOCK.0;
        let starts = (0..(self.base.len() as u64 / BLOCK.0)).map(|block| block * BLOCK.0);
        let is_trusted = |start: &u64| match self.damager.owner(*start) {
            0 => self.base[*start as usize..*start as usize + SECTOR].iter().any(|&byte| byte != 0),
            owner => match &self.run.log[..=io][owner - 1] {
                LoggedIo::Write { offset, .. } => self.damager.is_metadata(*start) || offset == start,
                LoggedIo::Discard { .. } | LoggedIo::Flush => false,
            },
        };
        starts.filter(is_trusted).map(block).collect()
    }
}
