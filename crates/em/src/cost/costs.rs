//! What a device charges for an IO: a line for each direction and pattern.

use flashlab_base::{Bytes, Mode};

use super::algorithm_ios::AccessPattern;

/// The time of an IO of x bytes: `setup_ns + x * byte_ns` (the affine model's 1 + alpha x, in nanoseconds).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearCost {
    /// What an IO costs whatever its size, in nanoseconds.
    pub setup_ns: f64,
    /// What each byte adds, in nanoseconds.
    pub byte_ns: f64,
}

impl LinearCost {
    /// What costs nothing.
    pub const FREE: LinearCost = LinearCost { setup_ns: 0.0, byte_ns: 0.0 };

    /// The line through two measured points, each a size and its mean time in nanoseconds. A slope or set-up below
    /// zero, which noise can give, becomes zero.
    pub fn through(small: (Bytes, f64), large: (Bytes, f64)) -> LinearCost {
        let run = (large.0.0 as f64 - small.0.0 as f64).max(1.0);
        let byte_ns = ((large.1 - small.1) / run).max(0.0);
        LinearCost { setup_ns: (small.1 - byte_ns * small.0.0 as f64).max(0.0), byte_ns }
    }

    /// The same line moved so that an IO of this size takes this time, in nanoseconds.
    pub fn moved_to(&self, size: Bytes, time: f64) -> LinearCost {
        let byte_ns = self.byte_ns.min(time / size.0.max(1) as f64);
        LinearCost { setup_ns: time - byte_ns * size.0 as f64, byte_ns }
    }

    /// The time of one IO of this size, in nanoseconds.
    pub fn of(&self, size: Bytes) -> f64 {
        self.setup_ns + self.byte_ns * size.0 as f64
    }

    /// The size whose transfer takes as long as the set-up: half the bandwidth is reached there. At least 512 bytes.
    pub fn half_bandwidth(&self) -> Bytes {
        if self.byte_ns == 0.0 {
            return Bytes::mib(1);
        }
        Bytes(((self.setup_ns / self.byte_ns) as u64).max(512).next_power_of_two())
    }
}

/// What a device charges, by direction and pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceCosts {
    /// A read that continues where the one before it ended.
    pub sequential_read: LinearCost,
    /// A write that continues where the one before it ended.
    pub sequential_write: LinearCost,
    /// A read at a random offset.
    pub random_read: LinearCost,
    /// A write at a random offset.
    pub random_write: LinearCost,
    /// A read behind the one before it, after a gap. Where it is not measured, that of a random read.
    pub ascending_read: LinearCost,
    /// A read or a write of a sequence while another sequence is written or read: half of what a pair takes.
    pub alternating: LinearCost,
    /// P of the PDAM, for each direction and pattern.
    pub parallelism: Parallelism,
    /// What reads and writes at the same time cost each other.
    pub mixing: Mixing,
    /// How long the CPU takes to submit an IO and to take its result: on a real device. In virtual time, and where it is not known, zero.
    pub submission: LinearCost,
}

/// How many times the rate of one IO in flight a device reaches with more in flight: P of the PDAM. A write cache makes it
/// another one for writes, and prefetching or interleaved channels make it another one for sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parallelism {
    /// Of reads that continue each other.
    pub sequential_read: f64,
    /// Of writes that continue each other.
    pub sequential_write: f64,
    /// Of reads at random offsets.
    pub random_read: f64,
    /// Of reads of ever smaller halves, over one random read in flight. The few blocks that are read most lie on few dies, since their
    /// distances are large powers of two, as is the number of dies: those dies limit all searches. A disk seeks less far at each level.
    pub halving_read: f64,
    /// Of reads behind each other, with as many in flight as a level of a search allows.
    pub ascending_read: f64,
}

/// What reads and writes at the same time cost each other, as the share of the shorter direction's time that is added to the
/// longer one's: 0 where both directions go on as if alone, 1 where one waits for the other, more where switching costs. Less than 0
/// where both together take less time than the longer one alone: a merge reads closer to where it read before than random reads do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixing {
    /// Of reads that continue each other.
    pub sequential_reads: f64,
    /// Of reads at random offsets.
    pub random_reads: f64,
}

impl Mixing {
    /// A device that does one after the other.
    pub const SERIAL: Mixing = Mixing { sequential_reads: 1.0, random_reads: 1.0 };
}

impl Parallelism {
    /// The P of a direction and pattern. Writes at random offsets have that of sequential ones. Alternating IOs were
    /// measured with a read and a write in flight, so that their line has it.
    pub fn of(&self, mode: Mode, pattern: AccessPattern) -> f64 {
        match (mode, pattern) {
            (Mode::Read, AccessPattern::Sequential) => self.sequential_read,
            (Mode::Write, AccessPattern::Sequential | AccessPattern::Random) => self.sequential_write,
            (Mode::Read, AccessPattern::Random) => self.random_read,
            (Mode::Read, AccessPattern::Halving) => self.halving_read,
            (Mode::Read, AccessPattern::Ascending) => self.ascending_read,
            (Mode::Write, AccessPattern::Halving | AccessPattern::Ascending) => self.sequential_write,
            (_, AccessPattern::Alternating) => 1.0,
        }
    }
}

impl DeviceCosts {
    /// The line for a direction and pattern.
    pub fn line(&self, mode: Mode, pattern: AccessPattern) -> LinearCost {
        match (mode, pattern) {
            (Mode::Read, AccessPattern::Sequential) => self.sequential_read,
            (Mode::Write, AccessPattern::Sequential) => self.sequential_write,
            (Mode::Read, AccessPattern::Random | AccessPattern::Halving) => self.random_read,
            (Mode::Read, AccessPattern::Ascending) => self.ascending_read,
            (Mode::Write, AccessPattern::Random | AccessPattern::Halving | AccessPattern::Ascending) => {
                self.random_write
            }
            (_, AccessPattern::Alternating) => self.alternating,
        }
    }

    /// The means of two measurements.
    pub fn mean(&self, other: &DeviceCosts) -> DeviceCosts {
        let mean = |of: fn(&DeviceCosts) -> f64| (of(self) + of(other)) / 2.0;
        let line = |of: fn(&DeviceCosts) -> LinearCost| LinearCost {
            setup_ns: (of(self).setup_ns + of(other).setup_ns) / 2.0,
            byte_ns: (of(self).byte_ns + of(other).byte_ns) / 2.0,
        };
        DeviceCosts {
            sequential_read: line(|costs| costs.sequential_read),
            sequential_write: line(|costs| costs.sequential_write),
            random_read: line(|costs| costs.random_read),
            random_write: line(|costs| costs.random_write),
            ascending_read: line(|costs| costs.ascending_read),
            alternating: line(|costs| costs.alternating),
            submission: line(|costs| costs.submission),
            parallelism: Parallelism {
                sequential_read: mean(|costs| costs.parallelism.sequential_read),
                sequential_write: mean(|costs| costs.parallelism.sequential_write),
                random_read: mean(|costs| costs.parallelism.random_read),
                halving_read: mean(|costs| costs.parallelism.halving_read),
                ascending_read: mean(|costs| costs.parallelism.ascending_read),
            },
            mixing: Mixing {
                sequential_reads: mean(|costs| costs.mixing.sequential_reads),
                random_reads: mean(|costs| costs.mixing.random_reads),
            },
        }
    }

    /// c_W: what a random write of a block costs over what a random read costs (Ajwani et al., chapter 5).
    pub fn write_penalty(&self, block: Bytes) -> f64 {
        self.random_write.of(block) / self.random_read.of(block).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let line = LinearCost::through((Bytes(4096), 50_000.0), (Bytes(1 << 20), 50_000.0 + 1_044_480.0));
        assert!((line.byte_ns - 1.0).abs() < 1e-9, "{line:?}");
        assert!((line.of(Bytes(4096)) - 50_000.0).abs() < 1e-6);
        assert_eq!(line.half_bandwidth(), Bytes(1 << 16));
    }

    #[test]
    fn noise_gives_no_negative_costs() {
        let line = LinearCost::through((Bytes(4096), 9_000.0), (Bytes(8192), 8_000.0));
        assert_eq!((line.setup_ns, line.byte_ns), (9_000.0, 0.0));
    }
}
