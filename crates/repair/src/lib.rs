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
//! - [`Policy`]: the seam. [`policy_named`] makes each of them; [`MultiLog`] is the default.
//! - [`SimulatedVolume`]: the books without data, to measure policies.
//! - [`Volume`]: the durable volume on a device, itself a device; [`SharedVolume`] and [`ConcurrentFiles`]: for several threads; [`check()`] and
//!   [`dump()`] look at one that is not open.
//! - [`Files`]: files in directories, on a volume.
//! - [`crash`]: the harness that cuts its power; [`exercise()`]: random operations against a model.

mod append_and_pack;
mod check;
mod concurrent_files;
mod cost_benefit;
mod counters;
pub mod crash;
mod device_io;
mod dump;
mod error;
mod exerciser;
mod files;
mod format;
mod header_cache;
mod known_checksums;
mod layout;
mod live_page_counts;
mod location;
mod map;
mod mdc;
mod model;
mod multi_log;
mod open_record;
mod placer;
mod policies;
mod policy;
mod policy_report;
mod policy_run;
mod recovery;
mod ring;
mod salvaged;
mod seeded_bug;
mod segment_table;
mod sepbit;
mod shared;

mod shared_volume;
mod simulated_records;
mod simulation;
mod single_log;
mod status;
mod superblock_io;
mod update_classes;
mod update_interval;
mod victims;
mod volume;
mod write_workload;

pub use append_and_pack::AppendAndPackPolicy;
pub use check::{CheckReport, DamagedPage, VolumeSummary, check, summarize};
pub use concurrent_files::ConcurrentFiles;
pub use cost_benefit::CostBenefit;
pub use counters::VolumeCounters;
pub use dump::{DumpReport, PageRange, dump};
pub use error::{FileRefusal, RepairError};
pub use exerciser::{ExerciseFailure, ExerciseReport, exercise};
pub use files::{
    FileAttributes, FileId, FileKind, FileStatus, Files, FilesCheck, FilesUsage, LINK_PERMISSIONS,
    SalvagedEntry, SalvagedFiles, SalvagedRanges, SetExtended,
};
pub use format::superblock::Superblock;
pub use format::{FILES_VERSION, VERSION, VolumeUuid};
pub use layout::{LayoutOptions, VolumeLayout};
pub use mdc::Mdc;
pub use model::{PredictedCost, append_and_pack, surviving_share};
pub use multi_log::MultiLog;
pub use placer::{PlacedPages, PlacementMark, Placer, Watermarks};
pub use policies::{DEFAULT_POLICY, MakePolicy, POLICIES, default_policy, policy_named};
pub use policy::{PageCopy, PageWrite, Policy};
pub use policy_report::{LogReport, MoveReport, PolicyReport};
pub use policy_run::{AfterMove, PolicyRun, PolicyRunSetup, SimulatedGeometry};
pub use salvaged::DumpMap;
pub use seeded_bug::SeededBug;
pub use segment_table::{LogId, LogSize, Segment, SegmentId, SegmentState, SegmentTable, Slot};
pub use sepbit::SepBit;
pub use shared_volume::SharedVolume;
pub use simulated_records::HostLoad;
pub use simulation::SimulatedVolume;
pub use single_log::SingleLog;
pub use status::{LogFlow, LogStatus, PlacementStatus};
pub use superblock_io::{erase, superblock};
pub use update_classes::UpdateClass;
pub use volume::{MountOptions, Volume};
pub use write_workload::{ParseWorkloadError, WorkloadKind, WriteWorkload};
