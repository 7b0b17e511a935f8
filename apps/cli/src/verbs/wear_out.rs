//! `flashlab wear-out`: alternates full writes and inferences until the rounds are done or the device fails.
//!
//! # Model
//! The endurance test of Ajwani et al. (appendix A): "1000 sequential writes of the entire logical address space", which
//! wear a device out about as fast as possible, alternate with "detailed performance tests".
//!
//! # Method
//! 1. Round 0 infers the device before any full write.
//! 2. Each later round writes the whole device `--full-writes` times, then infers it again.
//!
//! ```text
//! round-000/ ...   a run of flashlab infer each; flashlab report shows it
//! wear.json        what was written before each round, and its findings
//! ```

// The comments here are help texts, in which [ ] is what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_analysis::inference::{Finding, Inference, Parameter, Value, Verdict};
use flashlab_base::{Bytes, Identity, Sample, Seed, Target};
use flashlab_bench::Progress;
use flashlab_engine::{Control, StopReason};
use flashlab_plan::{IoSize, Pattern, Space};
use flashlab_report::InferenceJson;
use flashlab_report::units::digits;
use flashlab_samples::FolderKind;
use flashlab_sim::flash_device::Statistics;
use serde::{Serialize, Serializer};

use crate::arguments::{CapacityOption, ConsentOptions, EngineOptions};
use crate::exit::Usage;
use crate::inference::ongoing::OngoingInference;
use crate::inference::settings::{DEPTH, InferenceSettings, ProbeOptions};
use crate::interrupt::interrupt;
use crate::progress::Bar;
use crate::run_folder::{self, Content};
use crate::target::{self, Candidate, OpenDevice, Opened, Opening};
use crate::{flash_statistics, output};

/// The size of the IOs of a full write, unless the device is smaller.
const IO_SIZE: Bytes = Bytes::mib(1);

/// Wear a device out: infer it, then write it fully many times and infer it again, for some rounds
#[derive(Args)]
pub struct WearOut {
    /// A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]
    target: Target,
    /// How many rounds of full writes and an inference follow the first inference
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How often a round writes the whole device from end to end
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    full_writes: u32,
    #[command(flatten)]
    capacity: CapacityOption,
    #[command(flatten)]
    consent: ConsentOptions,
    #[command(flatten)]
    probe: ProbeOptions,
    /// The folder of the rounds
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Print the rounds as one JSON document
    #[arg(long)]
    json: bool,
}

/// The findings after this amount of wear.
#[derive(Serialize)]
struct Round {
    /// How many times the device was written from end to end.
    full_writes: u64,
    /// The bytes of these writes, and of the inferences of earlier rounds.
    bytes_written: u64,
    /// The wear of its blocks; only for a simulated device.
    #[serde(flatten)]
    erases: Option<Erases>,
    /// Why it accepts no more writes, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    #[serde(serialize_with = "as_object")]
    findings: Inference,
}

/// How many times the blocks of a simulated device were erased.
#[derive(Clone, Copy, PartialEq, Serialize)]
struct Erases {
    block_erases_min: u32,
    block_erases_max: u32,
    block_erases_mean: f64,
}

impl Erases {
    fn of(statistics: &Statistics) -> Erases {
        Erases {
            block_erases_min: statistics.block_erases_min,
            block_erases_max: statistics.block_erases_max,
            block_erases_mean: statistics.block_erases_mean,
        }
    }
}

impl fmt::Display for Erases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = digits(self.block_erases_mean);
        write!(f, "{} to {}, mean {mean}", self.block_erases_min, self.block_erases_max)
    }
}

fn as_object<S: Serializer>(findings: &Inference, serializer: S) -> Result<S::Ok, S::Error> {
    InferenceJson(findings).serialize(serializer)
}

impl WearOut {
    /// Wears the device out, and prints what changed.
    pub fn run(self) -> Result<()> {
        run_folder::check_output(Some(&self.output))?;
        let is_simulated = self.target.is_simulated();
        if self.capacity.capacity.is_some() && !is_simulated {
            bail!(Usage("--capacity is for simulated devices: a device is worn out as a whole".into()));
        }
        if self.consent.is_given() && is_simulated {
            bail!(Usage("consent is given, but a simulated device needs none: leave it out".into()));
        }
        let candidate =
            Candidate::find(&self.target, true, &self.consent)?.resized(self.capacity.capacity)?;
        let identity = candidate.identity();
        target::check_medium(&self.target, &identity)?;
        let name = target::absolute(&self.target)?.to_string();
        let settings = self.probe.settings(name, target::whole_blocks(&identity), true)?;
        // A simulated device needs no consent, and errors of its state are reported first.
        if !is_simulated {
            self.announce(&settings, &identity);
        }
        let mut opened = candidate.open(Opening::new(EngineOptions::default(), DEPTH)?)?;
        if is_simulated {
            self.announce(&settings, &identity);
        }
        let rounds = self.wear_out(&mut opened, &settings, identity)?;
        tell!("rounds: {}", self.output.display());
        match self.json {
            true => output::json(&rounds),
            false => output::text(&changes(&rounds)),
        }
    }

    /// Prints how much will be written, before anything is written.
    fn announce(&self, settings: &InferenceSettings, identity: &Identity) {
        settings.announce(&self.target.to_string(), identity, "by each inference, ");
        let full_writes = u64::from(self.rounds) * u64::from(self.full_writes);
        let budget = settings.write_budget.unwrap_or_default();
        let by_inferences = budget.0.saturating_mul(u64::from(self.rounds) + 1);
        let written = settings.target_size.0.saturating_mul(full_writes).saturating_add(by_inferences);
        let written = Bytes(written);
        tell!(
            "WEAR: {} rounds of {} full writes, with an inference before and after each, write at most {written} ({}); every \
             block is erased about {full_writes} times. The device may be worn out by this.",
            self.rounds,
            self.full_writes,
            settings.endurance_share(written, identity),
        );
    }

    fn wear_out(
        &self,
        opened: &mut Opened,
        settings: &InferenceSettings,
        identity: Identity,
    ) -> Result<Vec<Round>> {
        let manifest =
            run_folder::manifest(FolderKind::WearOut, settings.clone(), identity, opened.consent.clone());
        let target = self.target.to_string();
        let run = run_folder::create(Some(&self.output), &manifest, &target, Content::Documents)?;
        let folder = run.path();
        let interrupt = interrupt()?;
        let mut rounds: Vec<Round> = Vec::new();
        let (mut full_writes, mut written, mut end) = (0, Bytes::ZERO, None);
        for number in 0..=self.rounds {
            if number > 0 {
                let label = format!("round {number} of {}: {} full writes", self.rounds, self.full_writes);
                let worn =
                    write_fully(&mut opened.device, self.full_writes, settings.seed, &interrupt, &label)?;
                full_writes += worn.full_writes;
                written += worn.written;
                end = worn.end;
            }
            let statistics = opened.device.as_flash().map(|device| device.statistics());
            if let Some(statistics) = &statistics {
                tell!("after {full_writes} full writes: {}", flash_statistics::wear(statistics));
            }
            let path = folder.join(format!("round-{number:03}"));
            let inference = OngoingInference::begin(opened, settings.clone(), Some(&path))?;
            let (known, gone) = inference.infer_quietly(&mut opened.device).with_context(|| {
                format!(
                    "round {number} of {} was not finished; the rounds before it are in {}; wearing out cannot be \
                     resumed",
                    self.rounds,
                    folder.display()
                )
            })?;
            end = end.or(gone);
            let spent = known.written;
            let erases = statistics.as_ref().map(Erases::of);
            rounds.push(Round {
                full_writes,
                bytes_written: written.0,
                erases,
                end: end.clone(),
                findings: known,
            });
            written += spent;
            run.write_json("wear.json", &rounds)?;
            if let Some(end) = &end {
                tell!("the device {end}");
                break;
            }
        }
        run.finish::<InferenceSettings>()?;
        Ok(rounds)
    }
}

struct Worn {
    full_writes: u64,
    written: Bytes,
    /// Why the device accepted no more writes: a clause without a subject.
    end: Option<String>,
}

fn write_fully(
    device: &mut OpenDevice,
    full_writes: u32,
    seed: Seed,
    interrupt: &AtomicBool,
    label: &str,
) -> Result<Worn> {
    let bar = Bar::new();
    bar.step(label);
    let device = device.as_mut();
    let geometry = device.geometry();
    let io_size = IO_SIZE.min(geometry.capacity).round_down(geometry.block);
    let mut pattern = Pattern::baseline("SW").expect("it is one of the baselines");
    pattern.first.io_size = IoSize::Fixed(io_size);
    pattern.io_count = Some(geometry.capacity.0 / io_size.0);
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    let control = Control { interrupt, time_limit: None, failures_allowed: 0 };
    let mut worn = Worn { full_writes: 0, written: Bytes::ZERO, end: None };
    for index in 0..full_writes {
        let placed = pattern.place(space, seed.derive("wear-out", u64::from(index)))?;
        let mut samples: [Vec<Sample>; 1] = [Vec::new()];
        let outcome = flashlab_engine::run(device, &placed, &mut samples, &control)?;
        worn.written += outcome.written;
        if let Some(failure) = outcome.first_failure {
            let refusal = device.health().and_then(|health| health.refusal());
            worn.end = Some(refusal.unwrap_or_else(|| format!("takes no more: {failure}")));
            break;
        }
        if outcome.ended == StopReason::Interrupted {
            bail!("interrupted after {index} of these full writes; earlier rounds are kept");
        }
        worn.full_writes += 1;
        bar.share(f64::from(index + 1) / f64::from(full_writes));
    }
    Ok(worn)
}

/// For the wear and for each parameter that was found: its first value, and where it changed.
fn changes(rounds: &[Round]) -> String {
    let erases = rounds.iter().filter_map(|round| Some((round.full_writes, round.erases?)));
    let mut text = row("Erases of a block", &steps(erases, |one, other| one != other, Erases::to_string));
    for &parameter in Parameter::ALL {
        let found = rounds
            .iter()
            .filter_map(|round| Some((round.full_writes, round.findings.get(parameter)?)))
            .filter(|(_, finding)| finding.verdict == Verdict::Found);
        let steps = steps(found, |one, other| differ(one, other), |finding| finding.value_in_words());
        text += &row(parameter.title(), &steps);
    }
    let last = rounds.last();
    let count = last.map_or(0, |round| round.full_writes);
    let written = Bytes(last.map_or(0, |round| round.bytes_written));
    let lived = last.and_then(|round| round.end.as_ref());
    let lived =
        lived.map_or(String::new(), |end| format!("the device lived {count} full writes: it {end}\n"));
    format!(
        "what was found in {} rounds, and after how many full writes; {count} in all, {written}\n{lived}\n{text}",
        rounds.len()
    )
}

/// The values at each change, each with the number of full writes before it.
fn steps<T>(
    values: impl Iterator<Item = (u64, T)>,
    differ: impl Fn(&T, &T) -> bool,
    in_words: impl Fn(&T) -> String,
) -> Vec<String> {
    let mut last: Option<T> = None;
    let mut steps = Vec::new();
    for (full_writes, value) in values {
        if last.as_ref().is_none_or(|last| differ(last, &value)) {
            steps.push(format!("{} (after {full_writes})", in_words(&value)));
            last = Some(value);
        }
    }
    steps
}

/// Nothing for nothing.
fn row(title: &str, steps: &[String]) -> String {
    if steps.is_empty() { String::new() } else { format!("{title:<26}{}\n", steps.join(" -> ")) }
}

/// Whether two findings differ: sizes, times and ratios by more than 3 %. Both have to be found.
fn differ(one: &Finding, other: &Finding) -> bool {
    match (&one.value, &other.value) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            (one - other).abs() > 0.03 * one.abs().max(other.abs())
        }
        (one, other) => one != other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told_with_the_wear_at_which_it_did() {
        let device = flashlab_device::MemoryDevice::new(Bytes::mib(1), flashlab_base::Nanos(1000));
        let round = |full_writes, page: u64, cost: f64| {
            let mut known = flashlab_infer::nothing_known(&device, "worn").document;
            known.findings.push(Finding::found(Parameter::ReadPageSize, Bytes(page), 1.0, ""));
            known.findings.push(Finding::found(Parameter::PauseBenefit, cost, 1.0, ""));
            let erases = Erases {
                block_erases_min: full_writes as u32,
                block_erases_max: 2 * full_writes as u32,
                block_erases_mean: 1.5 * full_writes as f64,
            };
            let end = (full_writes == 2000).then(|| "takes no writes any more".to_owned());
            Round {
                full_writes,
                bytes_written: full_writes << 30,
                erases: Some(erases),
                end,
                findings: known,
            }
        };
        let rounds = [round(0, 4096, 0.5), round(1000, 4096, 0.51), round(2000, 4096, 0.6)];
        insta::assert_snapshot!(changes(&rounds), @r"
        what was found in 3 rounds, and after how many full writes; 2000 in all, 2.0 TiB
        the device lived 2000 full writes: it takes no writes any more

        Erases of a block         0 to 0, mean 0.00 (after 0) -> 1000 to 2000, mean 1500 (after 1000) -> 2000 to 4000, mean 3000 (after 2000)
        Read page                 4 KiB (after 0)
        Benefit of pauses         0.500 (after 0) -> 0.600 (after 2000)
        ");
    }
}
