//! `flashlab infer --wear-out ROUNDS`: full writes and inferences in turn, until the rounds are done or the device is.
//!
//! # Model
//! The endurance test of Ajwani et al. (appendix A): "1000 sequential writes of the entire logical address space", which
//! wear a device out about as fast as it can be, "and detailed performance tests" in turn. Round 0 is the inference of the
//! device as it is; before each other round there are so many full writes.
//!
//! ```text
//! round-000/ ...   a run of flashlab infer each, which can be shown alone
//! wear.json        what was written before each round, and its findings
//! ```

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail};
use flashlab_analysis::inference::{Finding, Inference, Parameter, Value, Verdict};
use flashlab_base::{Bytes, Seed};
use flashlab_bench::Progress;
use flashlab_engine::{Control, Ended};
use flashlab_plan::{IoSize, Pattern, Space};
use flashlab_report::InferenceJson;
use flashlab_samples::{Sample, write_json};
use serde::{Serialize, Serializer};

use crate::inference_run::{Chosen, Run};
use crate::progress::Bar;
use crate::target::{OpenDevice, Opened};
use crate::{flash_statistics, output, session};

/// How large the IOs of a full write are, where the device is not smaller.
const IO_SIZE: Bytes = Bytes::mib(1);

/// How much is written between the inferences.
#[derive(Clone, Copy)]
pub struct Wear {
    pub rounds: u32,
    pub full_writes: u32,
}

impl Wear {
    /// What all of it writes at most; `budget` is an inference's.
    pub fn written(self, capacity: Bytes, budget: Bytes) -> Bytes {
        let full = capacity.0.saturating_mul(u64::from(self.rounds) * u64::from(self.full_writes));
        Bytes(full.saturating_add(budget.0.saturating_mul(u64::from(self.rounds) + 1)))
    }
}

/// What was found after so much wear.
#[derive(Serialize)]
struct Round {
    /// How often the device was written from end to end.
    full_writes: u64,
    /// What was written by these, and by the inferences of earlier rounds.
    bytes_written: u64,
    #[serde(serialize_with = "as_object")]
    findings: Inference,
}

fn as_object<S: Serializer>(findings: &Inference, serializer: S) -> Result<S::Ok, S::Error> {
    InferenceJson(findings).serialize(serializer)
}

/// Wears the device out, and prints what changed meanwhile.
pub fn wear_out(opened: &mut Opened, chosen: &Chosen, wear: Wear, folder: &Path, json: bool) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let interrupt = session::interrupt()?;
    let mut rounds: Vec<Round> = Vec::new();
    let (mut full_writes, mut written, mut end) = (0, Bytes::ZERO, None);
    for number in 0..=wear.rounds {
        if number > 0 {
            let label = format!("round {number} of {}: {} full writes", wear.rounds, wear.full_writes);
            let worn = write_fully(&mut opened.device, wear.full_writes, chosen.seed, &interrupt, &label)?;
            full_writes += worn.full_writes;
            written += worn.written;
            end = worn.end;
        }
        if let Some(device) = opened.device.as_flash() {
            tell!("after {full_writes} full writes: {}", flash_statistics::wear(&device.statistics()));
        }
        let path = folder.join(format!("round-{number:03}"));
        let run = Run::begin(opened, chosen.clone(), Some(&path))?;
        let known = run.infer_quietly(&mut opened.device).with_context(|| {
            format!(
                "round {number} of {} was not done; what was found in the rounds is in {}, and wearing out begins anew",
                wear.rounds,
                folder.display()
            )
        })?;
        let spent = known.written;
        rounds.push(Round { full_writes, bytes_written: written.0, findings: known });
        written += spent;
        write_json(folder, "wear.json", &rounds)?;
        if let Some(end) = &end {
            tell!("the device takes no more: {end}");
            break;
        }
    }
    tell!("rounds: {}", folder.display());
    match json {
        true => output::json(&&rounds),
        false => output::text(&changes(&rounds)),
    }
}

struct Worn {
    full_writes: u64,
    written: Bytes,
    /// Why the device took no more.
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
            worn.end = Some(failure.to_string());
            break;
        }
        if outcome.ended == Ended::Interrupted {
            bail!(anyhow!("interrupted after {} of these full writes; earlier rounds are kept", index));
        }
        worn.full_writes += 1;
        bar.share(f64::from(index + 1) / f64::from(full_writes));
    }
    Ok(worn)
}

/// For each parameter that was found: its first value, and where it became another one.
fn changes(rounds: &[Round]) -> String {
    let mut text = String::new();
    for &parameter in Parameter::ALL {
        let found: Vec<(u64, &Finding)> = rounds
            .iter()
            .filter_map(|round| Some((round.full_writes, round.findings.get(parameter)?)))
            .filter(|(_, finding)| finding.verdict == Verdict::Found)
            .collect();
        let mut last: Option<&Finding> = None;
        let mut steps = Vec::new();
        for (full_writes, finding) in found {
            if last.is_none_or(|last| differ(last, finding)) {
                steps.push(format!("{} (after {full_writes})", finding.value_in_words()));
                last = Some(finding);
            }
        }
        if !steps.is_empty() {
            text += &format!("{:<26}{}\n", parameter.title(), steps.join(" -> "));
        }
    }
    let count = rounds.last().map_or(0, |round| round.full_writes);
    let written = Bytes(rounds.last().map_or(0, |round| round.bytes_written));
    format!(
        "what was found in {} rounds, and after how many full writes; {count} in all, {written}\n\n{text}",
        rounds.len()
    )
}

/// Sizes, times and ratios by more than 3 %, as far as they are found at all.
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
            let mut known = flashlab_infer::nothing_known(&device, "worn");
            known.findings.push(Finding::found(Parameter::ReadPageSize, Bytes(page), 1.0, ""));
            known.findings.push(Finding::found(Parameter::PauseBenefit, cost, 1.0, ""));
            Round { full_writes, bytes_written: full_writes << 30, findings: known }
        };
        let rounds = [round(0, 4096, 0.5), round(1000, 4096, 0.51), round(2000, 4096, 0.6)];
        insta::assert_snapshot!(changes(&rounds), @r"
        what was found in 3 rounds, and after how many full writes; 2000 in all, 2.0 TiB

        Read page                 4 KiB (after 0)
        What a pause buys         0.500 (after 0) -> 0.600 (after 2000)
        ");
    }
}
