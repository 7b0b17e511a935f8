//! `flashlab em run`: an algorithm on generated input.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use flashlab_base::Target;
use flashlab_em::Machine;
use flashlab_samples::{RecordingSettings, RunFolder};

use super::machine::OpenMachine;
use super::options::{AlgorithmName, AlgorithmOptions};
use super::recorder::Recorder;
use super::rehearsal::Rehearsal;
use super::show;
use crate::arguments::JsonOption;
use crate::interrupt::interrupt;
use crate::{output, run_folder};

/// An algorithm with a generated input.
#[derive(Args)]
pub struct RunExperiment {
    /// The algorithm
    #[arg(value_enum)]
    algorithm: AlgorithmName,
    /// A block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given. Over several everything is
    /// striped, unless --by-role is given
    target: Vec<Target>,
    /// Of two TARGETs, the first has what the algorithm is given and returns, and the second what it makes in between: sort:
    /// runs; search: the levels of the tree; rank: sorted sets; bfs: pool and levels
    #[arg(long)]
    by_role: bool,
    #[command(flatten)]
    options: AlgorithmOptions,
    /// Where the folder of the run goes; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

impl RunExperiment {
    /// Runs the experiment, and prints it.
    pub fn run(self) -> Result<()> {
        run_folder::check_output(self.output.as_deref())?;
        let interrupt = interrupt()?;
        let mut algorithm = self.options.algorithm(self.algorithm)?;
        let memory = self.options.machine.memory;
        let space = algorithm.space(memory)?;
        let (opened, layout) =
            self.options.open(self.algorithm, (&self.target, self.by_role), space, &interrupt)?;
        let all = |of: fn(&OpenMachine) -> &str| opened.iter().map(of).collect::<Vec<_>>().join(" and ");
        let (name, consent) = (all(|machine| &machine.name), all(|machine| &machine.consent));
        let identity = opened[0].device.identity();
        let named: Vec<String> = self.target.iter().map(ToString::to_string).collect();
        let target = if named.is_empty() { name.clone() } else { named.join(" and ") };
        let mut recorder = Recorder::begin(
            self.output.as_deref(),
            identity,
            &consent,
            &target,
            "flashlab em run",
            opened.len() as u32,
        )?;
        let folder = recorder.path().display().to_string();
        // A scratch file has to live until the machine has ended.
        let (devices, scratch): (Vec<_>, Vec<_>) =
            opened.into_iter().map(|machine| (machine.device, machine.scratch)).unzip();
        let machine = Machine::new(devices, memory, self.options.machine.host_time())?;
        let mut machine = machine.with_interrupt(&interrupt).with_observer(&mut recorder);
        let (is_real, devices) = (!machine.is_virtual(), machine.device_count());
        algorithm.place(&machine, layout);
        let outcome = algorithm.run(&mut machine);
        drop(machine);
        drop(scratch);
        let folder_of_run = recorder.finish()?;
        let mut outcome = outcome.inspect_err(|_| tell_kept(&folder_of_run))?;
        if is_real {
            let rehearsal = Rehearsal { algorithm: &*algorithm, memory, interrupt: &interrupt };
            rehearsal.add_host_time(&mut outcome.ios, outcome.block, (devices, layout));
        }
        let document = show::document(&outcome);
        folder_of_run.write_json("em.json", &document)?;
        folder_of_run.finish::<RecordingSettings>()?;
        match self.json.json {
            true => output::json(&document),
            false => output::text(&show::text(&outcome, &name, &folder)),
        }
    }
}

/// Says where the IOs of an experiment are that ended before its end.
fn tell_kept(folder: &RunFolder) {
    if let Ok(manifest) = RunFolder::any_manifest(folder.path()) {
        run_folder::tell_kept(&manifest, folder.path());
    }
}
