//! From the options of `fit` and `check` to an open device that plans are run on, step by step, each IO recorded.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Target};
use flashlab_bench::{Settings, State, Thoroughness};
use flashlab_device::Device;
use flashlab_host::ScratchFile;
use flashlab_input::FileContent;
use flashlab_model::{Extraction, RunLength};
use flashlab_plan::{Plan, Space};
use flashlab_samples::FolderKind;

use crate::arguments::{EngineChoice, TargetOptions};
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::measure::announce;
use crate::measurement::Measurement;
use crate::progress::Bar;
use crate::selection::Selection;
use crate::target::{self, Candidate, OpenDevice, Opened, Opening};
use crate::verbs::bench::StateChoice;
use crate::{run_folder, scratch, unwritten};

/// How a device is measured for a model.
#[derive(Args)]
pub struct MeasuringOptions {
    #[command(flatten)]
    pub on: TargetOptions,
    /// Only read: no model of writes
    #[arg(long, conflicts_with = "state")]
    read_only: bool,
    /// z: how many of the 2z + 1 zones are exercised
    #[arg(long, value_name = "Z", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=64))]
    zones: u32,
    /// The deepest queue
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth_max: u32,
    /// The state that the device is brought to first; random if not given, steady for a simulated one
    #[arg(long, value_enum)]
    state: Option<StateChoice>,
}

/// An open device, what to measure on it, and its run.
pub struct Measuring {
    pub extraction: Extraction,
    pub measurement: Measurement,
    opened: Opened,
    target: Option<Target>,
    scratch: Option<(ScratchFile, bool)>,
}

impl MeasuringOptions {
    /// Whether the user consented to measuring a file with this content as a device, or nothing of it is lost.
    pub fn allows(&self, content: FileContent) -> bool {
        self.read_only || self.on.consent.overwrite_file || !content.is_made()
    }

    /// Opens the target, or makes a scratch file. `plans` are all that may be run, for what is announced.
    pub fn begin(
        &self,
        kind: FolderKind,
        target: Option<&Target>,
        repetitions: u32,
        plans: impl Fn(&Extraction) -> Vec<Plan>,
    ) -> Result<Measuring> {
        run_folder::check_output(self.on.output.as_deref())?;
        let depth_max = if self.on.engine.engine == Some(EngineChoice::Sync) { 1 } else { self.depth_max };
        let opening = Opening::new(self.on.engine, depth_max)?;
        let is_simulated = target.is_some_and(Target::is_simulated);
        let state = match (self.read_only, self.state) {
            (true, _) => State::None,
            (false, Some(state)) => state.into(),
            (false, None) if is_simulated => State::Steady,
            (false, None) => State::Random,
        };
        let settings = Settings {
            methodology: false,
            state,
            seed: self.on.seed,
            repetitions,
            // Equations over size, depth and mix have no history: what the runs before left on the device is none of theirs.
            state_for_each_run: true,
            ..Settings::new(Thoroughness::Quick)
        };
        let extraction = |capacity: Bytes, block: Bytes, depth: u32| Extraction {
            space: Space { capacity: capacity.round_down(block), block },
            zones: self.zones,
            depth_max: depth_max.min(depth),
            writes: !self.read_only,
            length: if is_simulated { RunLength::VIRTUAL } else { RunLength::REAL },
        };
        let (mut opened, settings, scratch) = match target {
            Some(target) => {
                let candidate = Candidate::find(target, !self.read_only, &self.on.consent)?;
                let identity = candidate.identity();
                if candidate.is_zoned() {
                    bail!(Usage(format!(
                        "{target} has zones, which take no random writes: no throughput model fits it"
                    )));
                }
                target::check_medium(target, &identity)?;
                let size = self.on.size.unwrap_or_else(|| target::whole_blocks(&identity));
                if size > identity.capacity {
                    bail!(Usage(format!("--size {}: {target} has {} only", size.exact(), identity.capacity)));
                }
                let settings =
                    Settings { target: target::absolute(target)?.to_string(), target_size: size, ..settings };
                let block = identity.logical_block.unwrap_or(Bytes(512));
                let expected = extraction(size, block, depth_max);
                check_zones(&expected)?;
                let selection = Selection::of_plans(plans(&expected));
                announce(&settings, &selection, &identity, Bytes::ZERO, is_simulated);
                let mut opened = candidate.open(opening)?;
                if let Some(remedy) = unwritten::remedy(settings.state) {
                    unwritten::warn(&mut opened, target, size, self.on.seed, remedy)?;
                }
                (opened, settings, None)
            }
            None => {
                self.on.consent.check_unneeded()?;
                let directory = scratch::directory(self.on.scratch.directory.as_deref())?;
                let size = self.on.size.unwrap_or(scratch::SIZE).round_up(scratch::UNIT);
                let settings =
                    Settings { target: Settings::SCRATCH.to_owned(), target_size: size, ..settings };
                flashlab_host::check_room(&directory, size)?;
                let expected = extraction(size, Bytes(512), depth_max);
                check_zones(&expected)?;
                scratch::announce(size, &directory, self.on.scratch.keep_file);
                announce(
                    &settings,
                    &Selection::of_plans(plans(&expected)),
                    &scratch::identity(size),
                    size,
                    false,
                );
                let file = scratch::make(&directory, size, self.on.seed, &*interrupt()?, &Bar::new())?;
                (scratch::open(&file, opening)?, settings, Some((file, self.on.scratch.keep_file)))
            }
        };
        let geometry = opened.device.as_mut().geometry();
        let extraction = extraction(settings.target_size, geometry.block, geometry.depth);
        let prepared = scratch.as_ref().map_or(Bytes::ZERO, |_| settings.target_size);
        let nothing = Selection::of_plans(Vec::new());
        let measurement =
            Measurement::begin(kind, &mut opened, nothing, settings, prepared, self.on.output.as_deref())?;
        Ok(Measuring { extraction, measurement, opened, target: target.cloned(), scratch })
    }
}

/// Refuses a target whose zones are too small for three sizes.
fn check_zones(extraction: &Extraction) -> Result<()> {
    const SIZES_LEAST: usize = 3;
    match extraction.sizes().len() {
        sizes if sizes < SIZES_LEAST => bail!(Usage(format!(
            "{} is too little for {} zones: give --size or fewer --zones",
            extraction.space.capacity,
            2 * extraction.zones + 1
        ))),
        _ => Ok(()),
    }
}

impl Measuring {
    /// Runs plans, after those that were run before.
    pub fn run(&mut self, plans: &[Plan]) -> Result<()> {
        self.measurement.measure_also(&mut self.opened.device, plans)
    }

    /// Runs a plan at each of these fills, each on a new device: its data is written in order, then overwritten at random until the
    /// steady state. Returns why not, where the device cannot be made new. Whatever is measured later finds the last fill.
    pub fn run_fills(
        &mut self,
        shares: &[f64],
        plan: impl Fn(&Extraction, Bytes) -> Plan,
    ) -> Result<Option<&'static str>> {
        let Some(Target::Simulated(target)) = &self.target else {
            return Ok(Some("only a simulated device is new again when its data is deleted"));
        };
        let extraction = self.extraction;
        let profile = target::Simulation::new(target)?.profile;
        if self.opened.device.as_flash().is_none() {
            return Ok(Some("this device has no flash translation layer: its fill changes nothing"));
        }
        if !extraction.writes
            || profile.capacity.round_down(extraction.space.block) > extraction.space.capacity
        {
            return Ok(Some("a part of the device, or reads alone, do not determine its fill"));
        }
        for &share in shares {
            let filled = extraction.filled(share);
            let mut device = target::new_device(&profile)?;
            let Some(conditioning) = device.conditioning() else {
                return Ok(Some("the device takes no conditioning"));
            };
            let seed = self.measurement.seed();
            conditioning
                .condition(&mut extraction.filling(filled, seed))
                .map_err(|error| anyhow::anyhow!("the device could not be filled with {filled}: {error}"))?;
            self.opened.device = OpenDevice::Simulated(Box::new(device));
            self.run(&[plan(&extraction, filled)])?;
        }
        Ok(None)
    }

    /// Removes the scratch file, or keeps it.
    pub fn end(self) -> Result<()> {
        match self.scratch {
            Some((file, keep)) => scratch::end(file, keep),
            None => Ok(()),
        }
    }
}
