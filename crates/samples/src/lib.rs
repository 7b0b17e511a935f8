//! Stores every IO and the manifest of a run in files.
//!
//! # Model
//! 1. A measuring thread hands each [`Sample`](flashlab_base::Sample) to its [`Lane`], which packs it into a few bytes.
//! 2. During the run, a writer thread collects full chunks, unpacks them and writes them as Parquet, one
//!    segment after the other.
//! 3. A [`RunFolder`] contains the segments, the manifest, a line for each finished run, and a line for each file.
//!
//! # Invariants
//! - Samples are written once and never edited. A closed segment is a complete Parquet file.
//! - A killed process loses at most its last second of samples, and nothing that was written before. On a
//!   device with less than a thousand IOs per second it loses at most four seconds.
//! - A simulated run gives the same files each time: no wall clock decides where a file ends.
//! - Recording a sample allocates nothing and makes no system call. If the writer is slow, the measuring
//!   thread waits, and the wait is counted. No sample is dropped.
//! - A segment, and a text that flashlab reads later, has a checksum. What does not match it is refused.
//! - Wrong bytes from outside cause a [`SamplesError`], never a panic.

mod checksum;
mod columns;
mod error;
mod file_list;
mod folder;
mod foreign;
mod imported;
mod json_lines;
mod lane;
mod manifest;
mod packing;
mod probe_step;
mod recording;
mod recording_manifest;
mod regular_file;
pub mod seal;
mod segment_reader;
mod segment_writer;
mod segments;
mod writer;

pub use columns::{Column, Columns};
pub use error::SamplesError;
pub use folder::{FolderState, RunFolder, SetAside, write_durably, write_json, write_sealed};
pub use foreign::{ForeignRows, ForeignSamples};
pub use imported::ImportedSamples;
pub use lane::Lane;
pub use manifest::{Finished, FolderKind, Manifest};
pub use probe_step::{FailedIo, PROBE_STEPS_VERSION, ProbeRun, ProbeRunEnd, ProbeStep};
pub use recording::Recording;
pub use recording_manifest::{RecordedRun, RecordingSettings};
pub use segment_reader::{SegmentReader, for_each_batch, for_each_batch_of, read_guarded};
pub use segments::SegmentIndex;
