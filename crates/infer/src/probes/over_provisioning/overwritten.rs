//! What the overwritten device shows of its unit: the cycle that predicted itself, and the rows that all stalls show.

use crate::signals::pictures::{folded, slowest};
use crate::signals::unit_rows::UnitOfRows;
use flashlab_analysis::inference::{Finding, Parameter, Picture};

use super::overwriting::Overwriting;
use crate::checkpoint::ReclaimUnit;
use crate::rule::Rule;
use crate::session::Session;

/// The rules of a unit that shows from the beginning on, from later on, and from later on without being predicted.
const CLEAR_RULE: Rule = Rule::likely("collection from the first write");
const LATER: Rule = Rule::strong("collection");
const LATE: Rule = Rule::likely("late collection");
/// The rule where the rows show the same, and where they show another unit that is this much likelier, as a log-likelihood ratio.
const SAME_ROWS: Rule = Rule::strong("collection and rows");
const OTHER_ROWS: Rule = Rule::likely("collection and other rows");
/// The block that all stalls show replaces that of the cycle if its log-likelihood ratio leads by this. Unit:
/// natural logarithm, so 3000 to 1. Source: tuned. Too high: multiples of the block are reported; too low:
/// noise replaces the cycle.
const ROWS_LEAD: f64 = 8.0;
impl Overwriting {
    /// The unit that comes back: the cycle, if stalls do not show another number of rows much more clearly.
    pub(super) fn unit(&self) -> Option<ReclaimUnit> {
        let bytes = |writes: usize| self.size * writes as u64;
        let of_rows = self.trace.of_rows.filter(|shown| shown.lead >= ROWS_LEAD);
        let shown = self.row.zip(of_rows).map(|(row, shown)| (row * shown.rows as u64, Some(shown.from)));
        let (size, onset, predicted, rightly) = match (self.trace.seen, shown, self.trace.room_from) {
            (None, Some((shown, from)), Some(_)) => (shown, from, 0, 0),
            (None, ..) => return None,
            (Some(seen), shown, _) => {
                let of_cycle = (bytes(seen.cycle.period), seen.onset);
                let (size, onset) = shown.filter(|_| seen.onset.is_some()).unwrap_or(of_cycle);
                (size, onset, seen.windows, seen.stalled)
            }
        };
        let onset = onset.map(bytes);
        Some(ReclaimUnit { size, onset, predictions: predicted as u32, correct: rightly as u32, logs: None })
    }

    /// What that says of the erase block.
    fn finding(&self) -> Option<Finding> {
        let unit = self.unit()?;
        let ReclaimUnit { size, onset, predictions, correct, .. } = unit;
        let (from, basis) = match onset {
            Some(onset) if correct == 0 => (format!("after {onset}"), LATE),
            Some(onset) => (format!("after {onset}"), LATER),
            None => ("with the first writes".to_owned(), CLEAR_RULE),
        };
        let shown = match (predictions, correct) {
            (0, 0) => "The slow writes of all multi-plane pages of a block show it.".to_owned(),
            (_, 0) => format!("It was seen {predictions} times before the write budget ended."),
            _ => format!("This period predicted {correct} of {predictions} later collections correctly."),
        };
        let same =
            |shown: &UnitOfRows| onset.is_some() && self.row.map(|row| row * shown.rows as u64) == Some(size);
        let (rows, basis) = match self.trace.of_rows.filter(same) {
            Some(shown) if shown.lead >= ROWS_LEAD => (shown.gain, OTHER_ROWS),
            Some(shown) => (shown.gain, SAME_ROWS),
            None => (0.0, basis),
        };
        let rows = if rows > 0.0 {
            format!(" The slow writes within a block agree with this size (log-likelihood ratio {rows:.0}).")
        } else {
            String::new()
        };
        let evidence = format!(
            "When the filled device is overwritten sequentially, garbage collection runs once per {size} and begins {from}. \
             {shown}{rows}"
        );
        Some(Rule::found(Parameter::EraseBlockSize, size, basis, evidence).with(self.picture_of_unit(&unit)))
    }

    /// The overwritten addresses by their position in an erase block, since garbage collection began.
    pub(super) fn picture_of_unit(&self, unit: &ReclaimUnit) -> Picture {
        let from = unit.onset.unwrap_or_default().0 as f64;
        let mut points = slowest(self.size, &self.trace.both);
        points.retain(|&(written, _)| written >= from);
        let title = format!(
            "The filled device, overwritten sequentially, {}, since garbage collection began: its slow IOs come back once per erase \
             block. Of neighbouring IOs the slowest is shown.",
            self.behind(),
        );
        folded(&title, self.both_named(), unit.size, &[(self.both_named(), points)])
    }

    /// Leaves what was seen to the later probes.
    pub(super) fn hand_in(&self, session: &mut Session<'_, '_>) {
        session.set_reclaim_unit(self.unit());
        // Blocks that an SLC cache relocates show the erase block more clearly.
        if let Some(finding) = self.finding()
            && !session.known().has_slc_cache()
        {
            session.hand_in(finding);
        }
    }
}
