//! Counts the live pages of each segment when the map is recovered.
//!
//! # Method
//! One pass over the map, when all of its changes are made: a change is then one store, whose miss of the CPU's cache nobody waits for.
//! The pass reads memory in order, which the CPU reads ahead. Places that do not exist are counted apart.

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

/// Places that are counted at once: few enough that they and the next ones lie in the CPU's first cache.
const PART: usize = 2048;
const CACHE_LINE: usize = 64;
/// The most threads that count: more would wait for the memory.
const THREADS_MAX: usize = 4;
/// Places that take longer to count than a thread to start: a millisecond or two.
const WORTH_A_THREAD: usize = 1 << 20;

/// The numbers of live pages.
pub(crate) struct LivePageCounts {
    segment_of: Divisor,
    segment_count: u32,
    pages_per_segment: u32,
    /// Of each segment; then of pages that lie nowhere, and of those whose place does not exist.
    counts: Vec<u32>,
}

impl LivePageCounts {
    /// Of pages that lie at these places. Several threads count, if there are many.
    pub fn of(places: &[Place], segment_count: u32, pages_per_segment: u32) -> LivePageCounts {
        let segment_of = Divisor::new(pages_per_segment);
        let empty = LivePageCounts { segment_of, segment_count, pages_per_segment, counts: Vec::new() };
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX));
        let share = places.len().div_ceil(threads).max(WORTH_A_THREAD);
        let (first, others) = places.split_at(share.min(places.len()));
        let counts = std::thread::scope(|scope| {
            let others = others.chunks(share).map(|places| scope.spawn(|| empty.count(places)));
            let others: Vec<_> = others.collect();
            let mut counts = empty.count(first);
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                counts.iter_mut().zip(other).for_each(|(count, other)| *count += other);
            }
            counts
        });
        LivePageCounts { counts, ..empty }
    }

    fn count(&self, places: &[Place]) -> Vec<u32> {
        let mut counts = vec![0; self.segment_count as usize + 2];
        let mut parts = places.chunks(PART).peekable();
        while let Some(part) = parts.next() {
            // The CPU reads ahead within 4 KiB. What lies behind is touched, so that it is there when its turn comes.
            let next = parts.peek().map_or(&[][..], |next| next.as_flattened());
            std::hint::black_box(next.iter().step_by(CACHE_LINE).fold(0, |sum, byte| sum ^ byte));
            part.iter().for_each(|&place| counts[self.index(place)] += 1);
        }
        counts
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
