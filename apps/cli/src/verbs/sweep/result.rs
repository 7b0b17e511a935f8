//! What a sweep is and what it gives: its settings, its points, its table and its page. Shards and the merge of them have the same.

use anyhow::{Result, bail};
use flashlab_analysis::findings::Findings;
use flashlab_bench::Settings;
use flashlab_plan::Plan;
use flashlab_report::{Sweep as SweepDocument, SweepPoint};
use flashlab_samples::RunFolder;
use flashlab_sweep::{Grid, Sampling, Setting};
use serde::{Deserialize, Serialize};

use super::shard::Shard;
use crate::arguments::TableOptions;
use crate::exit::Usage;
use crate::{csv_table, output};

const DOCUMENT: &str = "sweep.json";
const PAGE: &str = "sweep.html";

/// What a sweep is: only one with the same is continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepSettings {
    /// Those of each run; the target and its size are those of the profile that is varied.
    pub run: Settings,
    /// The profile that is varied, as TOML.
    pub profile: String,
    /// The keys and their values.
    pub sets: Vec<Setting>,
    /// How many combinations are chosen, and how; all of them if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// The part of these combinations; all of them if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// Some combinations of a large grid. The sweep's seed decides which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub method: Sampling,
    pub number: u64,
}

impl Sample {
    /// From the words of the option.
    pub fn parse(words: &[String]) -> Result<Sample> {
        let [method, number] = words else { bail!("--sample has two words") };
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            Usage(format!("--sample {method} {number}: how many combinations? Give a whole number from 1 on"))
        })?;
        let method = method.parse().map_err(|error| Usage(format!("--sample {method}: {error}")))?;
        Ok(Sample { method, number })
    }
}

/// A row of the CSV table.
#[derive(Serialize)]
struct CsvRow<'a> {
    #[serde(flatten)]
    values: serde_json::Map<String, serde_json::Value>,
    /// The state that the device had.
    state: &'a str,
    #[serde(flatten)]
    row: &'a flashlab_report::RunRow,
}

impl SweepSettings {
    /// The combinations of the whole sweep.
    pub fn grid(&self) -> Result<Grid> {
        let grid = Grid::new(self.sets.clone())?;
        Ok(match self.sample {
            Some(Sample { method, number }) => grid.sampled(method, number, self.run.seed)?,
            None => grid,
        })
    }

    /// The table of these points of a device with this name.
    pub fn document(&self, device: &str, plans: &[String], points: Vec<SweepPoint>) -> Result<SweepDocument> {
        let plan = plans.first().map(|text| Plan::parse(text, "the plan of the sweep")).transpose()?;
        Ok(SweepDocument {
            device: device.to_owned(),
            plan: plan.map_or(String::new(), |plan| plan.name),
            state: self.run.state.to_string(),
            flashlab: env!("CARGO_PKG_VERSION").to_owned(),
            keys: self.sets.iter().map(|set| set.key.clone()).collect(),
            points,
        })
    }
}

/// The folder of a combination: the same in a shard as in a sweep of all.
pub fn point_folder(index: u64) -> String {
    format!("point-{:03}", index + 1)
}

/// What a run gave for a combination of values.
pub fn measured_point(values: Vec<String>, run: String, findings: Findings) -> SweepPoint {
    let rows = flashlab_report::middle_rows(&findings);
    let doubts = flashlab_report::doubts(&findings);
    SweepPoint { values, run, state: findings.method.state, doubts, rows }
}

/// Writes the table and the page, and prints the table.
pub fn finish(folder: &RunFolder, document: &SweepDocument, options: &TableOptions) -> Result<()> {
    folder.write_json(DOCUMENT, document)?;
    folder.write_text(PAGE, &flashlab_report::sweep_html(document))?;
    folder.finish::<SweepSettings>()?;
    let page = folder.path().join(PAGE).display().to_string();
    if !options.is_for_a_program() {
        return output::text(&flashlab_report::sweep_terminal(document, &output::layout(Some(page))));
    }
    tell!("report: {page}");
    if options.json {
        return output::json(document);
    }
    let rows = document.points.iter().flat_map(|point| {
        let values = document.keys.iter().cloned().zip(point.values.iter().cloned().map(Into::into));
        let values: serde_json::Map<_, _> = values.collect();
        point.rows.iter().map(move |row| CsvRow { values: values.clone(), state: &point.state, row })
    });
    csv_table::print(&rows.collect::<Vec<_>>())
}

/// The consent in the manifests.
pub const UNNEEDED: &str = "none needed: simulated";
