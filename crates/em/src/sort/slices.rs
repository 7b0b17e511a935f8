//! Cuts sorted slices of records, and the space that takes merged ones.

use crate::record_format::RecordFormat;

/// Where merged records go: spans that are filled one after the other. Each holds whole records.
pub type SliceSpans<'o> = Vec<&'o mut [u8]>;

/// Where to cut each source, so that everything before the cuts goes before everything after them, and about this share of
/// the records is before them. `None` where the cut makes no two parts.
pub fn cut(format: &RecordFormat, sources: &[&[u8]], share: f64) -> Option<Vec<usize>> {
    let largest = (0..sources.len()).max_by_key(|&index| sources[index].len())?;
    let last = format.count(sources[largest]).checked_sub(1)?;
    let middle = (last as f64 * share) as usize;
    let pivot = format.key(format.at(sources[largest], middle));
    let cuts: Vec<usize> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| match index.cmp(&largest) {
            std::cmp::Ordering::Less => format.rank(source, pivot, true),
            std::cmp::Ordering::Equal => middle + 1,
            std::cmp::Ordering::Greater => format.rank(source, pivot, false),
        })
        .collect();
    let is_everything = sources.iter().zip(&cuts).all(|(source, &cut)| cut == format.count(source));
    (!is_everything).then_some(cuts)
}

/// The first `length` bytes of the spans, and the others.
pub fn split(spans: SliceSpans<'_>, mut length: usize) -> (SliceSpans<'_>, SliceSpans<'_>) {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for span in spans {
        let (now, later) = span.split_at_mut(length.min(span.len()));
        length -= now.len();
        if !now.is_empty() {
            low.push(now);
        }
        if !later.is_empty() {
            high.push(later);
        }
    }
    (low, high)
}

/// Copies records to spans, which have exactly their length.
pub fn copy(mut records: &[u8], to: SliceSpans<'_>) {
    for span in to {
        let (now, later) = records.split_at(span.len());
        span.copy_from_slice(now);
        records = later;
    }
}
