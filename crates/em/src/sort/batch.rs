//! Merges from many sources to one writer, in batches that fit the writer's free blocks.
//!
//! # Invariants
//! - Everything in a batch goes before everything that follows it.

use crate::error::EmError;
use crate::machine::Machine;
use crate::record_format::RecordFormat;
use crate::sequence::SequenceWriter;
use crate::sort::parallel::merge_parallel;
use crate::sort::slices::cut;

/// The share of the capacity that the first cut aims at: cuts follow one source, and the others vary about it.
const AIM: f64 = 0.95;

/// Merges a batch of `sources` to the writer, as much as fits. Returns how many records of each source it took.
pub(super) fn merge_batch(
    machine: &mut Machine<'_>,
    format: &RecordFormat,
    sources: &[&[u8]],
    writer: &mut SequenceWriter,
    threads: usize,
) -> Result<Vec<usize>, EmError> {
    let capacity = (writer.batch() / format.size()).max(1);
    let counts = batch_of(format, sources, capacity);
    let parts: Vec<&[u8]> =
        sources.iter().zip(&counts).map(|(source, &count)| &source[..count * format.size()]).collect();
    let parts: Vec<&[u8]> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let length = parts.iter().map(|part| part.len()).sum();
    let spaces = writer.spaces(machine, length)?;
    merge_parallel(format, &parts, spaces, threads);
    writer.advance(machine, length);
    Ok(counts)
}

/// How many records of each source make a batch of at most `capacity` records.
fn batch_of(format: &RecordFormat, sources: &[&[u8]], capacity: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = sources.iter().map(|source| format.count(source)).collect();
    loop {
        let total: usize = counts.iter().sum();
        if total <= capacity {
            return counts;
        }
        let parts: Vec<&[u8]> =
            sources.iter().zip(&counts).map(|(source, &count)| &source[..count * format.size()]).collect();
        match cut(format, &parts, capacity as f64 / total as f64 * AIM) {
            Some(cuts) => counts = cuts,
            None => return first_record(format, &parts),
        }
    }
}

/// One record, the first of all: for sources of a record each and a writer that takes fewer.
fn first_record(format: &RecordFormat, sources: &[&[u8]]) -> Vec<usize> {
    let heads = (0..sources.len()).filter(|&index| !sources[index].is_empty());
    let first = heads.min_by(|&a, &b| format.compare(format.at(sources[a], 0), format.at(sources[b], 0)));
    (0..sources.len()).map(|index| usize::from(Some(index) == first)).collect()
}
