//! Keeps a pyramid in a file, so that a recording is summed up once.
//!
//! # Format
//! Eight bytes of magic and version, the CRC-32 of the rest, then the content as zstd of postcard. It names each file of samples with
//! its length and the time of its last change.
//!
//! # Invariants
//! - A file that is damaged, of another version, or of other samples is made again and never believed.
//! - A file that cannot be written costs time at the next look, and nothing else.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::ViewError;
use crate::overview::Overview;
use crate::pyramid::{Pyramid, SparseTable};
use crate::recording::{ReadProgress, RowGroup, ViewedRecording};
use crate::stamp::Stamp;
use crate::summing;

const MAGIC: &[u8; 8] = b"flpyram2";

/// What the file keeps.
#[derive(Serialize, Deserialize)]
struct Stored {
    stamps: Vec<Stamp>,
    origin_ns: i64,
    row_groups: Vec<RowGroup>,
    overview: Overview,
    pyramid: Pyramid,
}

/// Loads the pyramid of a recording, or builds and keeps it.
///
/// # Errors
/// If a segment is damaged or cannot be read.
pub fn load_or_build(recording: &mut ViewedRecording, progress: ReadProgress) -> Result<(), ViewError> {
    let stamps = recording.stamps.clone();
    let files = recording.source.pyramid_files.clone();
    let mut stored = files.iter().filter_map(|file| load(file));
    if let Some(stored) = stored.find(|stored| stored.stamps == stamps && is_consistent(stored)) {
        recording.origin_ns = stored.origin_ns;
        recording.row_groups = stored.row_groups;
        recording.overview = stored.overview;
        recording.pyramid = Some(stored.pyramid);
        return Ok(());
    }
    recording.pyramid = Some(summing::build(recording, summing::table_bytes(recording), progress)?);
    keep(recording);
    Ok(())
}

/// Keeps the pyramid of a recording in the first file that can be written, if there is one.
pub fn keep(recording: &mut ViewedRecording) {
    let Some(pyramid) = recording.pyramid.take() else { return };
    let files = recording.source.pyramid_files.clone();
    let stored = Stored {
        stamps: recording.stamps.clone(),
        origin_ns: recording.origin_ns,
        row_groups: std::mem::take(&mut recording.row_groups),
        overview: std::mem::take(&mut recording.overview),
        pyramid,
    };
    let mut failures = Vec::new();
    let is_kept = files.iter().any(|file| match save(file, &stored) {
        Ok(()) => true,
        Err(error) => {
            failures.push(format!("{}: {error}", file.display()));
            false
        }
    });
    if !is_kept && !failures.is_empty() {
        let note = "the summary of the IOs cannot be kept, and is made anew next time";
        recording.source.notes.push(format!("{note}: {}", failures.join("; ")));
    }
    recording.row_groups = stored.row_groups;
    recording.overview = stored.overview;
    recording.pyramid = Some(stored.pyramid);
}

fn load(file: &Path) -> Option<Stored> {
    let bytes = fs::read(file).ok()?;
    let rest = bytes.strip_prefix(MAGIC)?;
    let (crc32, content) = rest.split_first_chunk::<4>()?;
    if crc32fast::hash(content) != u32::from_le_bytes(*crc32) {
        return None;
    }
    postcard::from_bytes(&zstd::decode_all(content).ok()?).ok()
}

/// Whether the parts fit each other, so that no index lies outside. The checksum protects from damage, and this from another program.
fn is_consistent(stored: &Stored) -> bool {
    let tables = [&stored.pyramid.leaves, &stored.pyramid.blocks];
    let is_whole = |table: &&SparseTable| {
        table.shift < 64
            && table.starts.len() == table.columns.len() + 1
            && table.starts.is_sorted()
            && table.columns.is_sorted()
            && table.starts.last().is_some_and(|&end| end as usize == table.keys.len())
            && table.counts.len() == table.keys.len()
    };
    let segments = stored.stamps.len();
    tables.iter().all(is_whole)
        && stored.pyramid.sum_columns.len() == stored.pyramid.sums.len()
        && stored.overview.ios_by_kind.len() == crate::ios::KIND_COUNT
        && stored.row_groups.iter().all(|group| group.segment < segments)
}

fn save(file: &Path, stored: &Stored) -> std::io::Result<()> {
    let content = postcard::to_allocvec(stored).map_err(std::io::Error::other)?;
    let content = zstd::encode_all(&content[..], 1)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(crc32fast::hash(&content).to_le_bytes());
    bytes.extend(content);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // Two programs that look at one recording write under different names, and the last one wins.
    let part = file.with_extension(format!("part-{}", std::process::id()));
    let written = fs::write(&part, &bytes).and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
