//! The table of how often each rule of inference was right, and the confidence that follows from it.
//!
//! # Model
//! A rule says how an answer was decided: `erase_block_size/collection`. What limits it follows, as in
//! `erase_block_size/collection/translation_family`. The part before the last `/` is the rule's parent; the parent
//! of a parameter is "all answers".
//!
//! # Method
//! 1. `cargo xtask infer-score --calibrate` counts for each rule how many answers it gave on devices whose truth is
//!    known, and how many of them were right.
//! 2. A rule's share of right answers is estimated from its answers and [`BORROWED`] more in its parent's ratio, which is
//!    estimated in the same way. So a rare rule is close to its parent, and a frequent one stands for itself.
//! 3. The confidence is that share. But it reaches [`CONFIDENT`] only if the lower end of the 65 % Wilson interval of the share does
//!    (Wilson, JASA 22, 1927); else it stays just below. So a confidence is how often such answers are right, and few answers are wrong
//!    where an expectation takes them for known.
//!
//! Both constants come from `calibration.tsv` of crate `infer`, each answer judged by the table without it. Three goals pull in
//! different directions: confidences within 3 points of the shares of right answers, at least 70 % of the right answers at 0.95 or
//! more, and at most 0.5 % of all answers wrong there. The lower end of an interval alone makes bins too low, and the share alone leaves
//! too many answers wrong:
//!
//! | borrowed | confidence | bins 0.7, 0.8, 0.9, 0.95, 0.975: points too low | right answers at 0.95 | wrong answers at 0.95, of all |
//! | --- | --- | --- | --- | --- |
//! | 24 | lower end of 75 % | 9.7, 2.5, 3.0, 2.3, 1.3 | 68.3 % | 0.29 % |
//! | 8 | the share | 1.5, -2.6, 2.5, 0.1, -0.3 | 85.4 % | 0.94 % |
//! | 8 | the share, 0.95 by 75 % | 1.5, -2.6, 1.6, 2.6, 0.0 | 67.2 % | 0.23 % |
//! | 8 | the share, 0.95 by 65 % | 1.5, -2.6, 1.3, 2.7, -0.1 | 71.1 % | 0.31 % |
//! | 8 | the share, 0.95 by 60 % | 1.5, -2.6, 1.0, 2.7, -0.1 | 74.3 % | 0.37 % |
//!
//! # Invariants
//! - A parent's counts are the sums over its rules.
//! - A confidence is below 1, and grows with the share of right answers.

use std::collections::BTreeMap;

/// The first line of a table.
const HEADER: &str = "# flashlab calibration 1";
/// From here on an answer counts as known: to an expectation, and to the goals of `infer-score`.
pub const CONFIDENT: f64 = 0.95;
/// Answers in its parent's ratio that each rule borrows. Fewer: the confidence of rare rules follows from chance; more:
/// rules that differ share one confidence.
const BORROWED: f64 = 8.0;
/// The normal distribution has 65 % within this many standard deviations. Larger: fewer right answers reach [`CONFIDENT`];
/// smaller: more of those that do are wrong.
const Z: f64 = 0.934_589_291;

/// How often a rule was right.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleCount {
    /// Its answers whose truth is known.
    pub answers: u64,
    /// Of these, the right ones.
    pub right: u64,
}

/// How often each rule was right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CalibrationTable {
    /// By rule; those that were counted, not their parents.
    rules: BTreeMap<String, RuleCount>,
    /// By rule, with the parents.
    sums: BTreeMap<String, RuleCount>,
}

impl CalibrationTable {
    /// A table without rules.
    pub fn new() -> CalibrationTable {
        CalibrationTable::default()
    }

    /// Counts an answer.
    pub fn count(&mut self, rule: &str, is_right: bool) {
        self.add(rule, RuleCount { answers: 1, right: u64::from(is_right) });
    }

    fn add(&mut self, rule: &str, count: RuleCount) {
        let sum = |to: &mut BTreeMap<String, RuleCount>, key: &str| {
            let entry = to.entry(key.to_owned()).or_default();
            entry.answers += count.answers;
            entry.right += count.right;
        };
        sum(&mut self.rules, rule);
        let mut key = Some(rule);
        while let Some(of) = key {
            sum(&mut self.sums, of);
            key = parent(of);
        }
    }

    /// How often this rule, or one below it, was right.
    pub fn counted(&self, rule: &str) -> RuleCount {
        self.sums.get(rule).copied().unwrap_or_default()
    }

    /// The confidence of this rule's answers: 0 to 0.999, in thousandths, rounded down; 0.5 in a table without answers.
    pub fn confidence(&self, rule: &str) -> f64 {
        match self.share(rule) {
            Some((share, answers)) => {
                let is_known = share >= CONFIDENT && wilson_low(share, answers) >= CONFIDENT;
                let most = if is_known { 1.0 } else { CONFIDENT };
                (share * 1000.0).floor().min(most * 1000.0 - 1.0) / 1000.0
            }
            None => 0.5,
        }
    }

    /// The estimated share of right answers, and from how many answers; `None` in a table without answers.
    fn share(&self, rule: &str) -> Option<(f64, f64)> {
        let RuleCount { answers, right } = self.counted(rule);
        let (answers, right) = (answers as f64, right as f64);
        let Some(parent) = parent(rule) else { return (answers > 0.0).then(|| (right / answers, answers)) };
        let (of_parent, _) = self.share(parent)?;
        let all = answers + BORROWED;
        Some(((right + BORROWED * of_parent) / all, all))
    }

    /// The table as a file: `#` and comments, then answers, right ones and rule in each line.
    pub fn to_text(&self, comments: &[String]) -> String {
        let mut text = format!("{HEADER}\n");
        for comment in comments {
            text += &format!("# {comment}\n");
        }
        text += "# answers\tright\trule\n";
        for (rule, RuleCount { answers, right }) in &self.rules {
            text += &format!("{answers}\t{right}\t{rule}\n");
        }
        text
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The line that is no line of a table, and what it should be.
    pub fn parse(text: &str) -> Result<CalibrationTable, String> {
        if text.lines().next() != Some(HEADER) {
            return Err(format!("line 1 is not '{HEADER}': generate the table with this version"));
        }
        let mut table = CalibrationTable::new();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')) {
            let wrong = || format!("line {number} is not 'answers, right, rule', separated by tabs: {line}");
            let mut columns = line.splitn(3, '\t');
            let mut count = || columns.next().and_then(|column| column.parse::<u64>().ok()).ok_or_else(wrong);
            let count = RuleCount { answers: count()?, right: count()? };
            let rule = columns.next().filter(|rule| !rule.is_empty()).ok_or_else(wrong)?;
            if count.right > count.answers || count.answers > u64::from(u32::MAX) {
                return Err(format!("line {number} has {} right ones of {}", count.right, count.answers));
            }
            table.add(rule, count);
        }
        Ok(table)
    }
}

/// What a rule belongs to; `None` for all answers, which is the empty rule.
fn parent(rule: &str) -> Option<&str> {
    if rule.is_empty() { None } else { Some(rule.rfind('/').map_or("", |at| &rule[..at])) }
}

/// The lower end of the 65 % Wilson interval of a share that was seen in this number of answers.
fn wilson_low(share: f64, answers: f64) -> f64 {
    let square = Z * Z / answers;
    let centre = share + square / 2.0;
    let half = Z * (share * (1.0 - share) / answers + square / answers / 4.0).max(0.0).sqrt();
    ((centre - half) / (1.0 + square)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(counts: &[(&str, u64, u64)]) -> CalibrationTable {
        let mut table = CalibrationTable::new();
        for &(rule, answers, right) in counts {
            table.add(rule, RuleCount { answers, right });
        }
        table
    }

    #[test]
    fn the_interval_is_wilsons() {
        // The end of the interval is where the score statistic is the quantile: (share - low)^2 = z^2 low (1 - low) / n.
        for (right, answers) in [(50.0, 50.0), (90.0, 100.0), (1.0, 10.0), (999.0, 1000.0)] {
            let (share, low) = (right / answers, wilson_low(right / answers, answers));
            let score = (share - low) / (low * (1.0 - low) / answers).sqrt();
            assert!((score - Z).abs() < 1e-9, "{right} of {answers}: {low}, score {score}");
        }
        assert!(wilson_low(0.0, 10.0) < 1e-12);
        // 65 % of the normal distribution lie within Z.
        assert!((statrs::function::erf::erf(Z / 2f64.sqrt()) - 0.65).abs() < 1e-8);
    }

    #[test]
    fn a_rule_that_was_seen_often_stands_for_itself() {
        let table = table(&[("size/often", 10_000, 9_900), ("size/other", 10_000, 5_000)]);
        assert!((table.confidence("size/often") - 0.99).abs() < 3e-3, "{}", table.confidence("size/often"));
        assert_eq!(table.counted("size"), RuleCount { answers: 20_000, right: 14_900 });
    }

    #[test]
    fn a_rare_rule_borrows_from_its_parent() {
        let table = table(&[("size/seen", 1000, 900), ("size/seen/rare", 2, 2), ("depth/x", 1000, 100)]);
        let [seen, rare, wrong] =
            ["size/seen", "size/seen/rare", "depth/x"].map(|rule| table.confidence(rule));
        assert!(rare > seen && rare < 0.95 && wrong < 0.15, "{rare} {seen} {wrong}");
        // Right answers lift a rare rule above its parent, as far as their number allows.
        let of_rare = |answers| {
            let mut all = table.clone();
            all.add("size/seen/rare", RuleCount { answers, right: answers });
            all.confidence("size/seen/rare")
        };
        assert!(rare < of_rare(3) && of_rare(3) < of_rare(30) && of_rare(300) > 0.95, "{}", of_rare(300));
        assert_eq!(CalibrationTable::new().confidence("size"), 0.5);
    }

    #[test]
    fn a_rule_never_seen_has_its_parents_share_and_is_never_known() {
        let table = table(&[("size/seen", 1000, 900), ("page/seen", 1000, 999)]);
        let [of_size, of_page] = ["size/never", "page/never"].map(|rule| table.confidence(rule));
        assert!((of_size - 0.9).abs() < 2e-3, "{of_size}");
        assert_eq!(of_page, 0.949);
        assert!(table.confidence("page/seen") > 0.99);
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = table(&[("size/seen, twice", 10, 9), ("size", 1, 0)]);
        let text = table.to_text(&["cargo xtask".to_owned()]);
        assert_eq!(CalibrationTable::parse(&text), Ok(table));
        for (wrong, says) in [
            ("1\t2\tsize", "line 1 is not"),
            (&*format!("{HEADER}\n1\t2\tsize"), "line 2 has 2 right ones of 1"),
            (&*format!("{HEADER}\n1\t1"), "line 2 is not"),
        ] {
            assert!(CalibrationTable::parse(wrong).unwrap_err().starts_with(says), "{wrong}");
        }
    }
}
