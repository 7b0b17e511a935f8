//! Counts the live pages of each segment while the map is recovered.
//!
//! # Method
//! Each page is counted when its place is loaded, while its bytes are in the CPU's cache, and once more when its place changes. A second
//! pass over the map would wait for the memory. Places that do not exist are counted apart: a later change may replace them.

use crate::location::{NOWHERE, Place, position_of};

/// Divides by the same number many times: by shifting, or by multiplying with its inverse in 64 bits, which is exact for numbers of 32
/// bits (Lemire, Kaser and Kurz, "Faster remainder by direct computation", Software: Practice and Experience 49(6), 2019).
struct Divisor {
    inverse: u64,
    /// Of a power of two.
    shift: Option<u32>,
}

impl Divisor {
    /// For a number above 1.
    fn new(by: u32) -> Divisor {
        let shift = by.is_power_of_two().then(|| by.trailing_zeros());
        Divisor { inverse: u64::MAX / u64::from(by) + 1, shift }
    }

    #[inline]
    fn quotient(&self, of: u32) -> u32 {
        match self.shift {
            Some(shift) => of >> shift,
            None => ((u128::from(self.inverse) * u128::from(of)) >> 64) as u32,
        }
    }
}

/// The numbers of live pages.
pub(crate) struct LivePageCounts {
    segment_of: Divisor,
    segment_count: u32,
    pages_per_segment: u32,
    /// Of each segment; then of pages that lie nowhere, and of those whose place does not exist.
    counts: Vec<u32>,
}

impl LivePageCounts {
    /// Of this number of pages that lie nowhere.
    pub fn new(pages: u64, segment_count: u32, pages_per_segment: u32) -> LivePageCounts {
        let mut counts = vec![0; segment_count as usize + 2];
        counts[segment_count as usize] = pages as u32;
        LivePageCounts {
            segment_of: Divisor::new(pages_per_segment),
            segment_count,
            pages_per_segment,
            counts,
        }
    }

    /// Which of the counts a place belongs to.
    #[inline]
    fn index(&self, place: Place) -> usize {
        let position = position_of(place);
        let segment = self.segment_of.quotient(position);
        let within = position.wrapping_sub(segment.wrapping_mul(self.pages_per_segment));
        let exists = (segment < self.segment_count) & (u32::from(place[4]).wrapping_sub(1) < within);
        let other = self.segment_count + u32::from(position != NOWHERE);
        (if exists { segment } else { other }) as usize
    }

    /// A page lies there.
    #[inline]
    pub fn add(&mut self, place: Place) {
        let index = self.index(place);
        self.counts[index] += 1;
    }

    /// A page lies at each of these places.
    pub fn add_all(&mut self, places: &[Place]) {
        let mut counts = std::mem::take(&mut self.counts);
        places.iter().for_each(|&place| counts[self.index(place)] += 1);
        self.counts = counts;
    }

    /// A page does not lie there any more.
    #[inline]
    pub fn remove(&mut self, place: Place) {
        let index = self.index(place);
        self.counts[index] -= 1;
    }

    /// A page whose place does not exist.
    pub fn wrong(&self, places: &[Place]) -> Option<u64> {
        let is_wrong = |&place: &Place| self.index(place) > self.segment_count as usize;
        let any = self.counts[self.segment_count as usize + 1] > 0;
        any.then(|| places.iter().position(is_wrong)).flatten().map(|page| page as u64)
    }

    /// The number of live pages of each segment.
    pub fn of_segments(&self) -> &[u32] {
        &self.counts[..self.segment_count as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dividing_by_an_inverse_is_exact() {
        for by in [2, 3, 7, 1000, 1024, 16384, u32::MAX] {
            let divisor = Divisor::new(by);
            for of in [0, 1, by - 1, by, 1_000_003, 2 * (by / 2), u32::MAX - 1, u32::MAX] {
                assert_eq!(divisor.quotient(of), of / by, "{of} / {by}");
            }
        }
    }
}
