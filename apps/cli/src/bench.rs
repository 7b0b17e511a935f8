//! `flashlab bench` and `flashlab run`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use flashlab_base::{Bytes, Seed};
use flashlab_bench::{Manifest, Progress, Settings, State, Thoroughness, most_written};
use flashlab_device::Device;
use flashlab_host::{OpenOptions, ScratchFile};
use flashlab_plan::Plan;
use flashlab_samples::RunFolder;

use crate::args;
use crate::exit::Usage;
use crate::progress::Bar;
use crate::session;
use crate::target::{Opened, Request, engine, warnings};

/// The size of a scratch file.
const SCRATCH_SIZE: Bytes = Bytes::gib(1);

/// `flashlab bench`.
pub fn bench(arguments: args::Bench) -> Result<()> {
    let interrupt = session::interrupt()?;
    if let Some(folder) = &arguments.resume {
        return resume(folder, &arguments, &interrupt);
    }
    let thoroughness = match (arguments.full, arguments.quick, &arguments.target.target) {
        (true, _, _) | (false, false, Some(_)) => Thoroughness::Full,
        _ => Thoroughness::Quick,
    };
    let plans = Plans::named(&chosen(&arguments.only)?)?;
    let settings = Settings {
        state: state(arguments.state),
        seed: arguments.common.seed,
        repetitions: arguments.common.repetitions,
        ..Settings::new(thoroughness)
    };
    measure(&arguments.target, arguments.common, plans, settings, &interrupt)
}

/// `flashlab run`.
pub fn run(arguments: args::Run) -> Result<()> {
    let interrupt = session::interrupt()?;
    let plans = Plans::of(&arguments.plan)?;
    let thoroughness = if arguments.quick { Thoroughness::Quick } else { Thoroughness::Full };
    let settings = Settings {
        methodology: false,
        state: state(arguments.state),
        seed: arguments.common.seed,
        repetitions: arguments.common.repetitions,
        ..Settings::new(thoroughness)
    };
    measure(&arguments.target, arguments.common, plans, settings, &interrupt)
}

/// Plans with their files' text, for the manifest.
struct Plans {
    texts: Vec<String>,
    plans: Vec<Plan>,
}

impl Plans {
    fn named(names: &[String]) -> Result<Plans> {
        let texts = names.iter().map(|name| Ok(crate::plans::builtin(name)?.to_owned()));
        Plans::parse(texts.collect::<Result<_>>()?, "the shipped plans")
    }

    /// A file, or the name of a shipped plan.
    fn of(name: &str) -> Result<Plans> {
        if !Path::new(name).exists() && !name.contains(['/', '.']) {
            return Plans::named(&[name.to_owned()]);
        }
        let text =
            std::fs::read_to_string(name).map_err(|error| Usage(format!("cannot read {name}: {error}")))?;
        Plans::parse(vec![text], name)
    }

    fn parse(texts: Vec<String>, file: &str) -> Result<Plans> {
        let plans = texts.iter().map(|text| Plan::parse(text, file)).collect::<Result<_, _>>()?;
        Ok(Plans { texts, plans })
    }

    /// The deepest queue, which decides on the engine.
    fn depth(&self) -> u32 {
        let experiments = self.plans.iter().flat_map(|plan| &plan.experiments);
        let depths = experiments.flat_map(|experiment| {
            experiment
                .runs(flashlab_plan::Choice::Full)
                .map(|(_, pattern)| pattern.queue_depth)
                .collect::<Vec<_>>()
        });
        depths.max().unwrap_or(1)
    }

    fn write(&self) -> bool {
        let mut experiments = self.plans.iter().flat_map(|plan| &plan.experiments);
        experiments.any(|experiment| experiment.pattern.writes())
    }
}

fn chosen(only: &[String]) -> Result<Vec<String>> {
    let all = Settings::MICRO_BENCHMARKS;
    if let Some(unknown) = only.iter().find(|name| !all.contains(&name.as_str())) {
        bail!(Usage(format!("there is no micro-benchmark `{unknown}`; there are: {}", all.join(", "))));
    }
    let wanted = |name: &&str| only.is_empty() || only.iter().any(|only| only == name);
    Ok(all.iter().filter(|name| wanted(name)).map(|name| (*name).to_owned()).collect())
}

fn state(state: args::State) -> State {
    match state {
        args::State::Random => State::Random,
        args::State::Sequential => State::Sequential,
        args::State::None => State::None,
    }
}

/// Opens the target, makes the run's folder and measures.
fn measure(
    target: &args::Target,
    common: args::Common,
    plans: Plans,
    mut settings: Settings,
    interrupt: &AtomicBool,
) -> Result<()> {
    let bar = Bar::new();
    let Some(name) = &target.target else {
        let size = target.size.unwrap_or(SCRATCH_SIZE);
        (settings.target, settings.target_size) = (Settings::SCRATCH.to_owned(), size);
        announce(&settings, &plans, Bytes(512), size, &target.directory.display().to_string(), None);
        let scratch = make_scratch(&target.directory, size, settings.seed, interrupt, &bar)?;
        let mut opened = open_scratch(&scratch, target, plans.depth())?;
        let (folder, manifest) =
            session::create(common.output, &opened, settings, plans.texts, scratch.size())?;
        session::measure(opened.device.as_mut(), &folder, &manifest, interrupt, &bar, common.json)?;
        return keep(scratch, target);
    };
    let writes = plans.write() || settings.methodology || settings.state != State::None;
    let mut opened = Request::new(name, target, writes, plans.depth()).open()?;
    let geometry = opened.device.geometry();
    let size = target.size.unwrap_or(geometry.capacity);
    (settings.target, settings.target_size) = (name.clone(), size);
    let identity = opened.device.identity();
    announce(&settings, &plans, geometry.block, Bytes::ZERO, name, identity.rated_endurance);
    let (folder, manifest) = session::create(common.output, &opened, settings, plans.texts, Bytes::ZERO)?;
    session::measure(opened.device.as_mut(), &folder, &manifest, interrupt, &bar, common.json)
}

/// Goes on with an interrupted run, on the target that its manifest names.
fn resume(path: &Path, arguments: &args::Bench, interrupt: &AtomicBool) -> Result<()> {
    let bar = Bar::new();
    let (folder, mut manifest): (RunFolder, Manifest) = RunFolder::open(path)?;
    for aside in folder.set_torn_segments_aside()? {
        bar.say(&format!("set aside {}: {}", aside.path.display(), aside.reason));
    }
    let plans = Plans::parse(manifest.plans.clone(), "manifest.json")?;
    let target = &arguments.target;
    if manifest.settings.target == Settings::SCRATCH {
        let (size, seed) = (manifest.settings.target_size, manifest.settings.seed);
        let scratch = make_scratch(&target.directory, size, seed, interrupt, &bar)?;
        let mut opened = open_scratch(&scratch, target, plans.depth())?;
        manifest.prepared_bytes += size.0;
        folder.write_json("manifest.json", &manifest)?;
        session::measure(opened.device.as_mut(), &folder, &manifest, interrupt, &bar, arguments.common.json)?;
        return keep(scratch, target);
    }
    let name = manifest.settings.target.clone();
    let mut opened = Request::new(&name, target, true, plans.depth()).open()?;
    let now = opened.device.identity();
    let before = &manifest.identity;
    if (&now.model, &now.serial, now.capacity) != (&before.model, &before.serial, before.capacity) {
        bail!(Usage(format!("{name} is not the device that {} was begun on", path.display())));
    }
    session::measure(opened.device.as_mut(), &folder, &manifest, interrupt, &bar, arguments.common.json)
}

/// Says what will be written before anything is.
fn announce(
    settings: &Settings,
    plans: &Plans,
    block: Bytes,
    prepared: Bytes,
    place: &str,
    rated: Option<Bytes>,
) {
    let most = Bytes(most_written(&plans.plans, settings, block).0.saturating_add(prepared.0));
    if prepared > Bytes::ZERO {
        eprintln!("making a scratch file of {prepared} in {place}, filled completely, removed at the end");
    } else {
        eprintln!("measuring {} of {place}", settings.target_size);
    }
    let endurance = match rated {
        Some(rated) if rated > Bytes::ZERO => {
            format!("{:.4} % of its rated endurance of {rated}", most.0 as f64 / rated.0 as f64 * 100.0)
        }
        _ if settings.target.starts_with("sim:") => "to a simulated device".to_owned(),
        _ => "its rated endurance is not known".to_owned(),
    };
    eprintln!("{} run; at most {most} will be written ({endurance})", settings.thoroughness);
}

fn make_scratch(
    directory: &Path,
    size: Bytes,
    seed: Seed,
    interrupt: &AtomicBool,
    bar: &Bar,
) -> Result<ScratchFile> {
    for stale in flashlab_host::stale_scratch_files(directory)? {
        bar.say(&format!("{} was left by a flashlab that was killed; it may be removed", stale.display()));
    }
    bar.step("filling the scratch file");
    let scratch = ScratchFile::create(directory, size, seed, &mut |written| {
        bar.share(written.0 as f64 / size.0 as f64);
        if interrupt.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(scratch)
}

fn open_scratch(scratch: &ScratchFile, target: &args::Target, depth: u32) -> Result<Opened> {
    let consent = scratch.consent();
    let given = consent.to_string();
    let options = OpenOptions {
        engine: engine(target.engine, depth),
        depth,
        write: Some(consent),
        buffered: target.buffered,
        name: Some(scratch.description()),
    };
    let device: Box<dyn Device> = flashlab_host::open(scratch.path(), &options)?;
    let inspection = flashlab_host::inspect(scratch.path())?;
    let warnings = warnings(device.as_ref(), &inspection);
    Ok(Opened { device, consent: given, warnings })
}

fn keep(scratch: ScratchFile, target: &args::Target) -> Result<()> {
    if target.keep_file {
        let name = format!("flashlab-scratch-kept-{}.bin", std::process::id());
        let path: PathBuf = scratch.keep(&name)?;
        eprintln!("kept {}", path.display());
    }
    Ok(())
}
