//! Opens the device of an experiment: a simulated one with memory for its data, a block device or file, or a scratch file.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Nanos, Seed, Target};
use flashlab_device::{Device, StoringDevice};
use flashlab_em::HostTime;
use flashlab_host::ScratchFile;

use crate::arguments::{self, CapacityOption, ConsentOptions, EngineOptions};
use crate::exit::Usage;
use crate::progress::Bar;
use crate::scratch;
use crate::target::{Candidate, OpenDevice, Opening, Simulation};

/// How many requests a real device gets at a time at most; how many of them an algorithm uses is measured.
const DEPTH: u32 = 512;

/// The options of the machine of an experiment.
#[derive(Args, Clone)]
pub struct MachineOptions {
    /// The internal memory of the algorithm
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, default_value = "16MiB", allow_negative_numbers = true)]
    pub memory: Bytes,
    /// On a simulated device, what computation on each element costs
    #[arg(long, value_name = "TIME", default_value = "2ns", allow_negative_numbers = true)]
    host_cost: Nanos,
    /// On a simulated device, whether computation costs what is declared, or what it really takes
    #[arg(long, value_enum, default_value_t = HostTimeChoice::Declared)]
    host_time: HostTimeChoice,
    #[command(flatten)]
    capacity: CapacityOption,
    /// The directory of the scratch file that is used without TARGET; the current directory if not given
    #[arg(long, value_name = "DIR")]
    directory: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub consent: ConsentOptions,
    /// The seed of everything random
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    pub seed: Seed,
}

/// What computation costs in virtual time.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HostTimeChoice {
    /// --host-cost for each element: the same in each run
    Declared,
    /// What the CPU takes
    Measured,
}

/// An open device, and what has to live as long as it.
pub struct OpenMachine {
    /// The device, which stores data.
    pub device: Box<dyn Device>,
    /// What it was named.
    pub name: String,
    /// By what right it is written to.
    pub consent: String,
    /// What the device lies in, where that is removed with it.
    pub scratch: Option<ScratchFile>,
}

impl MachineOptions {
    /// Opens a device with at least `needed` bytes.
    pub fn open(
        &self,
        target: Option<&Target>,
        needed: Bytes,
        interrupt: &AtomicBool,
    ) -> Result<OpenMachine> {
        self.open_with(target, needed, &self.consent, interrupt)
    }

    /// Opens a device that has a consent of its own.
    pub fn open_with(
        &self,
        target: Option<&Target>,
        needed: Bytes,
        consent: &ConsentOptions,
        interrupt: &AtomicBool,
    ) -> Result<OpenMachine> {
        match target {
            Some(Target::Simulated(simulated)) => {
                check_memory(needed, "--elements")?;
                let mut simulation = Simulation::new(simulated)?;
                if let Some(size) = self.capacity.capacity {
                    simulation = simulation.resized(size)?;
                }
                if simulation.profile.is_zoned() {
                    bail!(Usage(format!(
                        "sim:{simulated} is written in zones only, and an algorithm overwrites its blocks: take another device"
                    )));
                }
                let device = Box::new(StoringDevice::new(simulation.device()?));
                let consent = "none needed: simulated".to_owned();
                Ok(OpenMachine { device, name: simulated.to_string(), consent, scratch: None })
            }
            Some(target) => {
                if self.capacity.capacity.is_some() {
                    bail!(Usage(
                        "--capacity is for simulated devices: a real one has the size that it has".to_owned()
                    ));
                }
                let candidate = Candidate::find(target, true, consent)?;
                let opened = candidate.open(Opening::new(EngineOptions::default(), DEPTH)?)?;
                opened.warnings.iter().for_each(|(_, message)| tell!("{message}"));
                let OpenDevice::Real(device) = opened.device else {
                    unreachable!("a path leads to no simulated device")
                };
                Ok(OpenMachine { device, name: target.to_string(), consent: opened.consent, scratch: None })
            }
            None => self.open_scratch(needed, interrupt),
        }
    }

    fn open_scratch(&self, needed: Bytes, interrupt: &AtomicBool) -> Result<OpenMachine> {
        self.consent.check_unneeded()?;
        let directory = scratch::directory(self.directory.as_deref().map(Path::new))?;
        let size = needed.round_up(scratch::UNIT);
        flashlab_host::check_room(&directory, size)?;
        scratch::announce(size, &directory, false);
        let file = scratch::make(&directory, size, self.seed, interrupt, &Bar::new())?;
        let opened = scratch::open(&file, Opening::new(EngineOptions::default(), DEPTH)?)?;
        opened.warnings.iter().for_each(|(_, message)| tell!("{message}"));
        let OpenDevice::Real(device) = opened.device else { unreachable!("a scratch file is a real device") };
        Ok(OpenMachine { device, name: file.description(), consent: opened.consent, scratch: Some(file) })
    }

    /// What computation on an element costs by declaration; zero where it is measured.
    pub fn declared_cost(&self) -> Nanos {
        if self.host_time == HostTimeChoice::Declared { self.host_cost } else { Nanos::ZERO }
    }

    /// What computation costs.
    pub fn host_time(&self) -> HostTime<'static> {
        match self.host_time {
            HostTimeChoice::Declared => HostTime::Declared(self.host_cost),
            HostTimeChoice::Measured => measured_host_time(),
        }
    }
}

/// Computation costs what the CPU takes.
pub fn measured_host_time() -> HostTime<'static> {
    let begin = Instant::now();
    HostTime::Measured(Box::new(move || Nanos::from(begin.elapsed())))
}

/// Refuses a memory of an algorithm that this machine does not have.
pub fn check_budget(memory: Bytes) -> Result<()> {
    check_free(memory, |free| format!("--memory {memory}: {free} are free; give less"))
}

/// Refuses data that does not fit into this machine's memory; `fewer` says of what to take less.
pub fn check_memory(needed: Bytes, fewer: &str) -> Result<()> {
    check_free(needed, |free| {
        format!("the data of this run takes {needed} of memory, and {free} are free: take fewer {fewer}")
    })
}

fn check_free(needed: Bytes, message: impl FnOnce(Bytes) -> String) -> Result<()> {
    match flashlab_host::available_memory() {
        Some(free) if needed > free => bail!(Usage(message(free))),
        _ => Ok(()),
    }
}
