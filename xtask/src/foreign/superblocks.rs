//! A textbook page map (Birrell et al., "A Design for High-Performance Flash Disks", 2007; Agrawal et al.,
//! "Design Tradeoffs for SSD Performance", USENIX ATC 2008). It allocates superblocks: one block of each die,
//! filled page by page across the dies. When one free superblock is left, the one with the fewest valid pages
//! is copied and erased (greedy). Dies work in parallel, each on a separate channel; commands are sequential.

use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Prng};
use flashlab_device::Operation;

use super::{Model, micros, of, plain};
use crate::truth::Truth;

const NOWHERE: u32 = u32::MAX;

pub struct Superblocks {
    page: u64,
    dies: u64,
    /// Pages of a superblock.
    pages: u32,
    logical: u32,
    command: u64,
    read: u64,
    program: u64,
    erase: u64,
    transfer: u64,
    /// By logical page.
    place: Vec<u32>,
    /// By physical page.
    owner: Vec<u32>,
    /// By superblock.
    valid: Vec<u32>,
    free: Vec<u32>,
    open: u32,
    next: u32,
    /// The times until which each die, and the controller, are busy.
    busy: Vec<u64>,
    taken: u64,
    /// The bytes programmed for the host before the first collection.
    onset: Option<u64>,
    programmed: u64,
}

impl Superblocks {
    pub fn random(random: &mut Prng) -> Superblocks {
        let page = of(random, &[4096, 8192, 16384]);
        let dies = of(random, &[1, 2, 4, 6, 8]);
        let pages = (of(random, &[64, 96, 128, 192]) * dies) as u32;
        // About 200 MB, which is no whole number of superblocks.
        let logical = (150_000_000 + random.below(100_000_000)) / page;
        let spare = 0.08 + 0.2 * random.unit();
        let blocks = ((logical as f64 * (1.0 + spare) / f64::from(pages)).ceil() as u32)
            .max((logical as u32).div_ceil(pages) + 3);
        Superblocks {
            page,
            dies,
            pages,
            logical: logical as u32,
            command: micros(random, 5.0, 25.0),
            read: micros(random, 40.0, 90.0),
            program: micros(random, 250.0, 1200.0),
            erase: micros(random, 2000.0, 5000.0),
            transfer: page * micros(random, 0.003, 0.012),
            place: vec![NOWHERE; logical as usize],
            owner: vec![NOWHERE; (blocks * pages) as usize],
            valid: vec![0; blocks as usize],
            free: (1..blocks).rev().collect(),
            open: 0,
            next: 0,
            busy: vec![0; dies as usize],
            taken: 0,
            onset: None,
            programmed: 0,
        }
    }

    fn die(&self, physical: u32) -> usize {
        (u64::from(physical % self.pages) % self.dies) as usize
    }

    /// Keeps a die busy from `at` on; returns when it is free again.
    fn work(&mut self, die: usize, time: u64, at: u64) -> u64 {
        let end = self.busy[die].max(at) + time;
        self.busy[die] = end;
        end
    }

    /// Appends a page.
    fn append(&mut self, logical: u32, at: u64) -> u64 {
        let physical = self.open * self.pages + self.next;
        self.next += 1;
        let old = std::mem::replace(&mut self.place[logical as usize], physical);
        if old != NOWHERE {
            self.valid[(old / self.pages) as usize] -= 1;
            self.owner[old as usize] = NOWHERE;
        }
        self.owner[physical as usize] = logical;
        self.valid[self.open as usize] += 1;
        self.work(self.die(physical), self.transfer + self.program, at)
    }

    /// A new open superblock, if the last one is full.
    fn collect_until_free(&mut self, at: u64) {
        while self.next == self.pages {
            self.open = self.free.pop().expect("one superblock is free");
            self.next = 0;
            if self.free.is_empty() {
                self.onset.get_or_insert(self.programmed);
                self.collect(at);
            }
        }
    }

    /// Copies the superblock with the fewest valid pages to the empty open one, and erases it.
    fn collect(&mut self, at: u64) {
        let closed = (0..self.valid.len() as u32).filter(|&block| block != self.open);
        let victim = closed.min_by_key(|&block| self.valid[block as usize]).expect("there are several");
        for physical in victim * self.pages..(victim + 1) * self.pages {
            let logical = self.owner[physical as usize];
            if logical != NOWHERE {
                let read = self.work(self.die(physical), self.read + self.transfer, at);
                self.append(logical, read);
            }
        }
        for die in 0..self.dies as usize {
            self.work(die, self.erase, at);
        }
        self.free.push(victim);
    }

    fn read_page(&mut self, logical: u32, at: u64) -> u64 {
        match self.place[logical as usize] {
            NOWHERE => at,
            physical => self.work(self.die(physical), self.read + self.transfer, at),
        }
    }
}

impl Model for Superblocks {
    fn name(&self) -> &'static str {
        "superblocks"
    }

    fn capacity(&self) -> Bytes {
        Bytes(u64::from(self.logical) * self.page)
    }

    fn depth(&self) -> u32 {
        32
    }

    fn serve(&mut self, operation: Operation, offset: u64, size: u64, now: u64) -> u64 {
        self.taken = self.taken.max(now) + self.command;
        let (at, end) = (self.taken, offset + size);
        (offset / self.page..end.div_ceil(self.page))
            .map(|page| {
                let logical = page as u32;
                if operation == Operation::Read {
                    return self.read_page(logical, at);
                }
                let whole = offset <= page * self.page && (page + 1) * self.page <= end;
                let ready = if whole { at } else { self.read_page(logical, at) };
                self.collect_until_free(ready);
                self.programmed += 1;
                self.append(logical, ready)
            })
            .max()
            .unwrap_or(at)
    }

    fn truth(&self, parameter: Parameter) -> Truth {
        let unit = u64::from(self.pages) * self.page;
        match parameter {
            Parameter::ReadPageSize | Parameter::WritePageSize | Parameter::MappingGranularity => {
                self.page.into()
            }
            Parameter::PlanesReadAtOnce => 1.into(),
            Parameter::ChunkSize | Parameter::StripeSize if self.dies == 1 => {
                Truth::NotIdentifiable("with one die there is no other to tell it from")
            }
            Parameter::ChunkSize => self.page.into(),
            Parameter::StripeSize => (self.page * self.dies).into(),
            Parameter::ParallelUnits | Parameter::Channels => self.dies.into(),
            Parameter::EraseBlockSize => unit.into(),
            Parameter::OpenBlocks => Truth::NotIdentifiable("a page map writes everywhere at the same cost"),
            Parameter::TranslationFamily => "page".into(),
            // One superblock is kept free.
            Parameter::PhysicalCapacity => (unit * (self.valid.len() as u64 - 1)).into(),
            Parameter::OverProvisioning => {
                let physical = unit * (self.valid.len() as u64 - 1);
                (physical as f64 / self.capacity().0 as f64 - 1.0).into()
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
    fn collection_begins_when_all_but_one_superblock_hold_data_and_keeps_every_page() {
        let mut model = Superblocks::random(&mut Prng::new(Seed(1)));
        let (page, logical) = (model.page, u64::from(model.logical));
        let mut random = Prng::new(Seed(2));
        for page_number in (0..logical).chain((0..2 * logical).map(|_| random.below(logical))) {
            model.serve(Operation::Write, page_number * page, page, 0);
        }
        let truth = model.truth(Parameter::PhysicalCapacity);
        assert_eq!(truth, Truth::from(model.onset.unwrap() * page));
        for (logical, &physical) in model.place.iter().enumerate() {
            assert_eq!(model.owner[physical as usize], logical as u32);
        }
        let valid: u32 = model.valid.iter().sum();
        assert_eq!(valid, model.logical);
    }
}
