//! `flashlab model fit`: the throughput model of what a run recorded.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use flashlab_base::Bytes;
use flashlab_model::{Linear, Measured, PerformanceModel, run_points};
use flashlab_sim::profile::ThroughputClass;
use serde_json::json;

use crate::arguments::JsonOption;
use crate::output;

/// Fit the throughput model T = A + n B to what a run recorded
#[derive(Args)]
pub struct Fit {
    /// The folder of a run of bench or run that varied the request size
    run: PathBuf,
    #[command(flatten)]
    json: JsonOption,
}

impl Fit {
    /// Fits each class and prints its parameters, or why the model does not hold.
    pub fn run(self) -> Result<()> {
        let points = run_points(&self.run)?;
        let (mut document, mut text) = (serde_json::Map::new(), String::new());
        for class in ThroughputClass::ALL {
            let plain =
                points.iter().filter(|point| point.workload.is_plain() && point.workload.class == class);
            let medians: Vec<Measured<Bytes>> =
                plain.map(|point| Measured { input: point.workload.size, figure: point.p50_ns }).collect();
            match Linear::fit(&medians) {
                Ok(line) => {
                    let (a_us, b_us_per_kb) = (line.a_ns.estimate / 1e3, line.b_ns_per_byte.estimate * 1.024);
                    text += &format!("{:<17} A {a_us:.1} us, B {b_us_per_kb:.3} us/KB\n", class.words());
                    let (r2, p_value) = (line.r2, line.p_value);
                    let line = json!({"a_us": a_us, "b_us_per_kb": b_us_per_kb, "r2": r2, "p_value": p_value, "holds": true});
                    document.insert(class.short_name().to_owned(), line);
                }
                Err(error) => {
                    text += &format!("{:<17} {error}\n", class.words());
                    let line = json!({"holds": false, "reason": error.to_string()});
                    document.insert(class.short_name().to_owned(), line);
                }
            }
        }
        if self.json.json { output::json(&document) } else { output::text(&text) }
    }
}
