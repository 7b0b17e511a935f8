//! `flashlab infer`: from the command line to an inference.

use std::path::Path;

use anyhow::{Result, bail};
use flashlab_analysis::inference::{Parameter, UnknownParameter};
use flashlab_base::{Bytes, Identity, Nanos, Target};
use flashlab_bench::Settings as BenchSettings;

use crate::bench::wherever_resumed;
use crate::exit::Usage;
use crate::inference_run::{self, Chosen, Run, Shown};
use crate::progress::Bar;
use crate::resume::check_same;
use crate::target::{Candidate, Opening, Simulation, parsed};
use crate::wear_out::{self, Wear};
use crate::{args, scratch, session};

/// As many IOs as a probe may want in flight on a real device.
const DEPTH: u32 = 32;
/// The longest that each group of writing probes takes.
const WRITING_TIME: Nanos = Nanos::from_secs(24 * 3600);
/// No probe takes as long; times can be added to the clock.
const TIME_MOST: Nanos = Nanos::from_secs(365 * 24 * 3600);

/// `flashlab infer`.
pub fn infer(arguments: args::Infer) -> Result<()> {
    let target = arguments.target.as_deref().map(parsed).transpose()?;
    let is_simulated = target.is_some_and(|target| target.is_simulated());
    let has_consent = arguments.destroy_data_on.is_some() || arguments.overwrite_file;
    if has_consent && arguments.resume.is_none() && (!arguments.write || is_simulated) {
        bail!(Usage(
            "consent is given, but nothing of yours would be written to: add --write, or leave it away"
                .into()
        ));
    }
    match (&arguments.resume, &arguments.target) {
        (Some(run), _) => resume(run, &arguments),
        (None, Some(target)) if Path::new(target).is_dir() => {
            check_only_shown(&arguments)?;
            inference_run::show(Path::new(target), shown(&arguments))
        }
        (None, Some(target)) => begin_existing(target, &arguments),
        (None, None) => begin_on_scratch(&arguments),
    }
}

/// Refuses what would have no effect on a run that is only shown.
fn check_only_shown(arguments: &args::Infer) -> Result<()> {
    let given = [
        ("--write", arguments.write),
        ("--read-only", arguments.read_only),
        ("--write-budget", arguments.write_budget.is_some()),
        ("--only", !arguments.only.is_empty()),
        ("--size", arguments.size.is_some()),
        ("--time-limit", arguments.time_limit.is_some()),
        ("--wear-out", arguments.wear_out.is_some()),
        ("--output", arguments.output.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => bail!(Usage(format!(
            "{option}, but TARGET is the folder of a run, which is only shown: go on with it with --resume, or name a device"
        ))),
        None => Ok(()),
    }
}

fn begin_existing(name: &str, arguments: &args::Infer) -> Result<()> {
    session::check_output(arguments.output.as_deref())?;
    let parsed = parsed(name)?;
    let is_simulated = parsed.is_simulated();
    if arguments.size.is_some() && !is_simulated {
        bail!(Usage(
            "--size is for scratch files and simulated devices: a device is inferred as a whole".into()
        ));
    }
    let writes = arguments.write || (is_simulated && !arguments.read_only);
    for (option, is_given) in
        [("--write-budget", arguments.write_budget.is_some()), ("--wear-out", arguments.wear_out.is_some())]
    {
        if is_given && !writes {
            bail!(Usage(format!("{option}, but nothing would be written: add --write")));
        }
    }
    let target = as_target(arguments);
    let candidate = match (&parsed, arguments.size) {
        (Target::Simulated(target), Some(size)) => {
            Candidate::Simulated(Box::new(Simulation::new(target)?.resized(size)?))
        }
        _ => Candidate::find(name, writes, &target)?,
    };
    let identity = candidate.identity();
    if !is_simulated && identity.capacity < identity.logical_block.unwrap_or(Bytes(512)) {
        let what = if identity.capacity == Bytes::ZERO { "empty" } else { "smaller than one block" };
        bail!(Usage(format!("{name} is {what}: give a device with a medium in it, or a file with content")));
    }
    let chosen = chosen(arguments, wherever_resumed(name)?, identity.capacity, writes)?;
    let wear = arguments.wear_out.map(|rounds| Wear { rounds, full_writes: arguments.full_writes });
    // A simulated device asks for no consent, and what is wrong with its state comes first.
    if !is_simulated {
        announce(&chosen, name, &identity, wear);
    }
    let mut opened = candidate.open(Opening::new(&target, DEPTH)?)?;
    if is_simulated {
        announce(&chosen, name, &identity, wear);
    }
    let is_new = matches!(&parsed, Target::Simulated(target) if target.state.is_none());
    if !writes && opened.device.as_flash().is_some() && is_new {
        tell!(
            "nothing was ever written to it, and what holds no data is read without the flash: leave --read-only away, or \
             infer a state: flashlab sim precondition {0} --out FILE; flashlab infer {name}@FILE --read-only",
            name.trim_start_matches("sim:")
        );
    }
    let output = arguments.output.as_deref();
    match wear {
        Some(wear) => {
            let folder = output.expect("--wear-out requires it");
            wear_out::wear_out(&mut opened, &chosen, wear, folder, arguments.json)
        }
        None => Run::begin(&mut opened, chosen, output)?.infer(&mut opened.device, shown(arguments)),
    }
}

fn begin_on_scratch(arguments: &args::Infer) -> Result<()> {
    session::check_output(arguments.output.as_deref())?;
    let target = as_target(arguments);
    let directory = scratch::directory(arguments.directory.as_deref())?;
    let size = arguments.size.unwrap_or(scratch::SIZE).round_up(scratch::UNIT);
    flashlab_host::check_room(&directory, size)?;
    let chosen = chosen(arguments, BenchSettings::SCRATCH.to_owned(), size, arguments.write)?;
    let end = if arguments.keep_file { "kept" } else { "removed" };
    tell!("scratch file: {size} in {}, filled completely, {end} at the end", directory.display());
    announce(&chosen, "it", &scratch::identity(size), None);
    let interrupt = session::interrupt()?;
    let scratch = scratch::make(&directory, size, arguments.seed, &interrupt, &Bar::new())?;
    let mut opened = scratch::open(&scratch, Opening::new(&target, DEPTH)?)?;
    let run = Run::begin(&mut opened, chosen, arguments.output.as_deref())?;
    let inferred = run.infer(&mut opened.device, shown(arguments));
    scratch::end(scratch, arguments.keep_file)?;
    inferred
}

/// Goes on with the run in this folder, on the device that it was begun on.
fn resume(path: &Path, arguments: &args::Infer) -> Result<()> {
    let mut run = Run::resumed(path)?;
    let chosen = run.chosen().clone();
    let target = as_target(arguments);
    let nothing_left = || {
        tell!("nothing is left to infer: all of it is known");
        inference_run::show(path, shown(arguments))
    };
    match (chosen.target == BenchSettings::SCRATCH, run.is_done()) {
        (true, true) => return nothing_left(),
        (true, false) => return resume_on_scratch(path, run, arguments),
        (false, _) => {}
    }
    let mut candidate = Candidate::find(&chosen.target, chosen.write_budget.is_some(), &target)?;
    if let Candidate::Simulated(simulation) = candidate {
        let resized = match simulation.profile.capacity == chosen.target_size {
            true => simulation,
            false => Box::new(simulation.resized(chosen.target_size)?),
        };
        candidate = Candidate::Simulated(resized);
    }
    check_same(path, &chosen.target, run.identity(), &candidate.identity())?;
    if run.is_done() {
        return nothing_left();
    }
    if matches!(candidate, Candidate::Simulated(_)) {
        run.forget_writes(false);
    }
    run.announce_rest();
    let mut opened = candidate.open(Opening::new(&target, DEPTH)?)?;
    run.infer(&mut opened.device, shown(arguments))
}

/// The file that was probed is gone; another one in the same place has the same disk beneath.
fn resume_on_scratch(path: &Path, mut run: Run, arguments: &args::Infer) -> Result<()> {
    let chosen = run.chosen().clone();
    let (scratch, name) = scratch::make_again(run.identity(), chosen.target_size, chosen.seed)?;
    let mut opened = scratch::open(&scratch, Opening::new(&as_target(arguments), DEPTH)?)?;
    check_same(path, &name, run.identity(), &opened.device.as_mut().identity())?;
    // Another file would have to be filled, before what was found by writing could be found again.
    if run.writes_left() >= chosen.target_size {
        run.forget_writes(true);
    }
    run.announce_rest();
    let inferred = run.infer(&mut opened.device, shown(arguments));
    scratch::end(scratch, arguments.keep_file)?;
    inferred
}

/// What a person chose, made complete.
fn chosen(arguments: &args::Infer, target: String, capacity: Bytes, writes: bool) -> Result<Chosen> {
    let usual = flashlab_infer::Settings::usual_budget(capacity);
    if let Some(given) = arguments.write_budget.filter(|&given| writes && given > usual) {
        tell!(
            "--write-budget {given} is more than is ever written: twice the capacity, {usual}, is taken for it"
        );
    }
    let time_limit = arguments.time_limit.map(|time| time.min(TIME_MOST));
    Ok(Chosen {
        target,
        target_size: capacity,
        seed: arguments.seed,
        write_budget: writes.then(|| arguments.write_budget.unwrap_or(usual).min(usual)),
        only: only(&arguments.only)?,
        reading_time: time_limit,
        writing_time: time_limit.unwrap_or(WRITING_TIME),
    })
}

/// The parameters of these names.
fn only(names: &[String]) -> Result<Vec<Parameter>> {
    let parsed = |name: &String| match name.trim() {
        "" => Err(Usage("--only has an empty name in it".to_owned()).into()),
        _ => name.parse().map_err(|unknown: UnknownParameter| Usage(unknown.to_string()).into()),
    };
    names.iter().map(parsed).collect()
}

fn shown(arguments: &args::Infer) -> Shown {
    Shown { json: arguments.json, advice: arguments.advise }
}

/// Consent as the other verbs take it.
fn as_target(arguments: &args::Infer) -> args::Target {
    args::Target {
        target: arguments.target.clone(),
        directory: arguments.directory.clone(),
        size: arguments.size,
        keep_file: arguments.keep_file,
        destroy_data_on: arguments.destroy_data_on.clone(),
        overwrite_file: arguments.overwrite_file,
        engine: None,
        buffered: false,
    }
}

/// Says what will be written before anything is.
fn announce(chosen: &Chosen, name: &str, identity: &Identity, wear: Option<Wear>) {
    let groups = flashlab_infer::groups_for(&chosen.only);
    let count: usize = groups.iter().map(|group| group.parameters.len()).sum();
    tell!(
        "inferring {count} parameters of {name} ({}) by {} groups of probes",
        chosen.target_size,
        groups.len()
    );
    match chosen.write_budget {
        None => match chosen.reading_time {
            Some(time) => tell!("it will only be read, for {time} at most"),
            None => tell!("it will only be read, for a minute at most, or ten if it reads slowly"),
        },
        Some(budget) => {
            let of = if wear.is_some() { "by each inference, " } else { "" };
            tell!(
                "at most {budget} will be written ({of}{}), from the first group on",
                endurance(budget, chosen, identity)
            );
        }
    }
    if let Some(wear) = wear {
        let written = wear.written(chosen.target_size, chosen.write_budget.unwrap_or_default());
        tell!(
            "WEAR: {} rounds of {} full writes, with an inference before and after each, write at most {written} ({}); every \
             block is erased about {} times. The device may be worn out by this.",
            wear.rounds,
            wear.full_writes,
            endurance(written, chosen, identity),
            u64::from(wear.rounds) * u64::from(wear.full_writes),
        );
    }
}

fn endurance(budget: Bytes, chosen: &Chosen, identity: &Identity) -> String {
    match identity.rated_endurance {
        _ if parsed(&chosen.target).is_ok_and(|target| target.is_simulated()) => {
            "to a simulated device".to_owned()
        }
        Some(rated) if rated > Bytes::ZERO => {
            format!("{:.4} % of its rated endurance of {rated}", budget.0 as f64 / rated.0 as f64 * 100.0)
        }
        _ => "the device's rated endurance is not known".to_owned(),
    }
}
