//! How many random writes fill an SLC cache, and a block of all dies: each takes a page at least.

use flashlab_analysis::inference::Parameter;

use crate::patterns::random_writes::IO_SIZE;
use crate::session::Session;

/// The writes that fill a block of all dies.
pub(super) fn of_blocks(session: &Session<'_, '_>) -> Option<u64> {
    Some(pages(session, session.known().number(Parameter::EraseBlockSize)?) as u64)
}

/// The pages of so many bytes, of which a write takes one at least.
fn pages(session: &Session<'_, '_>, bytes: f64) -> f64 {
    let size = IO_SIZE.max(session.block());
    let known = session.known();
    let page = known.bytes(Parameter::ReadPageSize).or(known.bytes(Parameter::WritePageSize));
    bytes / page.map_or(size, |page| page.max(size)).0 as f64
}

/// The writes that fill the SLC cache.
pub(super) fn fast_pages(session: &Session<'_, '_>) -> f64 {
    pages(session, session.known().number(Parameter::SlcCacheSize).unwrap_or(0.0))
}
