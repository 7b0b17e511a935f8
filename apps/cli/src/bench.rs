//! `flashlab bench` and `flashlab run`: from the command line to a run.

use anyhow::{Context, Result, bail};
use flashlab_base::{Bytes, Identity, ProfileName, Target};
use flashlab_bench::{Settings, State, Thoroughness, expected_written, most_written};

use crate::exit::Usage;
use crate::progress::Bar;
use crate::selection::Selection;
use crate::session::{self, Session};
use crate::target::{Candidate, Opening, parsed};
use crate::{args, resume, scratch};

/// `flashlab bench`.
pub fn bench(arguments: args::Bench) -> Result<()> {
    if let Some(run) = &arguments.resume {
        return resume::resume(run, &arguments.target, arguments.common.json);
    }
    let thoroughness = match (arguments.full, arguments.quick, &arguments.target.target) {
        (true, _, _) | (false, false, Some(_)) => Thoroughness::Full,
        _ => Thoroughness::Quick,
    };
    let selection = Selection::micro_benchmarks(&arguments.only)?;
    let settings = settings(&arguments.common, thoroughness, arguments.state);
    measure(&arguments.target, arguments.common, selection, settings)
}

/// `flashlab run`.
pub fn run(arguments: args::Run) -> Result<()> {
    let thoroughness = if arguments.quick { Thoroughness::Quick } else { Thoroughness::Full };
    let selection = Selection::named(&arguments.plan)?;
    let settings =
        Settings { methodology: false, ..settings(&arguments.common, thoroughness, arguments.state) };
    measure(&arguments.target, arguments.common, selection, settings)
}

fn settings(common: &args::Common, thoroughness: Thoroughness, state: args::State) -> Settings {
    let state = match state {
        args::State::Random => State::Random,
        args::State::Sequential => State::Sequential,
        args::State::None => State::None,
    };
    Settings { state, seed: common.seed, repetitions: common.repetitions, ..Settings::new(thoroughness) }
}

fn measure(
    target: &args::Target,
    common: args::Common,
    selection: Selection,
    settings: Settings,
) -> Result<()> {
    session::check_output(common.output.as_deref())?;
    match &target.target {
        Some(name) => measure_existing(name, target, common, selection, settings),
        None => measure_scratch(target, common, selection, settings),
    }
}

fn measure_existing(
    name: &str,
    target: &args::Target,
    common: args::Common,
    selection: Selection,
    mut settings: Settings,
) -> Result<()> {
    let opening = Opening::new(target, selection.depth())?;
    let candidate = Candidate::find(name, selection.writes(&settings), target)?;
    let identity = candidate.identity();
    if candidate.is_zoned() && settings.state == State::Random {
        bail!(Usage(format!(
            "{name} has zones, which are written in order and reset as a whole, and cannot be brought to the random \
             state: give --state none, and with flashlab run a plan that only reads or writes in order"
        )));
    }
    if identity.capacity == Bytes::ZERO {
        bail!(Usage(format!("{name} is empty: give a device with a medium in it, or a file with content")));
    }
    settings.target = wherever_resumed(name)?;
    settings.target_size = target.size.unwrap_or(identity.capacity);
    if settings.target_size > identity.capacity {
        let size = settings.target_size.exact();
        bail!(Usage(format!("--size {size}: {name} has {} only", identity.capacity)));
    }
    selection.check(&settings, &identity)?;
    tell!("measuring {} of {name}", settings.target_size);
    announce(&settings, &selection, &identity, Bytes::ZERO);
    let mut opened = candidate.open(opening)?;
    Session::begin(&mut opened, selection, settings, Bytes::ZERO, common)?.measure(&mut opened.device)
}

fn measure_scratch(
    target: &args::Target,
    common: args::Common,
    selection: Selection,
    mut settings: Settings,
) -> Result<()> {
    let opening = Opening::new(target, selection.depth())?;
    let directory = scratch::directory(target.directory.as_deref())?;
    let size = target.size.unwrap_or(scratch::SIZE).round_up(scratch::UNIT);
    (settings.target, settings.target_size) = (Settings::SCRATCH.to_owned(), size);
    selection.check(&settings, &scratch::identity(size))?;
    flashlab_host::check_room(&directory, size)?;
    let end = if target.keep_file { "kept" } else { "removed" };
    tell!("scratch file: {size} in {}, filled completely, {end} at the end", directory.display());
    announce(&settings, &selection, &scratch::identity(size), size);
    let interrupt = session::interrupt()?;
    let scratch = scratch::make(&directory, size, settings.seed, &interrupt, &Bar::new())?;
    let mut opened = scratch::open(&scratch, opening)?;
    let session = Session::begin(&mut opened, selection, settings, size, common)?;
    let measured = session.measure(&mut opened.device);
    scratch::end(scratch, target.keep_file)?;
    measured
}

/// The target by a name that leads to it from every directory; links stay links, as those by serial.
pub fn wherever_resumed(name: &str) -> Result<String> {
    let absolute = |path: &str| -> Result<String> {
        Ok(std::path::absolute(path).with_context(|| format!("cannot find {path}"))?.display().to_string())
    };
    match parsed(name)? {
        Target::Simulated(mut target) => {
            if let ProfileName::File(file) = &mut target.profile {
                *file = absolute(file)?;
            }
            target.state = target.state.as_deref().map(absolute).transpose()?;
            Ok(target.to_string())
        }
        Target::Path(path) => absolute(&path),
    }
}

/// Says what will be written before anything is.
fn announce(settings: &Settings, selection: &Selection, identity: &Identity, prepared: Bytes) {
    let block = identity.logical_block.unwrap_or(Bytes(512));
    let Some(most) = most_written(&selection.plans, settings, block) else {
        tell!("a pattern without an IOCount writes: as much will be written as the device takes in its time");
        return;
    };
    let most = Bytes(most.0.saturating_add(prepared.0));
    let expected = expected_written(&selection.plans, settings, block) + prepared;
    let both = |show: &dyn Fn(Bytes) -> String| match show(most) {
        bound if expected == most => format!("at most {bound}"),
        bound => format!("about {}, at most {bound}", show(expected)),
    };
    let endurance = match identity.rated_endurance {
        _ if parsed(&settings.target).is_ok_and(|target| target.is_simulated()) => {
            "to a simulated device".to_owned()
        }
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
