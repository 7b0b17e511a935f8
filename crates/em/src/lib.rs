//! External-memory algorithms on any [`Device`](flashlab_device::Device).
//!
//! # Model
//! The machine of Aggarwal and Vitter ("The input/output complexity of sorting and related problems", CACM 1988), whose
//! cost on flash Ajwani et al. examine ("Characterizing the performance of flash memory storage devices and its impact on
//! algorithm design", chapters 2, 4 and 5): an internal memory of M bytes, and devices that move blocks of B bytes. The
//! same code runs on a file, a block device, a simulated device in virtual time and a repaired volume.
//!
//! 1. A [`Machine`] has the devices, the [`MemoryBudget`], the clock and the [`IoLedger`].
//! 2. An [`ExtentAllocator`] gives out [`Region`]s of the devices, striped or placed by role.
//! 3. [`SequenceReader`] and [`SequenceWriter`] move sequences with prefetching and write-behind; [`Tuning`] measures how
//!    many blocks have to be in flight.
//! 4. [`records`] and [`collection`]: sequences of records, and records that are sorted when they do not fit into memory.
//! 5. [`graph`] and [`bfs`]: graphs, and breadth-first search. [`cost`]: what models predict of an algorithm's IOs.
//!
//! # Invariants
//! - This crate uses no clock but the devices' and opens nothing.
//! - An algorithm leases all memory whose size depends on its input from the budget.

pub mod bfs;
mod block_reads;
mod budget;
pub mod collection;
pub mod cost;
mod device_queue;
mod error;
pub mod experiment;
mod extent;
pub mod graph;
mod ledger;
mod machine;
pub mod rank;
mod record_format;
pub mod records;
mod scan;
mod search;
mod sequence;
mod sort;
mod stopwatch;
mod tuning;

pub use budget::{MemoryBudget, MemoryLease};
pub use device_queue::IoRecord;
pub use error::EmError;
pub use extent::{Extent, ExtentAllocator, Region, Spread};
pub use ledger::{IoCounts, IoLedger, PhaseIos};
pub use machine::{HostTime, IoObserver, Machine, Ticket};
pub use record_format::{RECORD_MAX, RecordChecksum, RecordFormat, RecordGenerator};
pub use scan::scan;
pub use search::{
    BinarySearch, SearchStep, SearchStructure, SortedSequence, StaticTree, plan_search, search,
};
pub use sequence::{SequenceReader, SequenceWriter};
pub use sort::{
    ReplayedTimes, SortMethod, SortOutcome, SortPlan, SortRates, SortTask, TemporarySpace, sort,
    verify_sorted, work_on_this_thread,
};
pub use tuning::{
    BandwidthCurve, DEPTH_MAX, DepthChoice, DepthRates, ProbeOrder, SEQUENTIAL_IO, Saturation, Tuning,
    choose_depth, saturating_rate,
};
