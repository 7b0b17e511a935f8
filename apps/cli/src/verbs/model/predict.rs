//! `flashlab model predict`: what a run of some requests will show.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::findings::Regime;
use flashlab_base::Bytes;
use flashlab_model::{DeviceModel, Prediction, WorkloadRequest};
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
    /// Request sizes; the page of append-and-pack, the block of external-memory
    #[arg(long, alias = "size", value_name = "SIZE,...", required = true, value_delimiter = ',', value_parser = arguments::size)]
    io_size: Vec<Bytes>,
    /// Requests in flight
    #[arg(long, value_name = "N,...", default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: Vec<u32>,
    /// The share of random requests that write, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    write_share: Option<f64>,
    /// The data on the device, of random writes: where fills were measured
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    filled: Option<Bytes>,
    /// The regime of writes, of a model that has two: sustained if not given
    #[arg(long, value_enum)]
    regime: Option<RegimeChoice>,
    /// The distance from the end of the request before, of random requests on a hard disk
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = arguments::size)]
    distance: Vec<Bytes>,
    /// What is predicted: requests, or what the model of one mechanism makes of the device's costs
    #[arg(long, value_enum, default_value_t = Mechanism::Requests)]
    of: Mechanism,
    /// Of append-and-pack: the share of random reads among the IOs, from 0 to 1
    #[arg(long, value_name = "SHARE,...", default_value = "0.5,0.75,0.9", value_delimiter = ',')]
    read_share: Vec<f64>,
    /// Of append-and-pack: the physical capacity over the logical one, from 1 on
    #[arg(long, value_name = "ALPHA,...", default_value = "2,3,4", value_delimiter = ',')]
    alpha: Vec<f64>,
    /// Of external-memory: what the algorithm reads
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = arguments::size)]
    read: Bytes,
    /// Of external-memory: what it writes
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = arguments::size)]
    written: Bytes,
    /// Of external-memory: the block of writes, where it differs from that of reads
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    write_block: Option<Bytes>,
    /// Of collection: the write amplification, from 1 on
    #[arg(long, value_name = "WA,...", default_value = "1,2,3", value_delimiter = ',')]
    write_amplification: Vec<f64>,
    #[command(flatten)]
    table: TableOptions,
}

/// A regime that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RegimeChoice {
    /// Writes after an idle time, which the device buffers
    Burst,
    /// What lasts
    Sustained,
}

impl From<RegimeChoice> for Regime {
    fn from(choice: RegimeChoice) -> Regime {
        match choice {
            RegimeChoice::Burst => Regime::Burst,
            RegimeChoice::Sustained => Regime::Sustained,
        }
    }
}

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mechanism {
    /// Response time and throughput of requests
    Requests,
    /// The speed-up of random writes that are appended to a log and packed
    AppendAndPack,
    /// An algorithm that reads x blocks and writes y: x + c_W y
    ExternalMemory,
    /// Random writes under garbage collection: T0 (1 + c (WA - 1))
    Collection,
}

/// A figure of a mechanism's model.
#[derive(Serialize)]
struct MechanismRow {
    size_bytes: u64,
    parameter: String,
    quantity: &'static str,
    unit: &'static str,
    estimate: f64,
    low: f64,
    high: f64,
}

fn class(text: &str) -> Result<ThroughputClass, String> {
    ThroughputClass::named(text).ok_or_else(|| "there are: sr, rr, sw, rw".to_owned())
}

/// A prediction in the units of documents.
#[derive(Serialize)]
struct PredictionRow {
    class: &'static str,
    regime: Option<Regime>,
    size_bytes: u64,
    depth: u32,
    write_share: Option<f64>,
    filled_bytes: Option<u64>,
    distance_bytes: Option<u64>,
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
        if self.of != Mechanism::Requests {
            return self.show_mechanism(&self.mechanism(&model)?);
        }
        let distances: Vec<Option<Bytes>> = match &self.distance[..] {
            [] => vec![None],
            given => given.iter().copied().map(Some).collect(),
        };
        let mut rows = Vec::new();
        for &size in &self.io_size {
            for &depth in &self.depth {
                for &distance in &distances {
                    let request = WorkloadRequest {
                        class: self.class,
                        size,
                        depth,
                        write_share: self.write_share,
                        filled: self.filled,
                        distance,
                        regime: self.regime.map(Regime::from).filter(|_| self.class.writes()),
                    };
                    let regime = request.regime.or_else(|| model.fitted_to.regime(request.class));
                    rows.push(row(request, regime, model.predict(request)?));
                }
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

impl Predict {
    fn mechanism(&self, model: &DeviceModel) -> Result<Vec<MechanismRow>> {
        check_from("--alpha", 1.0, f64::MAX, &self.alpha)?;
        check_from("--read-share", 0.0, 1.0, &self.read_share)?;
        check_from("--write-amplification", 1.0, f64::MAX, &self.write_amplification)?;
        let mut rows = Vec::new();
        for &size in &self.io_size {
            let mut add = |parameter: &str, quantity, unit, of: Interval| {
                let Interval { estimate, low, high } = of;
                let parameter = parameter.to_owned();
                rows.push(MechanismRow {
                    size_bytes: size.0,
                    parameter,
                    quantity,
                    unit,
                    estimate,
                    low,
                    high,
                });
            };
            let us = |ns: Interval| ns.map(|ns| ns / 1e3);
            match self.of {
                Mechanism::Requests => {}
                Mechanism::AppendAndPack => {
                    for &alpha in &self.alpha {
                        for &reads in &self.read_share {
                            let [speed_up, _] = model.append_and_pack(size, reads, alpha)?;
                            let parameter = format!("alpha {alpha}, {} reads", show::per_cent(reads));
                            add(&parameter, "speed-up", "x", speed_up);
                        }
                        let [_, write] = model.append_and_pack(size, 0.5, alpha)?;
                        add(&format!("alpha {alpha}"), "random write", "us", us(write));
                    }
                }
                Mechanism::ExternalMemory => {
                    let blocks = [size, self.write_block.unwrap_or(size)];
                    let [seconds, write_cost] = model.external_memory([self.read, self.written], blocks)?;
                    let parameter = format!("{} read, {} written", self.read, self.written);
                    add(&parameter, "time", "s", seconds);
                    add(&format!("write of {}", blocks[1]), "c_W", "reads", write_cost);
                }
                Mechanism::Collection => {
                    for &amplification in &self.write_amplification {
                        let time = us(model.collection(size, amplification)?);
                        add(&format!("write amplification {amplification}"), "random write", "us", time);
                    }
                }
            }
        }
        Ok(rows)
    }

    fn show_mechanism(&self, rows: &[MechanismRow]) -> Result<()> {
        if self.table.json {
            return output::json(&rows);
        }
        if self.table.csv {
            return csv_table::print(&rows);
        }
        let cells = |row: &MechanismRow| {
            let MechanismRow { size_bytes, parameter, quantity, unit, estimate, low, high } = row;
            let size = Bytes(*size_bytes).to_string();
            let range = format!("{low:.3} - {high:.3}");
            vec![size, parameter.clone(), (*quantity).to_owned(), format!("{estimate:.3} {unit}"), range]
        };
        let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
        output::text(&show::table(&["size", "of", "what", "predicted", "from - to"], &cells))
    }
}

/// Refuses values outside a range.
fn check_from(option: &str, least: f64, most: f64, values: &[f64]) -> Result<()> {
    let Some(wrong) = values.iter().find(|value| !(least..=most).contains(*value)) else { return Ok(()) };
    let range = if most == f64::MAX { format!("{least} or more") } else { format!("from {least} to {most}") };
    Err(Usage(format!("{option} {wrong}: must be {range}")).into())
}

fn row(request: WorkloadRequest, regime: Option<Regime>, predicted: Prediction) -> PredictionRow {
    let p50 = predicted.p50_ns.map(|p50| p50.map(|ns| ns / 1e3));
    PredictionRow {
        class: request.class.short_name(),
        regime,
        size_bytes: request.size.0,
        depth: request.depth,
        write_share: request.write_share,
        filled_bytes: request.filled.map(|filled| filled.0),
        distance_bytes: request.distance.map(|distance| distance.0),
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
    let mut class = match row.write_share {
        Some(share) => format!("{} with {} writes", row.class, show::per_cent(share)),
        None => row.class.to_owned(),
    };
    if let Some(regime) = row.regime {
        class += &format!(" {}", regime.name());
    }
    if let Some(filled) = row.filled_bytes {
        class += &format!(" with {} of data", Bytes(filled));
    }
    if let Some(distance) = row.distance_bytes {
        class += &format!(" at a distance of {}", Bytes(distance));
    }
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
