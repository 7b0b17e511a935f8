//! The record of every IO and the manifest of a run, as files.
//!
//! # Model
//! A measuring thread hands each [`Sample`] to its [`Lane`], which packs it into a few bytes. A
//! writer thread collects full chunks, unpacks them and writes them as Parquet, a segment at a time,
//! while the run goes on. A [`RunFolder`] holds the segments, the manifest and a line for each
//! finished run.
//!
//! # Invariants
//! - Samples are written once and never edited; a closed segment is a whole Parquet file.
//! - A killed process loses at most what was measured in its last second (four seconds on a device
//!   that does less than a thousand IOs in one), and nothing that was written before.
//! - A simulated run gives the same files each time: no wall clock decides where one ends.
//! - Recording a sample allocates nothing and makes no system call; when the writer is behind, the
//!   measuring thread waits, and the wait is counted: no sample is dropped.
//! - Bytes from outside are refused with a [`SamplesError`], never with a panic.

mod checksum;
mod columns;
mod error;
mod folder;
mod lane;
mod packing;
mod recording;
mod recording_manifest;
mod regular_file;
mod sample;
mod segment_reader;
mod segment_writer;
mod writer;

pub use columns::{Column, Columns};
pub use error::SamplesError;
pub use folder::{FolderLock, MANIFEST_VERSION, Manifest, RunFolder, SegmentIndex, SetAside, write_json};
pub use lane::Lane;
pub use recording::Recording;
pub use recording_manifest::{RecordedRun, RecordingSettings};
pub use sample::Sample;
pub use segment_reader::{for_each_batch, for_each_batch_of};
