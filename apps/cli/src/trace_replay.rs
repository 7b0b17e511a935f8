//! Replays a trace on a device: its options, how it is fitted to the device, and what is announced.

use std::path::Path;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Operation};
use flashlab_device::Geometry;
use flashlab_engine::Pace;
use flashlab_report::shell_word;
use flashlab_trace::{Fit, Fitted, Trace, TraceMisfit};

use crate::class_document::{ClassifiedRun, TraceFacts};
use crate::class_runner::ClassRunner;
use crate::exit::Usage;
use crate::traces::{self, TraceFormat};

/// How many IOs are in flight if the user gives no number.
pub const DEPTH: u32 = 32;

/// The options of every verb that replays a trace.
#[derive(Args)]
pub struct ReplayOptions {
    /// The trace's format; recognised by its first line if not given
    #[arg(long, value_enum)]
    format: Option<TraceFormat>,
    /// Only the IOs of this source: a device, file or process, as the trace names it
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// How many times as fast the IOs arrive as they did
    #[arg(long, value_name = "FACTOR", value_parser = speed, default_value = "1x", conflicts_with = "as_fast_as_possible")]
    speed: f64,
    /// Replay without regard to when IOs arrived: always --depth of them in flight
    #[arg(long)]
    as_fast_as_possible: bool,
    /// How many IOs are in flight as fast as possible, or at most in real time; 32, or what the device takes, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: Option<u32>,
    /// What becomes of IOs behind the device's end, which are an error otherwise
    #[arg(long, value_enum)]
    fit: Option<FitChoice>,
}

/// How the offsets of a trace are made to fit a smaller device.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FitChoice {
    /// Offsets modulo the capacity
    Wrap,
    /// All offsets scaled by one factor
    Scale,
}

/// Parses a speed: `2x`, `0.5x` or `2`.
fn speed(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(speed) if (1e-3..=1e6).contains(&speed) => Ok(speed),
        _ => Err("must be a factor from 0.001x to 1000000x, as 2x or 0.5x".to_owned()),
    }
}

/// A trace from a file, and how to replay it.
pub struct TraceReplay<'a> {
    file: &'a Path,
    options: &'a ReplayOptions,
    pub trace: Trace,
}

impl<'a> TraceReplay<'a> {
    /// Reads the trace.
    pub fn read(file: &'a Path, options: &'a ReplayOptions) -> Result<TraceReplay<'a>> {
        let mut trace = traces::read(file, options.format)?;
        if let Some(name) = &options.source {
            let sources = some_of(&trace.sources);
            trace = trace.of_source(name).ok_or_else(|| {
                Usage(format!(
                    "--source {name}: {} has no IO of it; its sources are {sources}",
                    file.display()
                ))
            })?;
        }
        Ok(TraceReplay { file, options, trace })
    }

    /// Whether the trace writes to the device.
    pub fn writes(&self) -> bool {
        self.trace.ios.iter().any(|io| matches!(io.operation, Operation::Write | Operation::Discard))
    }

    /// Replays it on the device, or on its first `size` bytes. `larger` says how to get a larger device.
    pub fn run(
        mut self,
        runner: &mut ClassRunner<'_>,
        target: &str,
        size: Option<Bytes>,
        larger: &str,
    ) -> Result<(TraceFacts, ClassifiedRun)> {
        let geometry = runner.geometry();
        let used = match size {
            Some(size) if size > geometry.capacity => {
                bail!(Usage(format!("--size {}: {target} has {} only", size.exact(), geometry.capacity)));
            }
            Some(size) => size,
            None => geometry.capacity,
        };
        let file = self.file.display().to_string();
        let fit = match self.options.fit {
            None => Fit::Exact,
            Some(FitChoice::Wrap) => Fit::Wrap,
            Some(FitChoice::Scale) => Fit::Scale,
        };
        let fitted =
            self.trace.fit(used, geometry.block, fit).map_err(|misfit| misfits(&file, &misfit, larger))?;
        let pace = self.pace(geometry);
        self.announce(&fitted, pace, target);
        let run = runner.replay(&self.trace, pace)?;
        let (ios, Fitted { widened, moved }) = (self.trace.ios.len(), fitted);
        let Trace { sources, left_out, .. } = self.trace;
        Ok((TraceFacts { file, ios, sources, widened_ios: widened, moved_ios: moved, left_out }, run))
    }

    fn pace(&self, geometry: Geometry) -> Pace {
        match self.options.as_fast_as_possible {
            true => Pace::AsFastAsPossible { depth: self.options.depth.unwrap_or(DEPTH.min(geometry.depth)) },
            false => Pace::Recorded { speed: self.options.speed },
        }
    }

    /// Prints what will be replayed, before it begins.
    fn announce(&self, fitted: &Fitted, pace: Pace, target: &str) {
        let trace = &self.trace;
        let sum = |operation: Operation| {
            let sizes = trace.ios.iter().filter(|io| io.operation == operation).map(|io| io.size.0);
            Bytes(sizes.fold(0, u64::saturating_add))
        };
        let pace = match pace {
            Pace::Recorded { speed: 1.0 } => "as they arrived".to_owned(),
            Pace::Recorded { speed } => format!("arriving {speed} times as fast"),
            Pace::AsFastAsPossible { depth } => format!("{depth} in flight"),
        };
        let (ios, target) = (trace.ios.len(), shell_word(target));
        let (read, written) = (sum(Operation::Read), sum(Operation::Write));
        tell!("{ios} IOs, {pace}, on {target}: {read} to read, {written} to write");
        if trace.sources.len() > 1 && self.options.source.is_none() {
            let sources = some_of(&trace.sources);
            tell!(
                "its {} sources share the device (--source takes one of them): {sources}",
                trace.sources.len()
            );
        }
        for (what, count) in &trace.left_out {
            tell!("left out, because it is no read, write, flush or discard: {count} {what}");
        }
        if fitted.widened > 0 {
            tell!(
                "IOs that began or ended within a block of the device, and were widened to whole ones: {}",
                fitted.widened
            );
        }
        if fitted.moved > 0 {
            tell!("IOs that were moved into the device: {}", fitted.moved);
        }
    }
}

/// The first names, and the number of the others.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}

fn misfits(file: &str, misfit: &TraceMisfit, larger: &str) -> anyhow::Error {
    let line = misfit.io.line;
    let advice = match misfit.io.size > misfit.capacity {
        true => "take a larger device".to_owned(),
        false => format!("give --fit wrap or --fit scale, or {larger}"),
    };
    Usage(format!("{file}:{line}: {misfit}; {advice}")).into()
}
