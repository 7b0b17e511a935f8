//! The output of a trace replay or a plan run: its IOs by class, as a table or as JSON.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use flashlab_analysis::ClassTable;
use flashlab_base::Nanos;
use flashlab_report::{class_rows, class_table};
use flashlab_sim::flash_device::Statistics;
use serde::Serialize;

use crate::arguments::TableOptions;
use crate::{csv_table, flash_statistics, output};

/// The version of the JSON document.
const VERSION: u32 = 1;

/// The run and its results.
#[derive(Serialize)]
pub struct ClassDocument {
    version: u32,
    target: String,
    capacity_bytes: u64,
    /// Null for a plan.
    trace: Option<TraceFacts>,
    runs: Vec<ClassifiedRun>,
    /// What the flash did; null for a device that is not simulated flash.
    device: Option<Statistics>,
}

#[derive(Serialize)]
pub struct TraceFacts {
    pub file: String,
    pub ios: usize,
    pub sources: Vec<String>,
    /// IOs that were extended to whole blocks of the device.
    pub widened_ios: u64,
    /// IOs that were moved into the device.
    pub moved_ios: u64,
    /// What arrived and is no read, write, flush or discard, by its name.
    pub left_out: BTreeMap<String, u64>,
}

#[derive(Serialize)]
pub struct ClassifiedRun {
    pub name: String,
    #[serde(flatten)]
    pub table: ClassTable,
    pub first_failure: Option<String>,
}

impl ClassDocument {
    pub fn new(
        target: String,
        capacity_bytes: u64,
        trace: Option<TraceFacts>,
        runs: Vec<ClassifiedRun>,
        device: Option<Statistics>,
    ) -> ClassDocument {
        ClassDocument { version: VERSION, target, capacity_bytes, trace, runs, device }
    }

    /// Prints the document. Returns an error if IOs failed.
    pub fn print(&self, table: TableOptions) -> Result<()> {
        match (table.json, table.csv) {
            (true, _) => output::json(self)?,
            (_, true) => {
                csv_table::print(&class_rows(self.runs.iter().map(|run| (run.name.as_str(), &run.table))))?
            }
            _ => output::text(&self.text())?,
        }
        self.failure().map_or(Ok(()), Err)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            let table = &run.table;
            let (time, queue) = (Nanos(table.duration_ns), table.queue_mean);
            text += &format!(
                "{}: {time}, {queue:.2} unfinished IOs on average, {:.2} of them in the device\n",
                run.name, table.device_queue_mean
            );
            text += &class_table(table);
            text.push('\n');
        }
        if let Some(device) = &self.device {
            text += &flash_statistics::text(device);
        }
        text
    }

    fn failure(&self) -> Option<anyhow::Error> {
        let failed: u64 = self.runs.iter().map(|run| run.table.failed_ios).sum();
        let first = self.runs.iter().find_map(|run| run.first_failure.as_deref())?;
        Some(anyhow!("{failed} IOs failed on {}, the first: {first}", self.target))
    }
}
