//! `flashlab model predict`: what a run of some requests will show.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use flashlab_base::Bytes;
use flashlab_model::{Prediction, WorkloadRequest};
use flashlab_report::units;
use flashlab_sim::profile::ThroughputClass;
use serde::Serialize;

use crate::arguments::{self, TableOptions};
use crate::exit::Usage;
use crate::verbs::model::{show, source};
use crate::{csv_table, output};

/// Predict response times and throughput with a model, each with its interval
#[derive(Args)]
pub struct Predict {
    /// A model: the folder of flashlab model fit, its model.json, or a run to fit
    model: PathBuf,
    /// Sequential or random reads or writes: sr, rr, sw, rw
    #[arg(long, value_name = "CLASS", default_value = "rr", value_parser = class)]
    class: ThroughputClass,
    /// WorkloadRequest sizes
    #[arg(long, value_name = "SIZE,...", required = true, value_delimiter = ',', value_parser = arguments::size)]
    size: Vec<Bytes>,
    /// Requests in flight
    #[arg(long, value_name = "N,...", default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    depth: Vec<u32>,
    /// The share of random requests that write, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    write_share: Option<f64>,
    #[command(flatten)]
    table: TableOptions,
}

fn class(text: &str) -> Result<ThroughputClass, String> {
    ThroughputClass::named(text).ok_or_else(|| "there are: sr, rr, sw, rw".to_owned())
}

/// A prediction in the units of documents.
#[derive(Serialize)]
struct PredictionRow {
    class: &'static str,
    size_bytes: u64,
    depth: u32,
    write_share: Option<f64>,
    p50_us: Option<f64>,
    p50_us_low: Option<f64>,
    p50_us_high: Option<f64>,
    ios_per_s: f64,
    bytes_per_s: f64,
    bytes_per_s_low: f64,
    bytes_per_s_high: f64,
    equation: &'static str,
}

impl Predict {
    /// Predicts each size at each depth.
    pub fn run(self) -> Result<()> {
        if let Some(share) = self.write_share.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(Usage(format!("--write-share {share}: must be from 0 to 1")).into());
        }
        let model = source::model(&self.model)?;
        let mut rows = Vec::new();
        for &size in &self.size {
            for &depth in &self.depth {
                let request =
                    WorkloadRequest { class: self.class, size, depth, write_share: self.write_share };
                rows.push(row(request, model.predict(request)?));
            }
        }
        if self.table.json {
            return output::json(&rows);
        }
        if self.table.csv {
            return csv_table::print(&rows);
        }
        let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
        let headings =
            ["class", "size", "depth", "p50", "p50 from - to", "throughput", "throughput from - to"];
        let mut equations: Vec<&str> = rows.iter().map(|row| row.equation).collect();
        equations.sort_unstable();
        equations.dedup();
        let text = format!("{}\nby {}\n", show::table(&headings, &cells), equations.join(" and "));
        output::text(&text)
    }
}

fn row(request: WorkloadRequest, predicted: Prediction) -> PredictionRow {
    let p50 = predicted.p50_ns.map(|p50| p50.map(|ns| ns / 1e3));
    PredictionRow {
        class: request.class.short_name(),
        size_bytes: request.size.0,
        depth: request.depth,
        write_share: request.write_share,
        p50_us: p50.map(|p50| p50.estimate),
        p50_us_low: p50.map(|p50| p50.low),
        p50_us_high: p50.map(|p50| p50.high),
        ios_per_s: predicted.ios_per_s.estimate,
        bytes_per_s: predicted.bytes_per_s.estimate,
        bytes_per_s_low: predicted.bytes_per_s.low,
        bytes_per_s_high: predicted.bytes_per_s.high,
        equation: predicted.equation,
    }
}

fn cells(row: &PredictionRow) -> Vec<String> {
    let time = |us: Option<f64>| us.map_or(units::UNKNOWN.to_owned(), show::micros);
    let class = match row.write_share {
        Some(share) => format!("{} with {} writes", row.class, show::per_cent(share)),
        None => row.class.to_owned(),
    };
    vec![
        class,
        Bytes(row.size_bytes).to_string(),
        row.depth.to_string(),
        time(row.p50_us),
        format!("{} - {}", time(row.p50_us_low), time(row.p50_us_high)),
        units::rate(row.bytes_per_s),
        format!("{} - {}", units::rate(row.bytes_per_s_low), units::rate(row.bytes_per_s_high)),
    ]
}
