//! Runs `bench` and `run` from their options to the finished measurement.
//!
//! 1. It checks the options.
//! 2. It prints how much it will write.
//! 3. It opens the target and measures it.

// The comments on options are help texts. There [ ] marks what may be left out; rustdoc would take it for a link.
#![allow(rustdoc::broken_intra_doc_links)]

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Identity, Target};
use flashlab_bench::{Settings, State, Thoroughness, expected_written, most_written};
use flashlab_samples::FolderKind;

use crate::arguments::{PrintOptions, TargetOptions};
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::measurement::Measurement;
use crate::progress::Bar;
use crate::selection::Selection;
use crate::target::{self, Candidate, Opening};
use crate::{run_folder, scratch, unwritten, viewed};

/// The options of the subcommands that run plans: `bench` and `run`.
#[derive(Args)]
pub struct MeasureOptions {
    /// A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]
    pub target: Option<Target>,
    #[command(flatten)]
    on: TargetOptions,
    /// How many times each experiment is measured
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Serve a page on which every IO can be looked at while it is measured; its address is printed, and it ends with the measurement
    #[arg(long)]
    view: bool,
    #[command(flatten)]
    print: PrintOptions,
}

impl MeasureOptions {
    /// The settings of these options, as far as they do not depend on the target.
    pub fn settings(&self, thoroughness: Thoroughness, state: State) -> Settings {
        Settings { state, seed: self.on.seed, repetitions: self.repetitions, ..Settings::new(thoroughness) }
    }
}

/// Measures the target, or a scratch file.
pub fn measure(options: MeasureOptions, selection: Selection, settings: Settings) -> Result<()> {
    run_folder::check_output(options.on.output.as_deref())?;
    options.print.expectations.check_names(&selection.experiments(&settings))?;
    match options.target.clone() {
        Some(target) => measure_existing(&target, options, selection, settings),
        None => measure_scratch(options, selection, settings),
    }
}

fn measure_existing(
    target: &Target,
    options: MeasureOptions,
    selection: Selection,
    mut settings: Settings,
) -> Result<()> {
    let opening = Opening::new(options.on.engine, selection.depth())?;
    let candidate = Candidate::find(target, selection.writes(&settings), &options.on.consent)?;
    let identity = candidate.identity();
    if candidate.is_zoned() && matches!(settings.state, State::Random | State::Steady) {
        bail!(Usage(format!(
            "{target} has zones, which are written in order and reset as a whole, and cannot be brought to the random \
             state: give --state none, and with flashlab run a plan that only reads or writes in order"
        )));
    }
    target::check_medium(target, &identity)?;
    settings.target = target::absolute(target)?.to_string();
    settings.target_size = options.on.size.unwrap_or_else(|| target::whole_blocks(&identity));
    if settings.target_size > identity.capacity {
        let size = settings.target_size.exact();
        bail!(Usage(format!("--size {size}: {target} has {} only", identity.capacity)));
    }
    selection.check(&settings, &identity)?;
    tell!("measuring {} of {target}", settings.target_size);
    announce(&settings, &selection, &identity, Bytes::ZERO, target.is_simulated());
    let mut opened = candidate.open(opening)?;
    if let Some(remedy) = unwritten::remedy(settings.state) {
        unwritten::warn(&mut opened, target, settings.target_size, settings.seed, remedy)?;
    }
    if options.view && !target.is_simulated() {
        opened.warnings.push(watched());
    }
    let output = options.on.output.as_deref();
    let measurement =
        Measurement::begin(FolderKind::Bench, &mut opened, selection, settings, Bytes::ZERO, output)?;
    let _page = options.view.then(|| viewed::watch(measurement.folder().path())).transpose()?;
    measurement.measure(&mut opened.device, &options.print)
}

/// The warning of figures that were measured beside a page: kind and message.
fn watched() -> (String, String) {
    let message = "measured with --view: while a page is open, this program reads the recorded samples once a second, at the lowest CPU \
                   priority; if no CPU is free, that may raise latencies";
    ("watched".to_owned(), message.to_owned())
}

fn measure_scratch(options: MeasureOptions, selection: Selection, mut settings: Settings) -> Result<()> {
    options.on.consent.check_unneeded()?;
    let opening = Opening::new(options.on.engine, selection.depth())?;
    let directory = scratch::directory(options.on.scratch.directory.as_deref())?;
    let size = options.on.size.unwrap_or(scratch::SIZE).round_up(scratch::UNIT);
    (settings.target, settings.target_size) = (Settings::SCRATCH.to_owned(), size);
    selection.check(&settings, &scratch::identity(size))?;
    flashlab_host::check_room(&directory, size)?;
    scratch::announce(size, &directory, options.on.scratch.keep_file);
    announce(&settings, &selection, &scratch::identity(size), size, false);
    let interrupt = interrupt()?;
    let scratch = scratch::make(&directory, size, settings.seed, &interrupt, &Bar::new())?;
    let mut opened = scratch::open(&scratch, opening)?;
    if options.view {
        opened.warnings.push(watched());
    }
    let measurement = Measurement::begin(
        FolderKind::Bench,
        &mut opened,
        selection,
        settings,
        size,
        options.on.output.as_deref(),
    )?;
    let page = options.view.then(|| viewed::watch(measurement.folder().path())).transpose()?;
    let measured = measurement.measure(&mut opened.device, &options.print);
    drop(page);
    scratch::end(scratch, options.on.scratch.keep_file)?;
    measured
}

/// Prints how much will be written, before anything is written.
pub fn announce(
    settings: &Settings,
    selection: &Selection,
    identity: &Identity,
    prepared: Bytes,
    is_simulated: bool,
) {
    let block = identity.logical_block.unwrap_or(Bytes(512));
    let Some(most) = most_written(&selection.plans, settings, block) else {
        tell!(
            "a pattern without an IOCount writes: the amount depends on how much the device takes in the time"
        );
        return;
    };
    let most = Bytes(most.0.saturating_add(prepared.0));
    let expected = expected_written(&selection.plans, settings, block) + prepared;
    let both = |show: &dyn Fn(Bytes) -> String| match show(most) {
        bound if expected == most => format!("at most {bound}"),
        bound => format!("about {}, at most {bound}", show(expected)),
    };
    let endurance = match identity.rated_endurance {
        _ if is_simulated => "to a simulated device".to_owned(),
        Some(rated) if rated > Bytes::ZERO => {
            let share = |bytes: Bytes| format!("{:.4} %", bytes.0 as f64 / rated.0 as f64 * 100.0);
            format!("{} of its rated endurance of {rated}", both(&share))
        }
        _ => "the device's rated endurance is not known".to_owned(),
    };
    let run = if settings.methodology { format!("{} run; ", settings.thoroughness) } else { String::new() };
    match most {
        Bytes::ZERO => tell!("{run}nothing will be written to it"),
        _ => tell!("{run}{} will be written ({endurance})", both(&|bytes| bytes.to_string())),
    }
}
