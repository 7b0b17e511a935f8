//! Notes when a flash device works on its own account.

use flashlab_base::{Activity, ActivityAmount, ActivityKind, Nanos, Span, Spans};

use crate::flash::{Cause, Counts};

/// The causes that are work of the device itself. Its map is not among them: nearly every read may need it.
const KINDS: [(Cause, ActivityKind); 4] = [
    (Cause::Reclaim, ActivityKind::Collection),
    (Cause::Fold, ActivityKind::Folding),
    (Cause::WearLevelling, ActivityKind::WearLevelling),
    (Cause::Refresh, ActivityKind::Refresh),
];
/// The most spans that are kept of each kind.
const SPANS_MOST: usize = 1024;
/// Spans with less between them are one from the start, nanoseconds: an erase takes longer.
const GAP_NS: u64 = 1_000_000;

/// The device's own work since it was looked at last.
#[derive(Clone, Debug)]
pub struct ActivityLog {
    before: [ActivityAmount; KINDS.len()],
    spans: [Spans<ActivityAmount>; KINDS.len()],
}

impl ActivityLog {
    /// Begins when the counts are these.
    pub fn new(counts: &Counts) -> ActivityLog {
        ActivityLog {
            before: amounts(counts),
            spans: std::array::from_fn(|_| Spans::new(SPANS_MOST, GAP_NS)),
        }
    }

    /// A request from `start` to `end` has led to these counts.
    #[inline]
    pub fn note(&mut self, counts: &Counts, start: Nanos, end: Nanos) {
        let now = amounts(counts);
        if now == self.before {
            return;
        }
        for ((before, now), spans) in self.before.iter().zip(&now).zip(&mut self.spans) {
            // A device that returns to an earlier state has fewer.
            let amount = ActivityAmount {
                pages: now.pages.saturating_sub(before.pages),
                erases: now.erases.saturating_sub(before.erases),
            };
            if amount != ActivityAmount::default() {
                spans.add(Span { start_ns: start.0, end_ns: end.0, amount });
            }
        }
        self.before = now;
    }

    /// What was noted, at most `most` spans of each kind. The log is empty afterwards.
    pub fn take(&mut self, most: usize) -> Vec<Activity> {
        let mut all = Vec::new();
        for ((_, kind), spans) in KINDS.into_iter().zip(&mut self.spans) {
            let noted = std::mem::replace(spans, Spans::new(SPANS_MOST, GAP_NS)).into_vec();
            let mut fewer = Spans::new(most.max(1), GAP_NS);
            noted.into_iter().for_each(|span| fewer.add(span));
            let activity = |span: Span<ActivityAmount>| Activity {
                kind,
                start_ns: span.start_ns,
                end_ns: span.end_ns,
                amount: span.amount,
            };
            all.extend(fewer.into_vec().into_iter().map(activity));
        }
        all.sort_by_key(|activity| (activity.start_ns, activity.end_ns));
        all
    }
}

fn amounts(counts: &Counts) -> [ActivityAmount; KINDS.len()] {
    KINDS.map(|(cause, _)| ActivityAmount {
        pages: counts.pages_programmed(cause),
        erases: counts.blocks_erased(cause),
    })
}
