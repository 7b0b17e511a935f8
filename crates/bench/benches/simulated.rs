//! Runs all of uFLIP on a simulated device: the nine micro-benchmarks with Table 1's values, three
//! repetitions and the complete methodology. Every IO is recorded, and the findings are computed from the
//! files.
//!
//!     cargo bench -p flashlab-bench --bench simulated -- [NAME]      (zeus by default)

use std::error::Error;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use flashlab_bench::{BenchManifest, RunRecord, Settings, Silent, Thoroughness, bench, rebuild};
use flashlab_device::Device;
use flashlab_plan::Plan;
use flashlab_samples::{FolderKind, Manifest, RunFolder};

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds --bench.
    let name = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let name = name.unwrap_or_else(|| "zeus".to_owned());
    let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == name);
    let mut device = profile.ok_or("no simulated device has this name")?.device()?;
    let manifest = manifest(&mut device);
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("run");
    let folder = RunFolder::create(&path, &manifest)?;

    let begin = Instant::now();
    bench(&mut device, &folder, &manifest, &AtomicBool::new(false), &Silent)?;
    let measured = begin.elapsed().as_secs_f64();
    let virtual_time = device.now().as_secs_f64();
    let begin = Instant::now();
    let (findings, _) = rebuild(&path)?;
    let rebuilt = begin.elapsed().as_secs_f64();

    let records: Vec<RunRecord> = folder.runs()?;
    let mut ios = 0;
    for record in &records {
        folder.each_batch(record.run, |columns| ios += columns.len())?;
    }
    let bytes = fs::read_dir(folder.samples())?
        .map(|file| Ok(file?.metadata()?.len()))
        .sum::<std::io::Result<u64>>()?;
    println!("sim:{name}, nine micro-benchmarks, three repetitions, with the methodology");
    println!("  {} runs, {ios} IOs, {virtual_time:.0} s of the device's time", records.len());
    println!("  measured in {measured:.1} s: {:.2} million IOs a second", ios as f64 / measured / 1e6);
    println!(
        "  findings from the files in {rebuilt:.1} s: {} micro-benchmarks",
        findings.micro_benchmarks.len()
    );
    println!("  Parquet: {bytes} bytes, {:.2} an IO over all patterns", bytes as f64 / ios as f64);
    println!("  peak memory: {}", peak_memory());
    Ok(())
}

fn manifest(device: &mut impl Device) -> BenchManifest {
    let identity = device.identity();
    let settings = Settings {
        target: identity.target.clone(),
        target_size: identity.capacity,
        ..Settings::new(Thoroughness::Full)
    };
    let plan = |name: &str| Plan::builtin(name).expect("a shipped plan").to_toml();
    BenchManifest {
        plans: Plan::MICRO_BENCHMARKS.map(plan).into(),
        ..Manifest::new(FolderKind::Bench, settings, identity, "simulated")
    }
}

/// The peak memory of this process, as the kernel reports it.
fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "not known".to_owned(), |value| value.trim().to_owned())
}
