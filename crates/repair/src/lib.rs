//! Append and Pack: random page writes become large sequential appends.
//!
//! # Model
//! (Stoica et al., "Evaluating and Repairing Write Performance on Flash Devices", DaMoN 2009, section 3.) A volume is
//! divided into segments of one or more erase blocks. A page is never overwritten in place: its new version is appended to
//! the open segment of a log. Packing copies the live pages out of a segment and frees it. A [`Policy`] chooses the log of
//! each page and the segment to pack, so that pages of similar update frequency share segments.
//!
//! # Parts
//! - [`SegmentTable`] and [`Placer`]: the books of segments and logs.
//! - [`Policy`]: the seam. [`Fifo`] and [`Greedy`] are the simplest policies.
//! - [`SimulatedVolume`]: the books without data, to measure policies.
//! - [`Volume`]: the durable volume on a device, itself a device; [`check()`] and [`dump()`] look at one that is not open.
//! - [`crash`]: the harness that cuts its power.

mod check;
mod counters;
pub mod crash;
mod device_io;
mod dump;
mod error;
mod format;
mod header_cache;
mod layout;
mod map;
mod open_record;
mod placer;
mod policy;
mod recovery;
mod ring;
mod seeded_bug;
mod segment_table;
mod simulation;
mod single_log;
mod superblock_io;
mod volume;

pub use check::{CheckReport, DamagedPage, VolumeSummary, check, summarize};
pub use counters::VolumeCounters;
pub use dump::{DumpReport, dump};
pub use error::RepairError;
pub use format::superblock::Superblock;
pub use format::{VERSION, VolumeUuid};
pub use layout::{LayoutOptions, VolumeLayout};
pub use placer::{PlacedPages, Placer, Watermarks};
pub use policy::{PageCopy, PageWrite, Policy};
pub use seeded_bug::SeededBug;
pub use segment_table::{LogId, LogSize, Segment, SegmentId, SegmentState, SegmentTable, Slot};
pub use simulation::SimulatedVolume;
pub use single_log::{Fifo, Greedy};
pub use volume::{MountOptions, Volume};
