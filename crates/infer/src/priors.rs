//! What is believed of all flash devices before anything is measured.
//!
//! Each belief has its unit, its source, and what breaks if it is off. What belongs to one probe only is in the probe.
//! Sources: uFLIP (Bouganim et al., CIDR 2009); Grupp et al., "Characterizing Flash Memory", MICRO 2009, whose tables
//! have 22 to 115 us for a read, 200 to 2000 us for a program and 1.5 to 5 ms for an erase; ONFI 4.2 for pages, planes
//! and blocks; the flash of flashlab's zoo.

use flashlab_base::{Bytes, Nanos};

/// Usual flash senses a page in more time: ONFI's fastest t_R is above 15 us. Only a hint, because low-latency flash is
/// faster. Too high: some flash is not believed where its layout does not fit; too low: memory is taken for flash.
pub const SENSE_USUAL: Nanos = Nanos::from_micros(15);

/// No flash answers a read in less time, with its transfer. ONFI's fastest t_R is above 15 us. Too high: fast flash is
/// taken for a cache.
pub const FLASH_READ_LEAST: Nanos = Nanos::from_micros(10);
/// A program takes at least this much longer than a read: SLC is programmed in 100 us or more (Grupp, Table 2). Too high:
/// writes of fast flash are taken for buffered.
pub const PROGRAM_LEAST: Nanos = Nanos::from_micros(50);
/// No erase takes less, as far as another IO waits for it, in nanoseconds (Grupp: 1.5 ms, some of which may be over). Too
/// low: slow programs are taken for erases.
pub const ERASE_LEAST: f64 = 0.9e6;
/// No merge takes less, in nanoseconds: it copies [`ROWS_LEAST`] rows, each of which takes 100 us or more. Too low: a
/// write that waits for another one is taken for a merge.
pub const MERGE_LEAST: f64 = 1.5e6;
/// Relocating a block takes at least this long, in nanoseconds: [`ROWS_LEAST`] programs and an erase. Too low: an SLC
/// cache is seen where there are only slow pages.
pub const RELOCATION_LEAST: f64 = 3e6;
/// No flash takes so long for one page, in nanoseconds: QLC takes a few milliseconds. Too high: a merge for each write is
/// taken for a page map with slow cells.
pub const PROGRAM_MOST: f64 = 15e6;

/// Up to this many times the response time of a sequential write, a write needs no merge. Too high: merges of a few pages that are
/// copied in parallel are overlooked.
pub const NO_MERGE_RATIO: f64 = 3.0;
/// From here on it needs one; in between it is not known. Too low: slow cells and seeks are taken for merges.
pub const MERGE_RATIO: f64 = 5.0;
/// From here on it is a merge of a whole block, which has [`ROWS_LEAST`] pages at least, each of which is read and written.
pub const BLOCK_MERGE_RATIO: f64 = 16.0;

/// A page that takes this many times what filling the device took for as much, on one die, may cost a merge: a merge copies
/// [`ROWS_LEAST`] pages, but the link or a channel may have been what the fill waited for. Slow rows take no more than half of this. Too low: slow
/// rows are taken for merges; too high: merges behind a slow link are overlooked.
pub const MERGE_OF_FILL: f64 = 3.0;

/// The fewest and the most multi-plane pages of an erase block (ONFI: 32 to 2304). Fewer rows come back as a row or a
/// round of the dies does. Too high: small blocks are not found.
pub const ROWS_LEAST: u64 = 16;
/// The most multi-plane pages of an erase block (ONFI). Too low: large blocks are not found.
pub const ROWS_MOST: u64 = 4096;
/// Writes of this size are whole pages of nearly all flash (ONFI: 2 to 16 KiB), where the page is not known. Too small: parts of pages
/// are programmed, and reads cross no page; too large: fewer writes and sizes show anything.
pub const WHOLE_PAGES: Bytes = Bytes::kib(16);
/// Offsets that are this far apart lie in different multi-plane pages of usual flash: eight planes of 16 KiB. Too small: the page of one
/// offset holds the other one; too large: few offsets fit on small devices.
pub const ROW_MOST: Bytes = Bytes::kib(128);
/// The most dies of a device. A disk of 8 TB has 128 dies of 512 Gbit. Too low: its layout is not tried; too high: layouts
/// cost time.
pub const DIES_MOST: u64 = 128;
/// The most dies of usual devices, and those that are assumed where they are not known. Too low: on devices with more,
/// waiting for a die is taken for a merge.
pub const DIES_USUAL: u64 = 16;
/// The number of dies that is assumed where it is not known.
pub const DIES_UNKNOWN: f64 = 4.0;
/// The most merges that a die defers, as the devices of docs/infer-score.md do. Probes that have to get past them write a third more pages,
/// or twice this number where earlier patterns deferred some. Too low: writes that defer merges are taken for writes without.
pub const MERGES_DEFERRED: u64 = 24;
/// This number of merges is more than a die defers.
pub const MERGES_BEYOND: u64 = MERGES_DEFERRED * 4 / 3;
/// No device has memory for writes of a larger part of its capacity. Too low: a large write buffer is taken for an SLC cache; too high: a small
/// SLC cache for a buffer.
pub const MEMORY_SHARE_MOST: f64 = 0.02;
/// The most log blocks of a die. Too low: the logs of large devices stay undetermined.
pub const LOGS_MOST: f64 = 256.0;

/// After this idle time, no deferred merges and no background collection are left. The longest in the zoo is that of emmc.
/// Too short: a probe measures the backlog of the one before.
pub const BACKLOG_DONE: Nanos = Nanos::from_secs(60);
/// The same where merges may be deferred for all logs and blocks.
pub const MERGES_DONE: Nanos = Nanos::from_secs(300);
/// After this idle time, what a few dozen writes deferred is done. Too short: patterns of the same probe disturb each
/// other.
pub const WRITES_DONE: Nanos = Nanos::from_secs(5);
/// After this idle time, the dies are idle. The longest merge in the zoo takes less than a second.
pub const DIES_IDLE: Nanos = Nanos::from_secs(2);
/// After this idle time, a write buffer of a few MiB is on the flash. Too short: a burst begins with a buffer that is
/// partly full.
pub const BUFFER_DRAINED: Nanos = Nanos::from_millis(500);
/// After this idle time, the last few writes are on the flash.
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

/// How close a size has to be to whole blocks of a usual number of pages to be taken for them: 127 pages are 128, of
/// which the first or the last one did not show. Above 2 %, 80 pages would become 81 of three dies.
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
