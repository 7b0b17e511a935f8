//! What a SLC cache that is full does to random writes: when it is full, and for how many of them it then moves a block.
//!
//! # Model
//! Each write takes a page of the region at least. What a minute's rest makes free of it takes so many writes at speed; from
//! then on a block of all dies is moved whenever the writes have filled one, which one write in so many waits for. The runs of
//! a probe may be too short to show either. Whether that is a start-up phase at all is then what `phases` says of a made-up run that is
//! long enough, in which each block costs what it cost while the device was filled.
//!
//! # Invariants
//! - nothing is said of a region of which size, refill and block are not known;
//! - nor of latency spikes so rare that they change no level and explain nothing of how costs scatter.

use flashlab_analysis::inference::Parameter;
use flashlab_analysis::signals::figures::median;

use crate::patterns::random_writes::{IO_SIZE, phases_of};
use crate::session::Session;

/// A run shows an oscillation that comes so often in it.
const PERIODS: u64 = 8;
/// A run that shows when the region is full has so many writes behind that, at least, and so many at the most.
const RUNNING_LEAST: usize = 16_384;
const RUN_MOST: usize = 200_000;
/// A region of fewer blocks of all dies is reclaimed too rarely for the level to change.
const BLOCKS_OF_REGION: u64 = 8;
/// One write in so many that takes as long as all others explains at least this of the variance of the logarithms, or it is no
/// oscillation.
const SPIKE_SHARE: f64 = 0.025;

/// The writes for which a full SLC cache moves a block of all dies; `None` if runs of so many `writes` would have shown it, or
/// show a longer period.
pub(super) fn of_region(session: &Session<'_, '_>, writes: usize, said: u64) -> Option<u64> {
    let known = session.known();
    let region = known.number(Parameter::SlcCacheSize).filter(|&region| region > 0.0)?;
    let period = of_blocks(session)?;
    let shown = PERIODS * period + pages(session, region) as u64;
    let spike = (period as f64).ln().powi(2) / period as f64;
    (period >= 2 && spike >= SPIKE_SHARE && (writes as u64) < shown && said < period / 2).then_some(period)
}

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

/// The writes that fill what a minute makes free of a SLC cache; where that is all of it, but for the block that is open.
/// After it one write in a block's pages is slow, and others take as long as in the `runs`: `None` where a run that is long
/// enough shows no start-up phase, as the slow ones are too rare to be a change of level.
pub(super) fn until_region_is_full(session: &Session<'_, '_>, runs: &[Vec<f64>]) -> Option<u64> {
    let known = session.known();
    let [region, refill, block] =
        [Parameter::SlcCacheSize, Parameter::SlcCacheRefill, Parameter::EraseBlockSize]
            .map(|parameter| known.bytes(parameter));
    let (region, refill, block) = (region?.0, refill?.0, block?.0.max(1));
    if refill / block < BLOCKS_OF_REGION {
        return None;
    }
    let free = if refill == region { refill.saturating_sub(block) } else { refill };
    let (free, period) = (pages(session, free as f64) as usize, pages(session, block as f64) as usize);
    let all = (4 * free + RUNNING_LEAST).min(RUN_MOST);
    let usual = median(&runs.concat());
    let spike = usual * session.fill().moving_logs?.exp();
    let is_spike = |write: usize| write >= free && (write - free).is_multiple_of(period.max(1));
    let run: Vec<f64> = (0..all).map(|write| if is_spike(write) { spike } else { usual }).collect();
    (phases_of(&run).startup_ios > 0).then_some(free as u64)
}
