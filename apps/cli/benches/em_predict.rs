//! How far `flashlab em predict`, which has not seen the run, is off: `cargo bench -p flashlab --bench em_predict [-- TARGET...]`.
//!
//! TARGET is a simulated device, or `scratch` for a scratch file here; without any, six simulated devices.
//!
//! # Method
//! 1. For each case `em predict` is run first, and `em run` after it: the models know nothing of the run.
//! 2. The error is printed of the PDAM, which is named in advance, and of the best of the six models, which only the run names.
//! 3. `em run` prints errors of its own, which are no predictions: its costs are measured beside the run.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const DEVICES: [&str; 6] =
    ["sim:deskstar", "sim:cloud-gp", "sim:qlc-sata", "sim:emmc", "sim:nvme-consumer", "sim:tlc-sata"];

/// Each algorithm with large and small memories, and records that divide no page.
const CASES: [&str; 19] = [
    "scan --elements 1048576 --memory 1MiB",
    "scan --elements 8388608 --memory 16MiB",
    "scan --elements 2097152 --memory 256KiB --record 12B",
    "scan --elements 1048576 --memory 1MiB --record 24B",
    "sort --elements 1048576 --memory 1MiB",
    "sort --elements 4194304 --memory 16MiB",
    "sort --elements 4194304 --memory 2MiB",
    "sort --elements 1048576 --memory 1MiB --record 24B",
    "sort --elements 1048576 --memory 2MiB --runs replacement",
    "search --elements 4194304 --queries 20000 --memory 4MiB",
    "search --elements 4194304 --queries 20000 --memory 4MiB --structure cached",
    "search --elements 1048576 --queries 10000 --memory 1MiB --structure binary",
    "rank --elements 200000 --memory 1MiB",
    "rank --elements 1000000 --memory 4MiB",
    "rank --elements 20000 --algorithm hopping",
    "rank --elements 100000 --algorithm hopping",
    "bfs --nodes 100000 --memory 4MiB",
    "bfs --nodes 50000 --memory 4MiB --algorithm mr",
    "bfs --graph random --nodes 50000 --memory 4MiB --algorithm mr",
];

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let targets = if named.is_empty() { DEVICES.map(str::to_owned).to_vec() } else { named };
    for target in &targets {
        let goal = if target == "scratch" { 0.25 } else { 0.15 };
        let (mut pdam_within, mut best_within) = (0, 0);
        println!("{target}: errors of the PDAM and of the best model");
        for case in CASES {
            let (pdam, best) = errors(case, target)?;
            pdam_within += u32::from(pdam.abs() <= goal);
            best_within += u32::from(best.1.abs() <= goal);
            println!("  {case}: {:+.1} %, {} {:+.1} %", pdam * 100.0, best.0, best.1 * 100.0);
        }
        let (count, goal) = (CASES.len(), goal * 100.0);
        println!("  within {goal} %: PDAM {pdam_within} of {count}, the best model {best_within} of {count}");
    }
    Ok(())
}

/// The error of the PDAM, and the best model with its error.
fn errors(case: &str, target: &str) -> Result<(f64, (String, f64)), Box<dyn Error>> {
    let predicted = flashlab(&["predict"], case, target)?;
    let folder = std::env::temp_dir().join(format!("flashlab-em-predict-{}", std::process::id()));
    let run = flashlab(&["run", "--output", &folder.display().to_string()], case, target);
    if Path::new(&folder).is_dir() {
        std::fs::remove_dir_all(&folder)?;
    }
    let time = run?["time_ns"].as_f64().ok_or("a run takes time")?;
    let models = predicted["predicted"].as_object().ok_or("models predict")?;
    let error = |model: &Value| Some(model["time_ns"].as_f64()? / time - 1.0);
    let errors = models.iter().filter_map(|(name, model)| Some((name.clone(), error(model)?)));
    let best = errors.min_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).ok_or("a model predicts")?;
    Ok((error(&models["pdam"]).ok_or("the PDAM predicts")?, best))
}

fn flashlab(action: &[&str], case: &str, target: &str) -> Result<Value, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
    command.arg("em").args(action).args(case.split(' ')).arg("--json");
    if target != "scratch" {
        command.arg(target);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{case} on {target}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
