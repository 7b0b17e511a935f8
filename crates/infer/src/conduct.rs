//! Runs the probes in their order, each within its share of the budget and its time.
//!
//! # Method
//! 1. A probe whose parameters all have their answers is left out.
//! 2. The probe gets its part of the budget and its deadline, and runs.
//! 3. What it did not conclude becomes undetermined, with the reason for which it ended.
//! 4. Its findings and the plan of its patterns are reported.
//!
//! # Invariants
//! - An inference that ends within a probe forgets what that probe found.

use std::sync::atomic::Ordering;

use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::Finding;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Plan};
use flashlab_samples::ProbeStep;

use crate::flash_signs::without_flash;
use crate::halt::Halt;
use crate::order::function_of;
use crate::patterns;
use crate::probe::Probe;
use crate::progress::InferenceEnd;
use crate::session::Session;
use crate::session::allowance::Allowance;
use crate::virtual_disk::{of_a_head, seek_of};

/// The time for reading ([`Session::allow_reading`]) is for devices whose small reads take this long; it grows in proportion for slower ones.
/// Source: Grupp et al., MICRO 2009: 22 to 115 us. Too long: slow devices have too little time; too short:
/// fast ones take longer than necessary.
const USUAL_READ: Nanos = Nanos::from_micros(60);
/// It grows by at most this factor. Unit: ratio. Source: choice. Too high: disks take an hour; too low: slow
/// flash stays undetermined.
const READING_TIME_FACTOR_MAX: f64 = 10.0;
/// The small reads whose median decides that, and which show a head that moves. Unit: reads. Source: choice.
/// Too many: disks take seconds; too few: an outlier decides.
const SMALL_READS: u64 = 33;

/// Runs these probes, except those whose parameters have their answers.
pub(crate) fn conduct(session: &mut Session<'_, '_>, probes: &'static [Probe]) -> InferenceEnd {
    session.report_device();
    for (index, probe) in probes.iter().enumerate() {
        if is_answered(session, probe) {
            continue;
        }
        // What is known of a part of a probe is found again with the rest of it.
        session.findings.forget(probe.parameters);
        let before = session.findings.copy();
        session.progress.begin(probe, index, probes.len());
        let share = probes[..=index].iter().map(|probe| probe.write_share).sum();
        let halt = run(session, probe, share);
        let ended = match &halt {
            Some(Halt::Gone(reason)) => Some(InferenceEnd::Gone(reason.clone())),
            Some(Halt::Interrupted) => Some(InferenceEnd::Interrupted),
            Some(Halt::Diverges(reason)) => Some(InferenceEnd::Diverged(reason.clone())),
            _ => session.settings.interrupt.load(Ordering::Relaxed).then_some(InferenceEnd::Interrupted),
        };
        let step = ProbeStep::End { probe: probe.name.to_owned(), is_complete: ended.is_none() };
        session.progress.step(step, &[]);
        if let Some(ended) = ended {
            session.findings.abandon(before);
            let plan = plan_of(session, probe);
            session.progress.abandoned(probe, &session.findings.copy(), &plan);
            return ended;
        }
        conclude_rest(session, probe, halt);
        if probes[index + 1..].iter().all(|probe| is_answered(session, probe)) {
            without_flash(&mut session.findings);
        }
        let plan = plan_of(session, probe);
        session.progress.ended(probe, &session.findings.copy(), &plan);
    }
    InferenceEnd::Done
}

/// Whether a probe has nothing to find: all it answers is concluded, and some provisional finding of it is known.
fn is_answered(session: &Session<'_, '_>, probe: &Probe) -> bool {
    let is_known = |&parameter| session.known().finding(parameter).is_some();
    probe.parameters.iter().all(|&parameter| session.is_concluded(parameter))
        && (probe.hands_in.is_empty() || probe.hands_in.iter().any(is_known))
}

/// Runs a probe; returns why it could not go on, if so. It and the probes before it may write this share of the budget.
fn run(session: &mut Session<'_, '_>, probe: &'static Probe, share: f64) -> Option<Halt> {
    let begin = match session.begin(probe, share) {
        Ok(begin) => begin,
        Err(halt) => return Some(halt),
    };
    if probe.writes() {
        return refusal(session, probe).or_else(|| probe_device(session, probe));
    }
    let times = small_reads(session);
    if let Some(seek) = seek_of(&times) {
        session.findings.has_no_flash(of_a_head(seek));
    }
    session.allow_reading(begin, slowness(&times));
    let halt = probe_device(session, probe);
    session.count_reading(begin);
    halt
}

/// Why a probe that writes cannot begin, if so.
fn refusal(session: &mut Session<'_, '_>, probe: &'static Probe) -> Option<Halt> {
    if session.settings.write_budget.is_none() {
        return Some(Halt::Lacks("it needs writes, and flashlab has no consent to write".to_owned()));
    }
    let (left, block) = (session.writes_left(), session.block());
    if left < block {
        session.short(Halt::Budget { needed: block, left });
    }
    (!session.may_write(probe)).then_some(Halt::Interrupted)
}

fn probe_device(session: &mut Session<'_, '_>, probe: &'static Probe) -> Option<Halt> {
    let read = patterns::ios(Mode::Read, Location::Random, session.block(), 1);
    let halt = match function_of(probe)(session).err() {
        Some(Halt::Failed(reason)) if session.is_silent(&read) => Some(Halt::Gone(reason)),
        halt => halt,
    };
    report_concluded(session);
    halt
}

/// The response times of small random reads, one at a time, in ns. Each probe that reads measures them, so that a resumed inference does
/// the same.
fn small_reads(session: &mut Session<'_, '_>) -> Vec<f64> {
    let random = patterns::ios(Mode::Read, Location::Random, session.block(), SMALL_READS);
    // What fails here fails again at once.
    patterns::responses(&session.run("small-reads", &random).unwrap_or_default())
}

/// How many times as long as usual small reads take.
fn slowness(times: &[f64]) -> f64 {
    (upper_median(times) / USUAL_READ.0 as f64).clamp(1.0, READING_TIME_FACTOR_MAX)
}

/// Concludes what a probe left.
fn conclude_rest(session: &mut Session<'_, '_>, probe: &Probe, halt: Option<Halt>) {
    let reason = halt.map_or("The probes came to no decision.".to_owned(), |halt| halt.to_string());
    for &parameter in probe.hands_in {
        if session.known().finding(parameter).is_none() {
            session.hand_in(Finding::undetermined(parameter, reason.clone()));
        }
    }
    for &parameter in probe.parameters {
        if !session.is_concluded(parameter) {
            let provisional = session.provisional(parameter);
            session.conclude(provisional.unwrap_or_else(|| Finding::undetermined(parameter, reason.clone())));
        }
    }
    session.findings.settle(probe.parameters);
    report_concluded(session);
}

fn report_concluded(session: &mut Session<'_, '_>) {
    for finding in session.findings.take_concluded() {
        session.progress.concluded(&finding);
    }
}

/// The patterns that a probe ran, as a plan.
fn plan_of(session: &mut Session<'_, '_>, probe: &Probe) -> Plan {
    let is_filled_in_part = session.filled_until() > Bytes::ZERO;
    let (experiments, allowance) = session.take_experiments();
    let how = how_to_repeat(allowance, is_filled_in_part, experiments.len());
    Plan::new(probe.name, probe.about, &how, experiments)
}

/// What the plan of a probe does not show: the device's state, and what happened between its patterns.
fn how_to_repeat(allowance: &Allowance, is_filled_in_part: bool, experiments: usize) -> String {
    let Allowance { runs, idle_times, idle, on_data, .. } = *allowance;
    let (state, option) = match on_data {
        true => ("which it had filled from end to end", " --state sequential"),
        false if is_filled_in_part => ("which it was filling", " --state sequential"),
        false => ("as it was", ""),
    };
    let repeated = match runs.saturating_sub(experiments as u64) {
        0 => String::new(),
        more => format!(" {more} more runs repeated patterns of this plan."),
    };
    let idle = match idle_times {
        0 => String::new(),
        idle_times => format!(" Between its runs the device was idle {idle_times} times, {idle} in all."),
    };
    format!(
        "Run by flashlab infer on a device {state}.{repeated}{idle} To run it alone: flashlab run PLAN TARGET{option} --repetitions 1"
    )
}
