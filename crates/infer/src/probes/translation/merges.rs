//! What a merge costs, compared with writes that need none. A log-block layer merges a block by copying its pages.

/// Multiples of the response time of a sequential write. Up to `CHEAP`, a write needs no merge, and from `MERGE` on it needs one;
/// between the two it is not known. From `MERGING` on it is a merge of a whole block, which has 16 pages at least, each of which is read
/// and written.
pub(crate) const CHEAP: f64 = 3.0;
pub(crate) const MERGE: f64 = 5.0;
pub(crate) const MERGING: f64 = 16.0;
