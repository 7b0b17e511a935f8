//! One measurement, from the open device to its report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use anyhow::{Context, Result};
use flashlab_base::Bytes;
use flashlab_bench::{Manifest, Settings};
use flashlab_device::Device;
use flashlab_report::Layout;
use flashlab_samples::{MANIFEST_VERSION, RunFolder};

use crate::progress::Bar;
use crate::target::{Opened, short_name};

/// Set when the person wants to stop: Ctrl-C, or SIGTERM.
pub fn interrupt() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot listen to signals")?;
    }
    Ok(flag)
}

/// Now, as RFC 3339 in UTC.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Makes the folder of a new run.
pub fn create(
    output: Option<PathBuf>,
    opened: &Opened,
    settings: Settings,
    plans: Vec<String>,
    prepared: Bytes,
) -> Result<(RunFolder, Manifest)> {
    let started = now();
    let path = output.unwrap_or_else(|| {
        let name = format!("{}-{}", started.replace(':', "-"), short_name(&settings.target));
        Path::new("flashlab-runs").join(name)
    });
    let mut manifest = Manifest {
        version: MANIFEST_VERSION,
        flashlab: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        started,
        identity: opened.device.identity(),
        consent: opened.consent.clone(),
        settings,
        plans,
        prepared_bytes: prepared.0,
        warnings: opened.warnings.clone(),
        overhead_ns_per_io: None,
        clock_ns_per_reading: None,
    };
    let folder = RunFolder::create(&path, &manifest)?;
    let overhead = flashlab_bench::overhead(&folder)?;
    manifest.overhead_ns_per_io = Some(overhead.ns_per_io);
    manifest.clock_ns_per_reading = Some(overhead.clock_ns_per_reading);
    folder.write_json("manifest.json", &manifest)?;
    Ok((folder, manifest))
}

/// Measures, and writes the report of whatever was measured.
pub fn measure(
    device: &mut dyn Device,
    folder: &RunFolder,
    manifest: &Manifest,
    interrupt: &AtomicBool,
    bar: &Bar,
    json: bool,
) -> Result<()> {
    let measured = flashlab_bench::bench(device, folder, manifest, interrupt, bar);
    bar.finish();
    let path = folder.path().display();
    if let Err(error) = measured {
        eprintln!("what was measured is in {path}; see it with: flashlab report {path}");
        eprintln!("go on with: flashlab bench --resume {path}");
        return Err(error.into());
    }
    report(folder, json)
}

/// Computes the findings and writes every document of the run's folder.
pub fn report(folder: &RunFolder, json: bool) -> Result<()> {
    let (findings, traces) = flashlab_bench::rebuild(folder.path())?;
    folder.write_json("summary.json", &findings)?;
    folder.write_json("traces.json", &traces)?;
    folder.write_text("report.html", &flashlab_report::html(&findings, &traces))?;
    if json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        let report = folder.path().join("report.html").display().to_string();
        print!("{}", flashlab_report::terminal(&findings, &layout(Some(report))));
    }
    Ok(())
}

/// How the terminal is laid out.
pub fn layout(report: Option<String>) -> Layout {
    use std::io::IsTerminal;
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Layout { colour, report, ..Layout::default() }
}
