//! The cost of an external-memory algorithm on a device whose writes cost more than its reads, and whose best block sizes for
//! the two differ.
//!
//! An algorithm that reads x blocks and writes y costs x + c_W y reads, with blocks of one size (the asymmetric external-memory
//! model, as in Papon and Athanassoulis, DaMoN 2021). Ajwani et al. (chapter 5) have B_R < B_W beside it: the block
//! from which on larger reads win little is smaller than that of writes, which want a whole erase block; one then counts
//! reads of B_R and writes of B_W.

use flashlab_base::Bytes;

use crate::linear::Linear;

/// The cost of reads and writes in units of a read of B_R.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExternalMemoryCost {
    /// B_R.
    pub read_block: Bytes,
    /// B_W.
    pub write_block: Bytes,
    /// Nanoseconds of a read of B_R.
    pub read_ns: f64,
    /// c_W: what a write of B_W costs, in reads of B_R.
    pub write_cost: f64,
}

/// A block is large enough where its throughput is this share of the largest: a fixed time as long as the transfer, the usual
/// definition of an affine model's half-bandwidth block.
const SHARE: f64 = 0.5;

impl ExternalMemoryCost {
    /// The costs with the half-bandwidth blocks of both lines, rounded up to a power of two of at least 4 KiB.
    pub fn of_lines(reads: &Linear, writes: &Linear) -> ExternalMemoryCost {
        let block = |line: &Linear| Bytes(line.saturation_size(SHARE).0.max(4096).next_power_of_two());
        ExternalMemoryCost::with_blocks(reads, writes, block(reads), block(writes))
    }

    /// The costs with blocks of these sizes.
    pub fn with_blocks(
        reads: &Linear,
        writes: &Linear,
        read_block: Bytes,
        write_block: Bytes,
    ) -> ExternalMemoryCost {
        let read_ns = reads.time_ns(read_block);
        ExternalMemoryCost {
            read_block,
            write_block,
            read_ns,
            write_cost: writes.time_ns(write_block) / read_ns,
        }
    }

    /// x + c_W y, in seconds: what so many reads of B_R and writes of B_W take.
    pub fn seconds(&self, reads: f64, writes: f64) -> f64 {
        (reads + self.write_cost * writes) * self.read_ns / 1e9
    }

    /// The same for so many bytes read and written.
    pub fn seconds_for(&self, read: Bytes, written: Bytes) -> f64 {
        self.seconds(read.0 as f64 / self.read_block.0 as f64, written.0 as f64 / self.write_block.0 as f64)
    }
}
