//! What is believed of all flash devices before anything is measured.
//!
//! Each belief has its unit, its source, and what breaks if it is off. What belongs to one probe only is in the
//! probe. Sources: uFLIP (Bouganim et al., CIDR 2009); Grupp et al., "Characterizing Flash Memory", MICRO 2009, whose
//! tables have 22 to 115 us for a read, 200 to 2000 us for a program and 1.5 to 5 ms for an erase; ONFI 4.2 for
//! pages, planes and blocks; the flash of flashlab's zoo.

use flashlab_base::{Bytes, Nanos};

/// Usual flash senses a page in more time. Only a hint, because low-latency flash is faster. Source: ONFI:
/// the fastest t_R is above 15 us. Too high: some flash is not believed where its layout does not fit; too
/// low: memory counts as flash.
pub const SENSE_USUAL: Nanos = Nanos::from_micros(15);

/// No flash answers a read in less time, with its transfer. Source: ONFI: the fastest t_R is above 15 us. Too
/// high: fast flash counts as a cache; too low: a cache counts as flash.
pub const FLASH_READ_LEAST: Nanos = Nanos::from_micros(10);
/// A program takes at least this much longer than a read. Source: Grupp et al., table 2: SLC is programmed in
/// 100 us or more. Too high: writes of fast flash count as buffered; too low: buffered writes count as
/// programs.
pub const PROGRAM_LEAST: Nanos = Nanos::from_micros(50);
/// No erase takes less, as far as another IO waits for it. Unit: ns. Source: Grupp et al.: 1.5 ms, some of
/// which may be over. Too high: fast erases are not seen; too low: slow programs count as erases.
pub const ERASE_LEAST: f64 = 0.9e6;
/// No merge takes less. Unit: ns. Source: derivation: it copies [`ROWS_LEAST`] multi-plane pages of 100 us or
/// more. Too high: short merges are not seen; too low: a write that waits for another one counts as a merge.
pub const MERGE_LEAST: f64 = 1.5e6;
/// Relocating a block takes at least this long. Unit: ns. Source: derivation: [`ROWS_LEAST`] programs and an
/// erase. Too high: SLC caches of small blocks are not seen; too low: slow pages count as an SLC cache.
pub const RELOCATION_LEAST: f64 = 3e6;
/// No flash takes so long for one page. Unit: ns. Source: choice: QLC takes a few milliseconds. Too high: a
/// merge for each write counts as a page map with slow pages; too low: QLC counts as merges.
pub const PROGRAM_MOST: f64 = 15e6;

/// Up to this many times the response time of a sequential write, a write needs no merge. Unit: ratio.
/// Source: tuned. Too high: merges of a few pages that are copied in parallel are overlooked; too low: slow
/// pages stay undetermined.
pub const NO_MERGE_RATIO: f64 = 3.0;
/// From this ratio on, a write needs a merge; in between it is not known. Unit: ratio. Source: tuned. Too
/// high: short merges stay undetermined; too low: slow pages and seeks count as merges.
pub const MERGE_RATIO: f64 = 5.0;
/// From this ratio on, it is a merge of a whole block. Unit: ratio. Source: derivation: [`ROWS_LEAST`] pages,
/// each of which is read and written. Too high: block maps count as log blocks; too low: garbage collection
/// counts as merges.
pub const BLOCK_MERGE_RATIO: f64 = 16.0;

/// A page on one die that takes this many times what filling the device took for the same amount may cost a
/// merge. The link or a channel may have limited the fill; slow pages take half of this. Unit: ratio. Source:
/// tuned. Too high: merges behind a slow link are overlooked; too low: slow pages count as merges.
pub const MERGE_OF_FILL: f64 = 3.0;

/// The fewest multi-plane pages of an erase block. Shorter periods are those of a multi-plane page, or of the
/// dies. Unit: multi-plane pages. Source: ONFI 4.2: 32 to 2304, here half of it. Too high: small blocks are
/// not found; too low: rounds of the dies count as blocks.
pub const ROWS_LEAST: u64 = 16;
/// The most multi-plane pages of an erase block. Unit: multi-plane pages. Source: ONFI 4.2: 2304, here the
/// next power of two. Too high: the search takes longer; too low: large blocks are not found.
pub const ROWS_MOST: u64 = 4096;
/// Writes of this size are whole pages of nearly all flash, where the page is not known. Source: ONFI 4.2: 2
/// to 16 KiB. Too large: fewer writes and sizes show anything; too small: parts of pages are programmed, and
/// reads cross no page.
pub const WHOLE_PAGES: Bytes = Bytes::kib(16);
/// The small requests of probes. Source: choice: the smallest request of most file systems, and a usual page.
/// Too large: requests are more than a page of old flash; too small: devices read the page before they write
/// it.
pub const SMALL_IO: Bytes = Bytes::kib(4);
/// Offsets at this distance lie in different multi-plane pages of usual flash. Source: derivation: eight
/// planes of 16 KiB. Too large: few offsets fit on small devices; too small: the page of one offset contains
/// the other one.
pub const ROW_MOST: Bytes = Bytes::kib(128);
/// The most dies of a device. Unit: dies. Source: derivation: a disk of 8 TB has 128 dies of 512 Gbit. Too
/// high: the search takes longer; too low: the layout of large devices is not tried.
pub const DIES_MOST: u64 = 128;
/// The most dies of usual devices. Unit: dies. Source: choice. Too high: merges count as waiting for a die;
/// too low: waiting for a die counts as a merge.
pub const DIES_USUAL: u64 = 16;
/// The number of dies that is assumed where it is not known. Unit: dies. Source: choice. Too high: merges
/// count as waiting for a die; too low: waiting for a die counts as a merge.
pub const DIES_UNKNOWN: f64 = 4.0;
/// The most merges that a die defers. Probes that have to exceed them write a third more pages, or twice this
/// number where earlier patterns deferred some. Unit: merges. Source: tuned, on the devices of
/// docs/infer-score.md. Too high: the budget is used up; too low: writes that defer merges count as writes
/// without.
pub const MERGES_DEFERRED: u64 = 24;
/// More merges than a die defers. Unit: merges. Source: derivation: a third more than [`MERGES_DEFERRED`].
/// Too high: the budget is used up; too low: deferred merges hide the cost.
pub const MERGES_BEYOND: u64 = MERGES_DEFERRED * 4 / 3;
/// No device has memory for writes of a larger share of its capacity. Unit: share. Source: tuned. Too high: a
/// small SLC cache counts as a write buffer; too low: a large write buffer counts as an SLC cache.
pub const MEMORY_SHARE_MOST: f64 = 0.02;
/// The most log blocks of a die. Unit: log blocks. Source: tuned. Too high: chance is a number of log blocks;
/// too low: the log blocks of large devices stay undetermined.
pub const LOGS_MOST: f64 = 256.0;

/// After this idle time, no deferred merges and no background collection are left. Source: tuned: the longest
/// in the zoo is that of emmc. Too long: the inference takes longer; too short: a probe measures the backlog
/// of the one before.
pub const BACKLOG_DONE: Nanos = Nanos::from_secs(60);
/// The same where merges may be deferred for all log blocks. Source: tuned. Too long: the inference takes
/// longer; too short: a probe measures the backlog of the one before.
pub const MERGES_DONE: Nanos = Nanos::from_secs(300);
/// After this idle time, the backlog of a few dozen writes is complete. Source: tuned. Too long: the
/// inference takes longer; too short: patterns of the same probe disturb each other.
pub const WRITES_DONE: Nanos = Nanos::from_secs(5);
/// After this idle time, the dies are idle. Source: tuned: the longest merge in the zoo takes less than a
/// second. Too long: the inference takes longer; too short: a pattern waits for the one before.
pub const DIES_IDLE: Nanos = Nanos::from_secs(2);
/// After this idle time, a write buffer of a few MiB is on the flash. Source: tuned. Too long: the inference
/// takes longer; too short: a burst begins with a buffer that is partly full.
pub const BUFFER_DRAINED: Nanos = Nanos::from_millis(500);
/// After this idle time, the last few writes are on the flash. Source: tuned. Too long: the inference takes
/// longer; too short: a write waits for the one before.
pub const PROGRAMMED: Nanos = Nanos::from_millis(200);

/// How unusual a count of flash is, as a log-likelihood ratio to a power of two: 3 x 2^n comes with TLC, and with dies on three
/// or six channels. Too low: noise makes layouts of seven dies.
pub fn oddness(count: u64) -> f64 {
    match count.checked_shr(count.trailing_zeros()).unwrap_or(0) {
        1 => 0.0,
        3 => 2.0,
        _ => 5.0,
    }
}

/// A size this close to whole blocks of a usual number of pages is such a block: of 128 pages, the first or
/// the last one may not show. Unit: share. Source: derivation: one in 64; above 2 %, 80 pages would become 81
/// of three dies. Too large: blocks of three dies are changed; too small: blocks are reported a page too
/// small.
const BLOCK_NEAR: f64 = 0.016;

/// An erase block of about this size: 2^n, 3 x 2^n or 5 x 2^n pages if it is close to that, and else the size.
pub fn whole_block(size: Bytes, page: Bytes) -> Bytes {
    if page == Bytes::ZERO || size < page * ROWS_LEAST {
        return size;
    }
    let pages = size.0 as f64 / page.0 as f64;
    let usual = [1_u64, 3, 5].into_iter().flat_map(|odd| (0..40).map(move |power| odd << power));
    let nearest = usual.min_by(|a, b| (*a as f64 - pages).abs().total_cmp(&(*b as f64 - pages).abs()));
    match nearest {
        Some(usual) if (usual as f64 / pages - 1.0).abs() <= BLOCK_NEAR => page * usual,
        _ => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_did_not_show_belongs_to_the_block() {
        let page = Bytes::kib(2);
        let whole = |pages: u64| whole_block(page * pages, page).0 / page.0;
        assert_eq!([127, 128, 190, 319, 512].map(whole), [128, 128, 192, 320, 512]);
        // Blocks of three or five dies are whole blocks as well.
        assert_eq!([144, 100, 81, 240, 8].map(whole), [144, 100, 80, 240, 8]);
        assert_eq!(whole_block(Bytes(1000), Bytes::ZERO), Bytes(1000));
    }

    #[test]
    fn powers_of_two_are_usual() {
        assert_eq!([1, 16, 6, 7, 0].map(oddness), [0.0, 0.0, 2.0, 5.0, 5.0]);
    }
}
