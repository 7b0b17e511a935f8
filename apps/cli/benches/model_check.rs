//! How often a measurement lies in the interval that `flashlab model` predicts for it, by class:
//! `cargo bench -p flashlab --bench model_check [-- --seed SEED NAME...]`.
//!
//! NAME is a device of the zoo; without any, all of them but the drives of SSD-iq. SEED is that of `fit` and `check`, 1 if not given.
//!
//! # Method
//! 1. For each device `flashlab model fit` measures it, and `flashlab model check` measures what was not fitted.
//! 2. For each class it is counted how many kinds of requests have a throughput within the predicted interval, and how far those are off
//!    that have not.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;

use flashlab_reproduce::REAL_DRIVES;
use serde_json::Value;

/// Of these, 2 GiB are measured: conditioning them whole takes minutes.
const LARGE: [&str; 7] =
    ["hama", "emmc", "tlc-sata", "nvme-consumer", "nvme-enterprise", "cloud-gp", "cloud-local"];
/// The kinds of requests of a class: how many are within, how many there are, and what the others are off by.
#[derive(Default)]
struct Coverage {
    within: usize,
    kinds: usize,
    missed: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo gives `--bench` to every bench.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut seed, mut named) = ("1".to_owned(), Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => seed = words.next().ok_or("--seed needs a number")?,
            _ => named.push(word),
        }
    }
    let all = flashlab_sim::zoo().into_iter().map(|profile| profile.name);
    // `flashlab reproduce ssd-iq` judges those.
    let is_real = |name: &String| REAL_DRIVES.iter().any(|drive| drive.zoo == name);
    let all: Vec<String> = all.filter(|name| !is_real(name)).collect();
    let mut coverage: BTreeMap<String, Coverage> = BTreeMap::new();
    for name in if named.is_empty() { &all } else { &named } {
        eprintln!("{name}");
        for row in checked(name, &seed)? {
            count(&mut coverage, name, &row).ok_or("a row of model check has its figures")?;
        }
    }
    for (class, Coverage { within, kinds, missed }) in coverage {
        println!("{class}: {within} of {kinds} ({:.1} %)", 100.0 * within as f64 / kinds as f64);
        for missed in missed {
            println!("    {missed}");
        }
    }
    Ok(())
}

/// What `model check` says of a device after `model fit`.
fn checked(name: &str, seed: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("flashlab-model-check-{}", std::process::id()));
    let (target, model) = (format!("sim:{name}"), folder.display().to_string());
    let size: &[&str] = if LARGE.contains(&name) { &["--size", "2GiB"] } else { &[] };
    let options = [&["--seed", seed], size].concat();
    let fitted = flashlab(&["model", "fit", &target, "--output", &model], &options);
    let checked = fitted.and_then(|_| flashlab(&["model", "check", &model, &target, "--json"], &options));
    if Path::new(&folder).is_dir() {
        std::fs::remove_dir_all(&folder)?;
    }
    let mut checked: Value = serde_json::from_slice(&checked?)?;
    Ok(checked["rows"].as_array_mut().map(std::mem::take).ok_or("model check prints rows")?)
}

fn count(coverage: &mut BTreeMap<String, Coverage>, name: &str, row: &Value) -> Option<()> {
    let varied = row["varied"].as_str()?;
    let class = if varied == "size" { row["class"].as_str()? } else { varied };
    let measured = row["measured_bytes_per_s"].as_f64()?;
    let predicted = row["predicted_bytes_per_s"].as_array()?;
    let [estimate, low, high] = [0, 1, 2].map(|end| predicted.get(end).and_then(Value::as_f64));
    // JSON has no infinity.
    let (estimate, low, high) = (estimate?, low?, high.unwrap_or(f64::INFINITY));
    let of_class = coverage.entry(class.to_owned()).or_default();
    of_class.kinds += 1;
    if row["in_interval"].as_bool()? {
        of_class.within += 1;
        return Some(());
    }
    let per_cent = |of: f64| (of / measured - 1.0) * 100.0;
    of_class.missed.push(format!(
        "{name}, {} B at depth {}: {:+.2} % off, interval {:+.2} to {:+.2} %",
        row["size_bytes"],
        row["depth"],
        per_cent(estimate),
        per_cent(low),
        per_cent(high)
    ));
    Some(())
}

fn flashlab(words: &[&str], options: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = Command::new(env!("CARGO_BIN_EXE_flashlab")).args(words).args(options).output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(output.stdout)
}
