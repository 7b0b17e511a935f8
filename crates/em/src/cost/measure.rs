//! Measures on a device what it charges for IOs.
//!
//! # Method
//! 1. The region is written once from its beginning to its end, so that reads find data. Reads of ever smaller halves come
//!    first, before anything is overwritten.
//! 2. IOs of a large and a small size are issued with one in flight; the line through the two mean times is the cost. Right
//!    after them, IOs of the small size with as many in flight as the algorithm has give the parallelism. Writes end with
//!    a flush, whose time counts: a write cache only defers what it takes.
//! 3. A volume may have saved up for a burst while it was idle, which the algorithm soon uses up. Where the second half of some
//!    reads is much slower than the first one, reads are repeated until they get no slower, and the last ones count.
//! 4. So sequential reads, sequential writes, a read and a write of two sequences in turns, and random reads are measured.
//! 5. The first half of the region is read and the second half written with the algorithm's depths, first apart and then at the same
//!    time: how much longer that takes than the slower direction alone is what mixing costs.
//! 6. Random writes come last, because a flash layer collects garbage after them.
//! 7. The cost of submitting an IO is the time in which the host does not wait, on a real device, with as many random reads in
//!    flight as the algorithm has.
//!
//! # Invariants
//! - It writes to the region and nowhere else.
//! - The offsets follow from the seed.

use std::collections::VecDeque;

use flashlab_base::{Bytes, Mode, Nanos, Operation, Prng, Seed};
use flashlab_device::Buffer;

use super::algorithm_ios::AccessPattern;
use super::costs::{DeviceCosts, LinearCost, Mixing, Parallelism};
use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;

/// IOs of each kind and size: enough that a disk's rotational delay has a mean within 4 % (deviation 0.58 of it by root
/// of 256), and more than a write cache of 16 MiB takes at 64 KiB.
const IOS: u64 = 256;

/// On a real device there are this many times more, up to [`REAL_MOST`]: others use it, too, so that its times vary more.
const REAL_TIMES: u64 = 8;

/// The bytes that more IOs on a real device cover at most.
const REAL_MOST: Bytes = Bytes::mib(128);

/// IOs of the large size on a simulated device, which has no noise: 256 of them would fill an SLC cache of 256 MiB that the algorithm leaves half empty.
const VIRTUAL_LARGE: u64 = 64;

/// With several IOs in flight, at least this many full queues: their ends, where the queue is not full, then take less than
/// 2 % of the time. On a real device a quarter of them.
const QUEUES: u64 = 64;
const REAL_QUEUES: u64 = 16;

/// More than switching between reads and writes costs on any device of the zoo; an outlier does not count for more. A hard disk seeks
/// twice for 11 ms where a block of 32 KiB takes 1.3 ms.
const MIXING_MAX: f64 = 20.0;

/// A half of some reads that takes longer than the one before by more than this factor is slower for a reason. Random reads of a disk differ by
/// a fourteenth between two halves of 256 (standard deviation), so that one in 200 is taken for slower.
const SLOWER: f64 = 1.2;

/// How often reads are repeated at most until they get no slower.
const REPEATED_MOST: u32 = 8;

/// The most that the sequential IOs of one size cover on a real device: a slow one is not kept busy for minutes.
const REAL_SEQUENTIAL_MOST: Bytes = Bytes::mib(64);

/// With which sizes costs are measured.
#[derive(Clone, Copy, Debug)]
pub struct CostSizes {
    /// The small IO: the algorithm's random IO.
    pub small: Bytes,
    /// The large IO: what the algorithm reads and writes sequentially.
    pub large: Bytes,
    /// How many IOs are in flight for the parallelism.
    pub in_flight: InFlight,
}

/// How many IOs of each kind an algorithm has in flight.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// Reads at random offsets.
    pub random_reads: u32,
    /// Reads that continue each other.
    pub sequential_reads: u32,
    /// Writes that continue each other; with one, nothing is written while reads are in flight.
    pub sequential_writes: u32,
    /// Reads of ever smaller halves; none if zero.
    pub halving_reads: u32,
    /// How many levels of the halving are cached, so that they are not read.
    pub cached_levels: u32,
}

impl InFlight {
    /// One IO of each kind, and no halving.
    pub const ONE: InFlight = InFlight {
        random_reads: 1,
        sequential_reads: 1,
        sequential_writes: 1,
        halving_reads: 0,
        cached_levels: 0,
    };

    /// On each of several devices that share them.
    pub fn shared(self, devices: usize) -> InFlight {
        let share = |count: u32| count.div_ceil(devices.max(1) as u32);
        InFlight {
            random_reads: share(self.random_reads),
            sequential_reads: share(self.sequential_reads),
            sequential_writes: share(self.sequential_writes),
            halving_reads: share(self.halving_reads),
            cached_levels: self.cached_levels,
        }
    }
}

/// Measures what the device of a region charges for IOs to it. The region's content is destroyed.
///
/// # Errors
/// Those of the IOs; [`EmError::Parameter`] when the region does not hold two large IOs; [`EmError::Memory`].
pub fn measure(
    machine: &mut Machine<'_>,
    region: &Region,
    sizes: CostSizes,
    seed: Seed,
) -> Result<DeviceCosts, EmError> {
    let slots = region.size().0 / sizes.large.0.max(1);
    if slots < 2 || sizes.small > sizes.large || sizes.small == Bytes::ZERO {
        return Err(EmError::Parameter(format!(
            "costs of IOs of {} and {} cannot be measured in {}: it must hold two of the larger",
            sizes.small,
            sizes.large,
            region.size()
        )));
    }
    let mut lab = Lab { machine, region, sizes, prng: Prng::new(seed.derive("costs", 0)) };
    let all: Vec<u64> = (0..slots).collect();
    lab.run(Operation::Write, sizes.large, &all, 1)?;
    // Before anything is overwritten: a flash layer then has the blocks on the dies that writing in order gave them.
    let InFlight { random_reads, sequential_reads, sequential_writes, halving_reads, .. } = sizes.in_flight;
    let halving_read = match halving_reads {
        0 => None,
        depth => Some(lab.small_at_once(Mode::Read, AccessPattern::Halving, depth)?),
    };
    let (sequential, random) = (AccessPattern::Sequential, AccessPattern::Random);
    let sequential_read = lab.class(Mode::Read, sequential, sequential_reads)?;
    let sequential_write = lab.class(Mode::Write, sequential, sequential_writes)?;
    let small = lab.alternating(sizes.small)?;
    let large = lab.alternating(sizes.large)?;
    let alternating = LinearCost::through((sizes.small, small), (sizes.large, large));
    let random_read = lab.class(Mode::Read, random, random_reads)?;
    let mixing = match sequential_writes {
        0 | 1 => Mixing::SERIAL,
        writes => Mixing {
            sequential_reads: lab.mixing(sequential, (sequential_reads, writes))?,
            random_reads: lab.mixing(random, (random_reads, writes))?,
        },
    };
    // At the end, because a flash layer collects garbage after them.
    let random_write = lab.class(Mode::Write, random, 1)?;
    Ok(DeviceCosts {
        sequential_read: sequential_read.line(sizes),
        sequential_write: sequential_write.line(sizes),
        random_read: random_read.line(sizes),
        random_write: random_write.line(sizes),
        ascending_read: random_read.line(sizes),
        alternating,
        parallelism: Parallelism {
            sequential_read: sequential_read.parallelism(),
            sequential_write: sequential_write.parallelism(),
            random_read: random_read.parallelism(),
            // A search alone pays for a random read. A block that all searches read is served by one die, so that their
            // rate can fall below that of one read alone.
            halving_read: halving_read.map_or(1.0, |times| (random_read.small.time / times.time).max(0.1)),
            ascending_read: random_read.parallelism(),
        },
        mixing,
        submission: random_read.submission(sizes),
    })
}

/// What IOs of one kind take: a large and a small one alone, and a small one with as many in flight as the algorithm has.
struct ClassTimes {
    large: MeanTimes,
    small: MeanTimes,
    at_once: Option<MeanTimes>,
}

impl ClassTimes {
    fn line(&self, sizes: CostSizes) -> LinearCost {
        LinearCost::through((sizes.small, self.small.time), (sizes.large, self.large.time))
    }

    fn parallelism(&self) -> f64 {
        self.at_once.as_ref().map_or(1.0, |times| (self.small.time / times.time).max(1.0))
    }

    /// Whoever has one IO in flight is woken for each, which is not what several cost; their bytes cost the same.
    fn submission(&self, sizes: CostSizes) -> LinearCost {
        let small = self.at_once.as_ref().unwrap_or(&self.small).submission;
        let large = small + (self.large.submission - self.small.submission).max(0.0);
        LinearCost::through((sizes.small, small), (sizes.large, large))
    }
}

/// Means of IOs of one kind and size, in nanoseconds.
struct MeanTimes {
    time: f64,
    /// How much of it the host did not wait.
    submission: f64,
}

/// How long the two halves of some IOs took.
struct Halves {
    first: Nanos,
    second: Nanos,
}

impl Halves {
    fn total(&self) -> Nanos {
        self.first + self.second
    }

    fn gets_slower(&self) -> bool {
        self.second.0 as f64 > SLOWER * self.first.0 as f64
    }
}

struct Lab<'l, 'm> {
    machine: &'l mut Machine<'m>,
    region: &'l Region,
    sizes: CostSizes,
    prng: Prng,
}

impl Lab<'_, '_> {
    /// The number of IOs of this size.
    fn ios(&self, size: Bytes) -> u64 {
        match self.machine.is_virtual() {
            true if size == self.sizes.small => IOS,
            true => VIRTUAL_LARGE,
            false => (REAL_TIMES * IOS).min(REAL_MOST.0 / size.0).max(IOS),
        }
    }

    /// The most sequential IOs of this size.
    fn sequential_most(&self, size: Bytes) -> u64 {
        match self.machine.is_virtual() {
            true => u64::MAX,
            false => (REAL_SEQUENTIAL_MOST.0 / size.0).max(2),
        }
    }

    /// How many full queues there are at least.
    fn queues(&self) -> u64 {
        if self.machine.is_virtual() { QUEUES } else { REAL_QUEUES }
    }

    /// The mean times of IOs, one in flight.
    fn alone(&mut self, mode: Mode, pattern: AccessPattern, size: Bytes) -> Result<MeanTimes, EmError> {
        let (slots, ios) = (self.region.size().0 / size.0, self.ios(size));
        let sequential = ios.min(slots).min(self.sequential_most(size));
        let indices: Vec<u64> = match pattern {
            AccessPattern::Sequential => {
                let first = self.prng.below(slots - sequential + 1);
                (first..first + sequential).collect()
            }
            _ => self.random(slots, ios),
        };
        self.mean_times(mode, size, indices, 1)
    }

    /// The mean times of IOs at these multiples of their size.
    fn mean_times(
        &mut self,
        mode: Mode,
        size: Bytes,
        indices: Vec<u64>,
        in_flight: u32,
    ) -> Result<MeanTimes, EmError> {
        let count = indices.len() as f64;
        let host = self.machine.host_time();
        let mut took = self.run(mode.into(), size, &indices, in_flight)?;
        let submitting = self.machine.host_time().since(host);
        let mut repeated = 0;
        while mode == Mode::Read && took.gets_slower() && repeated < REPEATED_MOST {
            let again = self.run(mode.into(), size, &indices, in_flight)?;
            // All of it is compared with what it follows: a half that was measured before.
            took = Halves { first: took.second, second: Nanos(again.total().0 / 2) };
            repeated += 1;
        }
        let time = if repeated > 0 { 2.0 * took.second.0 as f64 } else { took.total().0 as f64 };
        Ok(MeanTimes { time: (time / count).max(1.0), submission: submitting.0 as f64 / count })
    }

    /// The mean time of an IO while a sequence is read and another one written, in nanoseconds.
    fn alternating(&mut self, size: Bytes) -> Result<f64, EmError> {
        let half = self.region.size().0 / size.0 / 2;
        let pairs = (self.ios(size) / 2).min(half).min(self.sequential_most(size));
        let (mut free, _lease) = self.machine.budget().buffers(2, size, "measuring costs")?;
        let begin = self.machine.now();
        let mut in_flight: [Option<crate::Ticket>; 2] = [None, None];
        for index in 0..2 * pairs {
            let is_write = index % 2 == 1;
            let slot = index / 2 + if is_write { half } else { 0 };
            if let Some(ticket) = in_flight[usize::from(is_write)].take() {
                free.push(self.machine.wait(ticket)?);
            }
            let (device, offset) = self.region.locate(size * slot);
            let operation = if is_write { Operation::Write } else { Operation::Read };
            let buffer = free.pop().expect("each direction has a buffer");
            let ticket = self.machine.submit(device, operation, offset, size, buffer);
            in_flight[usize::from(is_write)] = Some(ticket);
        }
        while self.machine.wait_any()?.is_some() {}
        self.flush()?;
        Ok(self.machine.now().since(begin).0 as f64 / (2 * pairs) as f64)
    }

    fn flush(&mut self) -> Result<(), EmError> {
        let device = self.region.parts()[0].device;
        let flush = self.machine.submit(device, Operation::Flush, Bytes::ZERO, Bytes::ZERO, Buffer::empty());
        self.machine.wait(flush).map(drop)
    }

    fn random(&mut self, slots: u64, count: u64) -> Vec<u64> {
        (0..count).map(|_| self.prng.below(slots)).collect()
    }

    /// The offsets of IOs of the small size, enough that the ends of the run, where the queue is not full, weigh little.
    fn offsets(&mut self, pattern: AccessPattern, in_flight: u32) -> Vec<u64> {
        let slots = self.region.size().0 / self.sizes.small.0;
        let wanted = self.ios(self.sizes.small).max(self.queues() * u64::from(in_flight));
        match pattern {
            AccessPattern::Sequential => {
                let count = wanted.min(slots).min(self.sequential_most(self.sizes.small));
                let first = self.prng.below(slots - count + 1);
                (first..first + count).collect()
            }
            AccessPattern::Halving => self.halving(slots, wanted, in_flight),
            _ => self.random(slots, wanted),
        }
    }

    /// What `in_flight` binary searches of `slots` blocks read in turns, each of them at another level.
    fn halving(&mut self, slots: u64, wanted: u64, in_flight: u32) -> Vec<u64> {
        let begun = |lab: &mut Self| {
            let mut reads = lab.binary_search(slots);
            reads.drain(..lab.prng.below(reads.len() as u64) as usize);
            reads
        };
        let mut searches: Vec<VecDeque<u64>> = (0..in_flight).map(|_| begun(self)).collect();
        let next = |index: u64| {
            let search = &mut searches[index as usize % in_flight as usize];
            if search.is_empty() {
                *search = self.binary_search(slots);
            }
            search.pop_front().expect("a search reads a block")
        };
        (0..wanted).map(next).collect()
    }

    /// What a binary search of `slots` blocks reads below its cached levels, and the block of its answer if that is none of them.
    fn binary_search(&mut self, slots: u64) -> VecDeque<u64> {
        let (mut low, mut size, mut level, mut reads) = (0, slots, 0, VecDeque::new());
        let mut is_read = false;
        while size > 1 {
            let (half, goes_right) = (size / 2, self.prng.below(2) == 1);
            if level >= self.sizes.in_flight.cached_levels {
                reads.push_back(low + half);
                is_read |= goes_right;
            }
            low += if goes_right { half } else { 0 };
            size -= half;
            level += 1;
        }
        if !is_read {
            reads.push_back(low);
        }
        reads
    }

    /// What reads and writes with these depths at the same time cost each other.
    fn mixing(&mut self, pattern: AccessPattern, depths: (u32, u32)) -> Result<f64, EmError> {
        let small = self.sizes.small;
        let most = (self.machine.budget().left().0 / crate::MemoryBudget::buffer_size(small).0) as u32;
        let writes_in_flight = depths.1.min(most / 2).max(1);
        let reads_in_flight = depths.0.min(most.saturating_sub(writes_in_flight)).max(1);
        let half = self.region.size().0 / small.0 / 2;
        let most = half.min(self.sequential_most(small));
        let ios = self.ios(small);
        let queues = self.queues();
        let count = |depth: u32| ios.max(queues * u64::from(depth)).min(most);
        let mut reads: Vec<u64> = match pattern {
            AccessPattern::Sequential => (0..count(reads_in_flight)).collect(),
            _ => self.random(half, count(reads_in_flight)),
        };
        let mut writes: Vec<u64> = (half..half + count(writes_in_flight)).collect();
        let mut alone = |reads: &[u64], writes: &[u64]| -> Result<(f64, f64), EmError> {
            let read = self.run(Operation::Read, small, reads, reads_in_flight)?.total();
            let written = self.run(Operation::Write, small, writes, writes_in_flight)?.total();
            Ok((read.0.max(1) as f64, written.0.max(1) as f64))
        };
        // Both directions for about the same time. A flush takes as long after few writes, so that no time is scaled.
        let (read, written) = alone(&reads, &writes)?;
        let part = |count: usize, share: f64| ((count as f64 * share.min(1.0)).ceil() as usize).max(2);
        reads.truncate(part(reads.len(), written / read));
        writes.truncate(part(writes.len(), read / written));
        let (read, written) = alone(&reads, &writes)?;
        let both = self.both((&reads, reads_in_flight), (&writes, writes_in_flight))?.0 as f64;
        Ok(((both - read.max(written)) / read.min(written)).clamp(0.0, MIXING_MAX))
    }

    /// Reads and writes at the same time, to the end of the last one and of a flush.
    fn both(&mut self, reads: (&[u64], u32), writes: (&[u64], u32)) -> Result<Nanos, EmError> {
        let size = self.sizes.small;
        let count = (reads.1 + writes.1) as usize;
        let (mut free, _lease) = self.machine.budget().buffers(count, size, "measuring costs")?;
        let mut left = [reads.0.iter(), writes.0.iter()];
        let mut reading = std::collections::BTreeSet::new();
        let mut wanted: Vec<usize> = [vec![0; reads.1 as usize], vec![1; writes.1 as usize]].concat();
        let begin = self.machine.now();
        loop {
            while let Some(direction) = wanted.pop() {
                let Some(slot) = left[direction].next() else { continue };
                let (device, offset) = self.region.locate(size * *slot);
                let operation = if direction == 0 { Operation::Read } else { Operation::Write };
                let buffer = free.pop().expect("each IO in flight has a buffer");
                let ticket = self.machine.submit(device, operation, offset, size, buffer);
                if direction == 0 {
                    reading.insert(ticket);
                }
            }
            let Some((ticket, buffer)) = self.machine.wait_any()? else { break };
            free.push(buffer);
            wanted.push(usize::from(!reading.remove(&ticket)));
        }
        self.flush()?;
        Ok(self.machine.now().since(begin))
    }

    /// What IOs of one kind take: one in flight, and right after these as many as the algorithm has, so that both are of the
    /// same state of the device.
    fn class(&mut self, mode: Mode, pattern: AccessPattern, in_flight: u32) -> Result<ClassTimes, EmError> {
        Ok(ClassTimes {
            large: self.alone(mode, pattern, self.sizes.large)?,
            small: self.alone(mode, pattern, self.sizes.small)?,
            at_once: self.at_once(mode, pattern, in_flight)?,
        })
    }

    /// The times of small IOs with this many in flight; `None` for one.
    fn at_once(
        &mut self,
        mode: Mode,
        pattern: AccessPattern,
        in_flight: u32,
    ) -> Result<Option<MeanTimes>, EmError> {
        (in_flight > 1).then(|| self.small_at_once(mode, pattern, in_flight)).transpose()
    }

    fn small_at_once(
        &mut self,
        mode: Mode,
        pattern: AccessPattern,
        in_flight: u32,
    ) -> Result<MeanTimes, EmError> {
        let offsets = self.offsets(pattern, in_flight);
        self.mean_times(mode, self.sizes.small, offsets, in_flight)
    }

    /// Issues IOs of one size at these multiples of it: from the first submission to the end of the last one, halved when half of them are
    /// done.
    fn run(
        &mut self,
        operation: Operation,
        size: Bytes,
        indices: &[u64],
        in_flight: u32,
    ) -> Result<Halves, EmError> {
        let (mut free, _lease) =
            self.machine.budget().buffers(in_flight as usize, size, "measuring costs")?;
        let begin = self.machine.now();
        let (mut left, mut middle) = (indices.len(), begin);
        let mut wait = |machine: &mut Machine<'_>| -> Result<Option<Buffer>, EmError> {
            let done = machine.wait_any()?;
            left -= usize::from(done.is_some());
            if left == indices.len() / 2 && done.is_some() {
                middle = machine.now();
            }
            Ok(done.map(|(_, buffer)| buffer))
        };
        for &index in indices {
            let buffer = match free.pop() {
                Some(buffer) => buffer,
                None => wait(self.machine)?.expect("an IO is in flight"),
            };
            let (device, offset) = self.region.locate(size * index);
            self.machine.submit(device, operation, offset, size, buffer);
        }
        while wait(self.machine)?.is_some() {}
        if operation == Operation::Write {
            self.flush()?;
        }
        Ok(Halves { first: middle.since(begin), second: self.machine.now().since(middle) })
    }
}

#[cfg(test)]
mod tests {
    use flashlab_device::MemoryDevice;

    use super::*;
    use crate::extent::{ExtentAllocator, Spread};
    use crate::machine::HostTime;

    const SIZES: CostSizes = CostSizes {
        small: Bytes::kib(4),
        large: Bytes::kib(64),
        in_flight: InFlight {
            random_reads: 8,
            sequential_reads: 2,
            sequential_writes: 2,
            halving_reads: 8,
            cached_levels: 0,
        },
    };

    fn on_memory(size: Bytes) -> Result<DeviceCosts, EmError> {
        let device = MemoryDevice::new(Bytes::mib(8), Nanos(5_000));
        let mut machine = Machine::new(vec![Box::new(device)], Bytes::mib(4), HostTime::Declared(Nanos(1)))?;
        let region = ExtentAllocator::new(&machine).allocate(size, Spread::On(0))?;
        measure(&mut machine, &region, SIZES, Seed(1))
    }

    #[test]
    fn a_device_with_one_response_time_charges_a_set_up_and_no_bytes() {
        let costs = on_memory(Bytes::mib(4)).unwrap();
        assert_eq!(costs.random_read, LinearCost { setup_ns: 5_000.0, byte_ns: 0.0 });
        assert_eq!(costs.submission, LinearCost::FREE);
        // 256 or 64 writes and the flush.
        assert!((costs.sequential_write.setup_ns - 5_000.0).abs() < 100.0, "{costs:?}");
        let Parallelism { sequential_read, sequential_write, random_read, halving_read, ascending_read } =
            costs.parallelism;
        for parallelism in [sequential_read, sequential_write, random_read, halving_read, ascending_read] {
            assert!((parallelism - 1.0).abs() < 0.01, "it serves one IO after the other: {costs:?}");
        }
        let Mixing { sequential_reads, random_reads } = costs.mixing;
        assert!((sequential_reads - 1.0).abs() < 0.05 && (random_reads - 1.0).abs() < 0.05, "{costs:?}");
    }

    #[test]
    fn a_region_that_is_too_small_is_an_error() {
        assert_eq!(
            on_memory(Bytes::kib(64)).unwrap_err().to_string(),
            "costs of IOs of 4 KiB and 64 KiB cannot be measured in 64 KiB: it must hold two of the larger"
        );
    }
}
