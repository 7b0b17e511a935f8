//! Writes the result of `infer-score` into its page, docs/infer-score.md.
//!
//! The page has a [generated part](GeneratedPart) for each set of devices.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use flashlab_analysis::inference::Parameter;

use crate::generated_part::GeneratedPart;
use crate::reliability::{bins, summary};
use crate::score::{JudgedAnswer, ProbeOutcome, Set, Tally};
use crate::truth::{Rule, rule};

/// A part of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The random devices of the simulator.
    Simulated,
    /// The devices that share no code with it.
    Foreign,
    /// Disks without flash.
    NoFlash,
    /// Those of the zoo.
    Zoo,
    /// Those of a server in C, on the wall clock.
    Live,
    /// The same in virtual time.
    LiveInVirtualTime,
}

impl Part {
    /// The part of a set in virtual time.
    pub fn of(set: Set) -> Part {
        match set {
            Set::Simulated | Set::OtherNoise(_) => Part::Simulated,
            Set::Foreign => Part::Foreign,
            Set::NoFlash => Part::NoFlash,
            Set::Zoo => Part::Zoo,
        }
    }

    fn generated(self) -> GeneratedPart<'static> {
        let name = match self {
            Part::Simulated => "simulated",
            Part::Foreign => "foreign",
            Part::NoFlash => "no flash",
            Part::Zoo => "zoo",
            Part::Live => "live",
            Part::LiveInVirtualTime => "live in virtual time",
        };
        GeneratedPart { name, writer: "infer-score --docs" }
    }
}

/// Replaces a part of a page.
pub fn write(
    page: &Path,
    part: Part,
    command: &str,
    outcomes: &[ProbeOutcome],
    only: &[Parameter],
) -> anyhow::Result<()> {
    let text = match part {
        Part::Live | Part::LiveInVirtualTime => live_tables(outcomes),
        _ => tables(outcomes, only),
    };
    part.generated().write(page, command, &text)
}

/// A row for each live device, and what stayed undetermined.
fn live_tables(outcomes: &[ProbeOutcome]) -> String {
    let mut out = String::from(
        "| device | minutes | undetermined | judged | right | wrong | wrong at 0.95 |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut open = String::new();
    for outcome in outcomes {
        let tally = Tally::of(outcome.answers.iter());
        let undetermined: Vec<String> = outcome
            .answers
            .iter()
            .filter(|answer| answer.is_undetermined())
            .map(|answer| format!("`{}`", answer.parameter))
            .collect();
        let name = outcome.family;
        let _ = writeln!(
            out,
            "| {name} | {:.1} | {} of {} | {} | {} | {} | {} |",
            outcome.virtual_time.as_secs_f64() / 60.0,
            undetermined.len(),
            outcome.answers.len(),
            tally.devices,
            tally.within_3_percent + tally.not_identifiable,
            tally.wrong + tally.not_identifiable_wrong,
            tally.confidently_wrong
        );
        let _ = writeln!(open, "- {name}: {}", undetermined.join(", "));
    }
    format!("{out}\nUndetermined:\n\n{open}\n")
}

/// The tables by parameter, by family, and by confidence.
fn tables(outcomes: &[ProbeOutcome], only: &[Parameter]) -> String {
    let answers = || outcomes.iter().flat_map(|outcome| &outcome.answers);
    let all = Tally::of(answers().filter(|answer| only.contains(&answer.parameter)));
    let mut out = format!(
        "{:.1} % of {} answers are right, and {} are wrong with a confidence of 0.95 or more.\n\n",
        right_share(&all),
        all.devices,
        all.confidently_wrong
    );
    out += "| parameter | tolerance | judged | right | hidden | undetermined | wrong | wrong at 0.95 | denied | right or hidden |\n";
    out += "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for &parameter in only {
        let of_parameter = || answers().filter(|answer| answer.parameter == parameter);
        let tolerance = if rule(parameter) == Rule::Exact { "equal" } else { "within 3 %" };
        row(
            &mut out,
            &format!("`{parameter}`"),
            tolerance,
            &Tally::of(of_parameter()),
            right_of(of_parameter()),
        );
    }
    let right = right_of(answers().filter(|answer| only.contains(&answer.parameter)));
    row(&mut out, "all", "", &all, right);
    out += "\n| family | devices | right or hidden | wrong at 0.95 |\n| --- | ---: | ---: | ---: |\n";
    let families: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.family).collect();
    for family in families {
        let of_family = || outcomes.iter().filter(|outcome| outcome.family == family);
        let answers = || of_family().flat_map(|outcome| &outcome.answers);
        let tally = Tally::of(answers().filter(|answer| only.contains(&answer.parameter)));
        let _ = writeln!(
            out,
            "| {family} | {} | {:.1} % of {} | {} |",
            of_family().count(),
            right_share(&tally),
            tally.devices,
            tally.confidently_wrong
        );
    }
    out += "\n| confidence from | mean | answers | right |\n| --- | ---: | ---: | ---: |\n";
    for bin in bins(outcomes).iter().filter(|bin| bin.answers > 0) {
        let right = 100.0 * bin.right as f64 / bin.answers as f64;
        let _ = writeln!(out, "| {} | {:.3} | {} | {right:.1} % |", bin.from, bin.confidence(), bin.answers);
    }
    let _ = writeln!(out, "\n{}\n", summary(outcomes).trim_end().replace('\n', " "));
    out
}

/// How many are found and right, by the tolerance of their parameters.
fn right_of<'a>(answers: impl Iterator<Item = &'a JudgedAnswer>) -> u64 {
    Tally::of(answers).within_3_percent
}

/// Right answers, and those that correctly say that nothing is to be found, in percent.
fn right_share(tally: &Tally) -> f64 {
    100.0 * (tally.within_3_percent + tally.not_identifiable) as f64 / tally.devices.max(1) as f64
}

fn row(out: &mut String, name: &str, tolerance: &str, tally: &Tally, right: u64) {
    let _ = writeln!(
        out,
        "| {name} | {tolerance} | {} | {right} | {} | {} | {} | {} | {} | {:.1} % |",
        tally.devices,
        tally.not_identifiable,
        tally.undetermined,
        tally.wrong,
        tally.confidently_wrong,
        tally.not_identifiable_wrong,
        right_share(tally)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_part() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/infer-score.md")).unwrap();
        for part in
            [Part::Simulated, Part::Foreign, Part::NoFlash, Part::Zoo, Part::Live, Part::LiveInVirtualTime]
        {
            assert!(part.generated().is_in(&page), "{part:?}");
        }
    }

    #[test]
    fn tables_of_no_devices_have_a_row_for_each_parameter() {
        let tables = tables(&[], &[Parameter::ReadPageSize]);
        assert!(
            tables.contains("| `read_page_size` | equal | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0.0 % |"),
            "{tables}"
        );
        assert!(live_tables(&[]).starts_with("| device | minutes |"));
    }
}
