//! Infers the random devices, and judges each parameter of each device.

use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use flashlab_analysis::inference::{CONFIDENT, Finding, Inference, Parameter, Verdict};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::Device;
use flashlab_infer::{
    InferenceProgress, InferenceSettings, Known, Probe, infer_probes, nothing_known, probes_for,
};
use flashlab_plan::Plan;
use flashlab_sim::Profile;

use crate::foreign::{self, Foreign, Model};
use crate::hidden::Hidden;
use crate::no_flash;
use crate::noise::{NoiseKind, Noisy};
use crate::population::{self, DeviceFamily};
use crate::truth::{self, Mark, Truth};

/// The time limits of the probes, on the device's clock.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// Of all reading probes together; `None` for the usual one.
    pub reading: Option<Nanos>,
    /// Of each probe that writes.
    pub writing: Nanos,
}

/// Those of devices in virtual time.
pub const VIRTUAL: TimeLimits = TimeLimits { reading: None, writing: Nanos::from_secs(4 * 3600) };

/// One parameter of one device.
#[derive(Debug)]
pub struct JudgedAnswer {
    pub parameter: Parameter,
    pub finding: Finding,
    pub truth: Truth,
    /// `None` if the truth is not known.
    pub mark: Option<Mark>,
}

impl JudgedAnswer {
    /// Whether it is right: found and within the tolerance, or correctly not identifiable.
    pub fn is_right(&self) -> bool {
        matches!(self.mark, Some(Mark::Exact | Mark::Near | Mark::NotIdentifiable))
    }

    /// Whether nothing was found.
    pub fn is_undetermined(&self) -> bool {
        self.finding.verdict == Verdict::Undetermined
    }

    /// Whether it is wrong with a high confidence.
    pub fn is_confidently_wrong(&self) -> bool {
        self.mark == Some(Mark::Wrong) && self.finding.confidence >= CONFIDENT
    }
}

/// What became of one device.
#[derive(Debug)]
pub struct ProbeOutcome {
    pub seed: u64,
    pub family: &'static str,
    pub capacity: Bytes,
    pub answers: Vec<JudgedAnswer>,
    /// The time of the inference on this machine.
    pub real: Duration,
    /// By probe.
    pub groups: Vec<(&'static str, Duration)>,
    /// The time of the inference on the device's clock.
    pub virtual_time: Nanos,
    /// What it wrote.
    pub written: Bytes,
}

/// Which devices are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Random ones of the simulator.
    Simulated,
    /// The same with another kind of noise.
    OtherNoise(NoiseKind),
    /// Those of the zoo.
    Zoo,
    /// Devices that share no code with the simulator.
    Foreign,
    /// Disks without flash, which share no code with it either.
    NoFlash,
}

impl Set {
    /// As on the command line.
    pub fn option(self) -> String {
        match self {
            Set::Simulated | Set::OtherNoise(NoiseKind::Usual) => String::new(),
            Set::OtherNoise(kind) => format!(" --noise {}", kind.name()),
            Set::Zoo => " --zoo".to_owned(),
            Set::Foreign => " --foreign".to_owned(),
            Set::NoFlash => " --no-flash".to_owned(),
        }
    }
}

/// Infers and judges the devices of these seeds, `threads` at a time. The result is in the order of the
/// seeds, whatever the number of threads. If a device cannot be built, or a panic occurs, the result has an
/// error for this device only.
pub fn all(set: Set, seeds: &[u64], only: &[Parameter], threads: usize) -> Vec<anyhow::Result<ProbeOutcome>> {
    let devices: Vec<(Set, u64)> = seeds.iter().map(|&seed| (set, seed)).collect();
    each(&devices, only, threads)
}

/// The same for devices of several sets, in their order.
pub fn each(devices: &[(Set, u64)], only: &[Parameter], threads: usize) -> Vec<anyhow::Result<ProbeOutcome>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, devices.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(set, seed)) = devices.get(index) else { break };
                    let outcome = panic::catch_unwind(|| outcome(set, seed, only))
                        .unwrap_or_else(|_| Err(anyhow!("the inference or the truth panicked")))
                        .with_context(|| format!("seed {seed}"));
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn outcome(set: Set, seed: u64, only: &[Parameter]) -> anyhow::Result<ProbeOutcome> {
    match set {
        Set::Simulated => simulated(random(seed), NoiseKind::Usual, seed, only),
        Set::OtherNoise(kind) => simulated(random(seed), kind, seed, only),
        Set::Zoo => simulated(population::zoo(seed), NoiseKind::Usual, seed, only),
        Set::Foreign => Ok(of_model(foreign::model, seed, only)),
        Set::NoFlash => Ok(of_model(no_flash::model, seed, only)),
    }
}

fn random(seed: u64) -> (Profile, DeviceFamily) {
    (population::profile(seed), population::family_of(seed))
}

fn simulated(
    (profile, family): (Profile, DeviceFamily),
    kind: NoiseKind,
    seed: u64,
    only: &[Parameter],
) -> anyhow::Result<ProbeOutcome> {
    let twin = truth::Twin::new(&profile);
    let truth = |parameter| twin.truth(parameter);
    let named = (seed, family.name());
    Ok(match kind {
        NoiseKind::Usual => judged(Hidden::new(profile.device()?), named, only, VIRTUAL, truth),
        kind => {
            let device = Noisy::new(population::without_outliers(&profile).device()?, kind, seed);
            judged(Hidden::new(device), named, only, VIRTUAL, truth)
        }
    })
}

fn of_model(of: fn(u64) -> Box<dyn Model>, seed: u64, only: &[Parameter]) -> ProbeOutcome {
    let (model, truth) = (of(seed), of(seed));
    let device = Hidden::new(Foreign::new(model, seed));
    judged(device, (seed, truth.name()), only, VIRTUAL, |parameter| truth.truth(parameter))
}

/// Infers a device and judges the answers.
pub fn judged(
    mut device: Hidden<impl Device>,
    (seed, family): (u64, &'static str),
    only: &[Parameter],
    limits: TimeLimits,
    truth: impl Fn(Parameter) -> Truth,
) -> ProbeOutcome {
    let begin = Instant::now();
    let mut timer = Timer { begin, groups: Vec::new() };
    let known = inferred(&mut device, seed, only, limits, &mut timer);
    let real = begin.elapsed();
    let answers = only.iter().filter_map(|&parameter| {
        let finding = known.get(parameter)?.clone();
        let truth = truth(parameter);
        let mark = truth::judge(parameter, finding.verdict, finding.value.as_ref(), &truth);
        Some(JudgedAnswer { parameter, finding, truth, mark })
    });
    ProbeOutcome {
        seed,
        family,
        capacity: device.geometry().capacity,
        answers: answers.collect(),
        real,
        groups: timer.groups,
        virtual_time: device.now(),
        written: device.written(),
    }
}

/// Measures the time of each probe.
struct Timer {
    begin: Instant,
    groups: Vec<(&'static str, Duration)>,
}

impl InferenceProgress for Timer {
    fn begin(&mut self, _probe: &'static Probe, _index: usize, _count: usize) {
        self.begin = Instant::now();
    }

    fn ended(&mut self, probe: &'static Probe, _known: &Known, _patterns: &Plan) {
        self.groups.push((probe.name, self.begin.elapsed()));
    }
}

/// Runs the probes that these parameters need. A parameter without a probe is undetermined.
pub fn inferred(
    device: &mut dyn Device,
    seed: u64,
    only: &[Parameter],
    limits: TimeLimits,
    progress: &mut dyn InferenceProgress,
) -> Inference {
    let settings = InferenceSettings {
        seed: Seed(seed).derive("inference", 0),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: limits.reading,
        writing_time: limits.writing,
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(device, "hidden");
    infer_probes(device, &settings, &mut known, progress, probes_for(only));
    for &parameter in Parameter::ALL {
        if known.get(parameter).is_none() {
            known.findings.push(Finding::undetermined(parameter, "no probe answers it"));
        }
    }
    known.document
}

/// The counts of a parameter's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers whose truth is known.
    pub devices: u64,
    /// Of these, answers for which there is a value.
    pub identifiable: u64,
    /// Found and equal.
    pub exact: u64,
    /// Found and within 3 %, including the exact ones.
    pub within_3_percent: u64,
    /// Found and not right.
    pub wrong: u64,
    /// Of these, with a confidence of at least [`CONFIDENT`].
    pub confidently_wrong: u64,
    pub undetermined: u64,
    /// Not identifiable, which is the truth.
    pub not_identifiable: u64,
    /// Not identifiable, and it is.
    pub not_identifiable_wrong: u64,
}

impl Tally {
    /// Counts these answers.
    pub fn of<'a>(answers: impl Iterator<Item = &'a JudgedAnswer>) -> Tally {
        let mut tally = Tally::default();
        for answer in answers {
            let Some(mark) = answer.mark else { continue };
            tally.devices += 1;
            tally.identifiable += u64::from(!matches!(answer.truth, Truth::NotIdentifiable(_)));
            tally.exact += u64::from(mark == Mark::Exact);
            tally.within_3_percent += u64::from(matches!(mark, Mark::Exact | Mark::Near));
            tally.wrong += u64::from(mark == Mark::Wrong);
            tally.confidently_wrong += u64::from(answer.is_confidently_wrong());
            tally.undetermined += u64::from(answer.finding.verdict == Verdict::Undetermined);
            tally.not_identifiable += u64::from(mark == Mark::NotIdentifiable);
            tally.not_identifiable_wrong += u64::from(mark == Mark::NotIdentifiableWrong);
        }
        tally
    }
}
