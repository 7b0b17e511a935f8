//! How much a fit may simulate: the same on every machine, because work is counted and not timed.
//!
//! # Invariants
//! - The same run and the same inference end a search at the same candidate.
//! - A search that was cut says so, and its answer is the best that it had found.

use std::cell::Cell;

/// IOs that a fit simulates, at most, with those that bring devices into their states. The simulator serves one to three million a second
/// (docs/sim.md), so that a fit takes one to three minutes. Chosen for that time, and not by how good twins are.
const WORK_MOST: u64 = 150_000_000;

/// The work of a fit so far, and how far it may go.
pub(super) struct Budget<'a> {
    most: u64,
    spent: Cell<u64>,
    limit: Cell<u64>,
    was_cut: Cell<bool>,
    /// Is called with the share of the budget that is spent.
    progress: &'a dyn Fn(f64),
}

impl<'a> Budget<'a> {
    pub fn new(progress: &'a dyn Fn(f64)) -> Budget<'a> {
        Budget::of(WORK_MOST, progress)
    }

    /// A budget of so many IOs.
    pub fn of(most: u64, progress: &'a dyn Fn(f64)) -> Budget<'a> {
        Budget { most, spent: Cell::new(0), limit: Cell::new(most), was_cut: Cell::new(false), progress }
    }

    /// Until further notice work may go on to this share of the whole budget.
    pub fn allow_until(&self, share: f64) {
        self.limit.set((self.most as f64 * share) as u64);
    }

    /// Whether there is some left; if not, a search ends here.
    pub fn is_left(&self) -> bool {
        let is_left = self.spent.get() < self.limit.get();
        self.was_cut.set(self.was_cut.get() || !is_left);
        is_left
    }

    /// Notes so many IOs.
    pub fn spend(&self, ios: u64) {
        self.spent.set(self.spent.get() + ios);
        (self.progress)((self.spent.get() as f64 / self.most as f64).min(1.0));
    }

    /// Whether something was not tried.
    pub fn was_cut(&self) -> bool {
        self.was_cut.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_at_its_share_and_says_so() {
        let shown = Cell::new(0.0);
        let progress = |share| shown.set(share);
        let budget = Budget::of(100, &progress);
        budget.allow_until(0.3);
        budget.spend(20);
        assert!(budget.is_left() && !budget.was_cut());
        budget.spend(20);
        assert!(!budget.is_left() && budget.was_cut());
        budget.allow_until(1.0);
        assert!(budget.is_left());
        assert_eq!(shown.get(), 0.4);
    }
}
