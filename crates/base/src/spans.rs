//! Spans of time, of which at most so many are kept: those that lie close together become one.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// A span of time with what happened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span<T> {
    /// Its begin, nanoseconds.
    pub start_ns: u64,
    /// Its end, nanoseconds.
    pub end_ns: u64,
    /// What happened.
    pub amount: T,
}

/// At most so many spans. Amounts are added when spans are joined, so that none is lost.
#[derive(Clone, Debug)]
pub struct Spans<T> {
    most: usize,
    /// Spans with at most so much time between them become one, nanoseconds.
    gap_ns: u64,
    spans: Vec<Span<T>>,
}

impl<T: AddAssign + Copy> Spans<T> {
    /// At most `most` spans; those with at most `gap_ns` between them are one from the start.
    ///
    /// # Panics
    /// If `most` is zero.
    pub fn new(most: usize, gap_ns: u64) -> Spans<T> {
        assert!(most > 0, "a span needs a place");
        Spans { most, gap_ns, spans: Vec::new() }
    }

    /// Adds a span, later than most of the others.
    #[inline]
    pub fn add(&mut self, span: Span<T>) {
        match self.spans.last_mut() {
            Some(last) if Spans::are_close(last, &span, self.gap_ns) => Spans::join(last, &span),
            _ => self.spans.push(span),
        }
        // Sorting them each time would cost more than some that are kept for a while.
        if self.spans.len() > 2 * self.most {
            self.reduce();
        }
    }

    /// The spans in the order of their begin.
    pub fn into_vec(mut self) -> Vec<Span<T>> {
        self.reduce();
        self.spans
    }

    fn reduce(&mut self) {
        self.spans.sort_by_key(|span| (span.start_ns, span.end_ns));
        self.join_close();
        while self.spans.len() > self.most {
            self.gap_ns = self.gap_ns.saturating_mul(2).max(1);
            self.join_close();
        }
    }

    fn join_close(&mut self) {
        let gap_ns = self.gap_ns;
        self.spans.dedup_by(|next, own| {
            let is_close = Spans::are_close(own, next, gap_ns);
            if is_close {
                Spans::join(own, next);
            }
            is_close
        });
    }

    /// Whether `next`, which begins no earlier, begins at most `gap_ns` after the end of `own`.
    fn are_close(own: &Span<T>, next: &Span<T>, gap_ns: u64) -> bool {
        next.start_ns >= own.start_ns && next.start_ns <= own.end_ns.saturating_add(gap_ns)
    }

    fn join(own: &mut Span<T>, next: &Span<T>) {
        own.end_ns = own.end_ns.max(next.end_ns);
        own.amount += next.amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_kept_and_close_spans_are_one() {
        let mut spans = Spans::new(4, 10);
        for index in 0..1000_u64 {
            // Pairs 5 apart, a hundred between the pairs, in reverse within each.
            for start_ns in [index * 100 + 15, index * 100] {
                spans.add(Span { start_ns, end_ns: start_ns + 10, amount: 1_u64 });
            }
        }
        let few = spans.clone().into_vec();
        assert!(few.len() <= 4, "{few:?}");
        assert_eq!(few.iter().map(|span| span.amount).sum::<u64>(), 2000);
        assert_eq!((few[0].start_ns, few[few.len() - 1].end_ns), (0, 99_925));
        assert!(few.windows(2).all(|two| two[0].end_ns < two[1].start_ns));
        let mut spans = Spans::new(4, 10);
        for start_ns in [100, 0, 15] {
            spans.add(Span { start_ns, end_ns: start_ns + 10, amount: 1_u64 });
        }
        let spans: Vec<_> =
            spans.into_vec().iter().map(|span| (span.start_ns, span.end_ns, span.amount)).collect();
        assert_eq!(spans, [(0, 25, 2), (100, 110, 1)]);
    }
}
