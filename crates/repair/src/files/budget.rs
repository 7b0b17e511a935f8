//! How much of a log the changes take that a catalogue needs: so a new log always has its catalogue, and a page for the next changes.
//!
//! # Model
//! A change lies in one page, and a log packs changes in their order: what does not fit any more begins the next page. So a page may
//! stay empty for almost the length of the change behind it. A change is short up to an eighth of a page's room `C`, and charged its
//! length. A longer one is charged twice: once for itself, once for the room that it left in the page before.
//!
//! # Invariants
//! - A catalogue is charged at most [`catalogue_max`]. Then, in any order, it takes fewer pages than its log of `N` has. Proof: take
//!   a page that is followed by another one. If a short change follows, it holds more than `7/8 C`. Otherwise it and the length of the
//!   change that follows are more than `C`, and that length was charged once more. So all pages but the last are charged more than
//!   `7/8 C` each. `N` pages or more would be charged more than `7/8 C (N - 1)`, which is the bound.
//! - Charges add up. So what takes nothing away from the room in the catalogue (a removal, other times) is possible at any time.

/// Bytes in front of the changes of a page.
pub(super) const PAGE_HEADER: u64 = 32;
/// The share of a page's room that a short change takes at most. A page has at least 4 KiB, so names and extents are short.
const SHORT_SHARE: u64 = 8;

/// What a page of a log holds.
pub(super) fn room(page: u64) -> u64 {
    page - PAGE_HEADER
}

/// What a change of this length is charged.
pub(super) fn charge(length: u64, page: u64) -> u64 {
    if length <= room(page) / SHORT_SHARE { length } else { 2 * length }
}

/// The most that a catalogue is charged: three quarters of its log, so that there is room for other changes, and less where a log
/// has few pages.
pub(super) fn catalogue_max(log_pages: u64, page: u64) -> u64 {
    let room = room(page);
    (log_pages * room * 3 / 4).min((log_pages - 1) * (room - room / SHORT_SHARE))
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// The pages that changes take, packed in their order as the log does it.
    fn packed(lengths: &[u64], page: u64) -> u64 {
        let (mut pages, mut taken) = (1, 0);
        for length in lengths {
            if taken + length > room(page) {
                (pages, taken) = (pages + 1, 0);
            }
            taken += length;
        }
        pages
    }

    #[test]
    fn what_is_charged_suffices_in_any_order() {
        let mut random = Prng::new(Seed(1));
        let mut tightest = 0;
        for case in 0..3000 {
            let page = 4096 << random.below(5);
            let log_pages = 2 + random.below(40);
            let room = room(page);
            // Lengths that leave the most: just above a share of the room, or all of it and little behind it.
            let share = 1 + random.below(9);
            let long = room.min(room / share + 1 + random.below(3));
            let odds = random.below(4);
            let (mut lengths, mut charged) = (Vec::new(), 0);
            loop {
                let length = match (case % 3, random.below(4) < odds) {
                    (0, _) => 1 + random.below(room),
                    (1, true) => 1 + random.below(64),
                    _ => long,
                };
                charged += charge(length, page);
                if charged > catalogue_max(log_pages, page) {
                    break;
                }
                lengths.push(length);
            }
            for _ in 0..4 {
                let pages = packed(&lengths, page);
                assert!(pages < log_pages, "case {case}: {pages} of {log_pages} pages of {page}");
                tightest = tightest.max(100 * pages / log_pages);
                for at in (1..lengths.len()).rev() {
                    lengths.swap(at, random.below(at as u64 + 1) as usize);
                }
            }
        }
        assert!(tightest >= 75, "{tightest} %");
    }
}
