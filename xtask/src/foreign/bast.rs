//! Log blocks with one data block each, as Kim et al. describe them ("A space-efficient flash translation
//! layer for CompactFlash systems", IEEE Transactions on Consumer Electronics 48(2), 2002): a block map, and
//! a few log blocks with page maps. There is one chip, which does one operation after the other. The least
//! recently used log is evicted.

use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Prng};
use flashlab_device::Operation;

use super::{Model, micros, of, plain};
use crate::truth::Truth;

struct Log {
    owner: u64,
    written: u64,
    in_order: bool,
}

pub struct Bast {
    page: u64,
    /// Pages of a block.
    pages: u64,
    blocks: u64,
    most_logs: usize,
    command: u64,
    read: u64,
    program: u64,
    erase: u64,
    /// The time of a byte on the link, in picoseconds.
    link: u64,
    /// The least recently used one first.
    logs: Vec<Log>,
    /// For each block: whether it was ever written, and how far in order.
    filled: Vec<u64>,
    free_at: u64,
}

impl Bast {
    pub fn random(random: &mut Prng) -> Bast {
        let page = of(random, &[2048, 4096, 8192]);
        let pages = of(random, &[64, 96, 128, 256]);
        let blocks = (100_000_000 + random.below(150_000_000)) / (page * pages);
        Bast {
            page,
            pages,
            blocks,
            most_logs: (1 + random.below(12)) as usize,
            command: micros(random, 100.0, 400.0),
            read: micros(random, 90.0, 250.0),
            program: micros(random, 300.0, 900.0),
            erase: micros(random, 1500.0, 3000.0),
            link: 1_000_000 / (15 + random.below(20)),
            logs: Vec::new(),
            filled: vec![0; blocks as usize],
            free_at: 0,
        }
    }

    /// The time to merge a log with its data block. A log in order becomes the data block, after the
    /// remaining pages were copied into it. Otherwise all pages are copied.
    fn merge(&self, log: &Log) -> u64 {
        let copied = if log.in_order { self.pages - log.written } else { self.pages };
        let erased = if log.in_order { 1 } else { 2 };
        copied * (self.read + self.program) + erased * self.erase
    }

    /// What writing one page takes.
    fn write_page(&mut self, page: u64) -> u64 {
        let (block, offset) = (page / self.pages, page % self.pages);
        if self.filled[block as usize] <= offset && !self.logs.iter().any(|log| log.owner == block) {
            self.filled[block as usize] = offset + 1;
            return self.program;
        }
        let mut time = self.program;
        if let Some(index) = self.logs.iter().position(|log| log.owner == block) {
            let mut log = self.logs.remove(index);
            if log.written < self.pages {
                log.in_order &= log.written == offset;
                log.written += 1;
                self.logs.push(log);
                return time;
            }
            time += self.merge(&log);
        } else if self.logs.len() == self.most_logs {
            let oldest = self.logs.remove(0);
            time += self.merge(&oldest);
        }
        self.filled[block as usize] = self.pages;
        self.logs.push(Log { owner: block, written: 1, in_order: offset == 0 });
        time
    }
}

impl Model for Bast {
    fn name(&self) -> &'static str {
        "bast"
    }

    fn capacity(&self) -> Bytes {
        Bytes(self.blocks * self.pages * self.page)
    }

    fn depth(&self) -> u32 {
        1
    }

    fn serve(&mut self, operation: Operation, offset: u64, size: u64, now: u64) -> u64 {
        let begin = self.free_at.max(now);
        let end = offset + size;
        let mut time = self.command + size * self.link / 1000;
        for page in offset / self.page..end.div_ceil(self.page) {
            if operation == Operation::Read {
                time += self.read;
                continue;
            }
            let whole = offset <= page * self.page && (page + 1) * self.page <= end;
            if !whole {
                time += self.read;
            }
            time += self.write_page(page);
        }
        self.free_at = begin + time;
        self.free_at
    }

    fn truth(&self, parameter: Parameter) -> Truth {
        match parameter {
            Parameter::ReadPageSize | Parameter::WritePageSize => self.page.into(),
            Parameter::PlanesReadAtOnce
            | Parameter::ParallelUnits
            | Parameter::Channels
            | Parameter::UsefulQueueDepth => 1.into(),
            Parameter::ChunkSize | Parameter::StripeSize => {
                Truth::NotIdentifiable("with one die there is no other to tell it from")
            }
            // Every page is read separately, and the link does not overlap with the flash. So response times
            // are a line, to the nanosecond.
            Parameter::ReadCostPerIo => self.command.into(),
            Parameter::EraseBlockSize | Parameter::MappingGranularity => (self.pages * self.page).into(),
            Parameter::OpenBlocks => (self.most_logs as u64).into(),
            Parameter::TranslationFamily => "log-block".into(),
            Parameter::PhysicalCapacity | Parameter::OverProvisioning => {
                Truth::NotIdentifiable("log blocks belong to one data block each")
            }
            other => plain(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_base::Seed;

    #[test]
    fn one_block_more_than_there_are_logs_costs_a_merge_for_each_write() {
        let mut model = Bast::random(&mut Prng::new(Seed(5)));
        let (page, block, logs) = (model.page, model.pages * model.page, model.most_logs as u64);
        for number in 0..model.blocks * model.pages {
            model.serve(Operation::Write, number * page, page, 0);
        }
        let mut round = |blocks: u64| {
            let before = model.free_at;
            for number in 0..blocks {
                model.serve(Operation::Write, number * block + 5 * page, page, 0);
            }
            (model.free_at - before) / blocks
        };
        round(logs);
        let (cheap, _, expensive) = (round(logs), round(logs + 1), round(logs + 1));
        assert!(expensive > 10 * cheap, "{cheap} {expensive}");
    }
}
