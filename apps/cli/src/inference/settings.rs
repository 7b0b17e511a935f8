//! The settings of an inference, which the user chooses.

use anyhow::{Result, bail};
use clap::Args;
use flashlab_analysis::inference::{Parameter, UnknownParameter};
use flashlab_base::{Bytes, Identity, Nanos, Seed};
use flashlab_infer::probes_for;
use serde::{Deserialize, Serialize};

use crate::arguments;
use crate::exit::Usage;
use crate::target;

/// The most IOs in flight that a probe needs on a real device.
pub const DEPTH: u32 = 32;
/// The time limit for each probe that writes, unless the user gives one.
const WRITING_TIME: Nanos = Nanos::from_secs(24 * 3600);
/// The largest time limit: longer than any probe takes, and short enough to be added to any clock.
const LONGEST_TIME: Nanos = Nanos::from_secs(365 * 24 * 3600);

/// The options of every verb that probes.
#[derive(Args)]
pub struct ProbeOptions {
    /// Write at most this much by an inference; twice the capacity if not given, and never more than that
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    pub write_budget: Option<Bytes>,
    /// Only these parameters, and those that have to be known for them
    #[arg(long, value_name = "PARAMETER,...", value_delimiter = ',')]
    only: Vec<String>,
    /// The time limit for all reading probes together, and for each probe that may write, such as 90s or 2h; 60s (to
    /// 600s if the device is slow) and 24h if not given
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    time_limit: Option<Nanos>,
    /// The seed of everything random
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    pub seed: Seed,
}

/// The settings of an inference. A resumed inference keeps them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InferenceSettings {
    pub target: String,
    pub target_size: Bytes,
    pub seed: Seed,
    /// How much may be written; without it the target is only read.
    pub write_budget: Option<Bytes>,
    /// Only these; all parameters if the list is empty.
    pub only: Vec<Parameter>,
    pub reading_time: Option<Nanos>,
    pub writing_time: Nanos,
}

impl ProbeOptions {
    /// The settings for a target of this capacity, with a default for each option that is not given.
    pub fn settings(&self, target: String, capacity: Bytes, writes: bool) -> Result<InferenceSettings> {
        let usual = flashlab_infer::InferenceSettings::usual_budget(capacity);
        if let Some(given) = self.write_budget.filter(|&given| writes && given > usual) {
            tell!(
                "--write-budget {given} is more than an inference ever writes: {usual}, twice the capacity, is used"
            );
        }
        let time_limit = self.time_limit.map(|time| time.min(LONGEST_TIME));
        Ok(InferenceSettings {
            target,
            target_size: capacity,
            seed: self.seed,
            write_budget: writes.then(|| self.write_budget.unwrap_or(usual).min(usual)),
            only: parameters(&self.only)?,
            reading_time: time_limit,
            writing_time: time_limit.unwrap_or(WRITING_TIME),
        })
    }
}

/// The parameters of these names.
fn parameters(names: &[String]) -> Result<Vec<Parameter>> {
    let parsed = |name: &String| match name.trim() {
        "" => bail!(Usage("--only has an empty name in it".to_owned())),
        _ => name.parse().map_err(|unknown: UnknownParameter| Usage(unknown.to_string()).into()),
    };
    names.iter().map(parsed).collect()
}

impl InferenceSettings {
    /// The parameters that are probed: the requested ones, and those on which they depend.
    pub fn parameters(&self) -> Vec<Parameter> {
        probes_for(&self.only).iter().flat_map(|probe| probe.parameters).copied().collect()
    }

    /// Prints what will be probed, and for how long or with how many writes. `limit` says what the write
    /// budget is for, for example `by each inference, `.
    pub fn announce(&self, name: &str, identity: &Identity, limit: &str) {
        let probes = probes_for(&self.only);
        let count: usize = probes.iter().map(|probe| probe.parameters.len()).sum();
        tell!("inferring {count} parameters of {name} ({}) by {} probes", self.target_size, probes.len());
        match self.write_budget {
            None => match self.reading_time {
                Some(time) => tell!("it will only be read, for {time} at most"),
                None => tell!("it will only be read, for a minute at most, or ten if it reads slowly"),
            },
            Some(budget) => {
                let endurance = self.endurance_share(budget, identity);
                tell!("at most {budget} will be written ({limit}{endurance}), from the first probe on");
            }
        }
    }

    /// These bytes as a share of the device's rated endurance, as a text.
    pub fn endurance_share(&self, written: Bytes, identity: &Identity) -> String {
        match identity.rated_endurance {
            _ if target::parsed(&self.target).is_ok_and(|target| target.is_simulated()) => {
                "to a simulated device".to_owned()
            }
            Some(rated) if rated > Bytes::ZERO => {
                format!(
                    "{:.4} % of its rated endurance of {rated}",
                    written.0 as f64 / rated.0 as f64 * 100.0
                )
            }
            _ => "the device's rated endurance is not known".to_owned(),
        }
    }
}
