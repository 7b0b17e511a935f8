//! What random writes leave behind, on drives of Ajwani et al. and on a device that is made up.

use std::sync::atomic::AtomicBool;

use crate::made_up::MadeUp;
use flashlab_analysis::inference::{Parameter, Value};
use flashlab_base::{Bytes, Nanos, Operation, Prng, Seed};
use flashlab_device::{Device, Request};
use flashlab_infer::{InferenceSettings, Known, infer, nothing_known};

/// Of the devices that are made up: so large that the write budget leaves enough to rewrite an eighth.
const CAPACITY: Bytes = Bytes::gib(64);

fn inferred(device: &mut dyn Device) -> Known {
    let settings = InferenceSettings {
        seed: Seed(1),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(5)),
        writing_time: Nanos::from_secs(24 * 3600),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(device, "test");
    infer(device, &settings, &mut known, &mut ());
    known
}

/// What is found of a drive of the zoo.
fn inferred_drive(name: &str) -> Known {
    let drive = flashlab_sim::zoo().into_iter().find(|drive| drive.name == name).unwrap();
    inferred(&mut drive.device().unwrap())
}

fn assert_found(known: &Known, parameter: Parameter, value: impl Into<Value>) {
    let found = known.get(parameter).unwrap();
    assert_eq!(found.value, Some(value.into()), "{parameter}: {}", found.evidence);
}

#[test]
fn a_drive_that_is_slow_until_it_is_rewritten_does_not_recover_by_itself() {
    let known = inferred_drive("dt-elite-2g");
    assert_found(&known, Parameter::RecoveryEnds, false);
    assert_found(&known, Parameter::RewriteCures, true);
}

#[test]
fn a_drive_that_defers_merges_recovers_when_they_are_done() {
    let known = inferred_drive("transmemory-1g");
    assert_found(&known, Parameter::RecoveryEnds, true);
    let found = known.get(Parameter::RecoveryTime).unwrap();
    // The backlog of five seconds of merges is worked off during sequential writes, in slices that are longer than these.
    let seconds = found.number().unwrap_or_default() / 1e9;
    assert!((5.0..30.0).contains(&seconds), "{seconds}: {}", found.evidence);
}

/// What a write takes that takes three times as long as usual, or an IO that does not.
fn time(request: &Request, is_slow: bool, random: &mut Prng) -> f64 {
    let slower = if request.operation == Operation::Write && is_slow { 3.0 } else { 1.0 };
    (1e6 + 100.0 * request.size.0 as f64) * slower * (1.0 + 0.05 * random.unit())
}

/// A device whose writes are slow after some hundred of the paper's size one after the other; until its first eighth is rewritten, if
/// that helps.
fn slow_after_small_writes(rewriting_helps: bool) -> impl FnMut(&Request, Nanos) -> f64 {
    let (mut random, mut small, mut rewritten) = (Prng::new(Seed(1)), 0, Bytes::ZERO);
    move |request, _| {
        if request.operation == Operation::Write {
            let is_small = request.size == Bytes::kib(2);
            small = if is_small || small >= 500 { small + u64::from(is_small) } else { 0 };
            let end = request.offset + request.size;
            rewritten = if is_small || request.offset != rewritten { Bytes::ZERO } else { end };
            if rewriting_helps && rewritten.0 >= CAPACITY.0 / 8 {
                small = 0;
            }
        }
        time(request, small >= 500, &mut random)
    }
}

#[test]
fn what_was_written_randomly_is_rewritten_where_nothing_else_helps() {
    for helps in [true, false] {
        let known = inferred(&mut MadeUp::new(CAPACITY, slow_after_small_writes(helps)));
        assert_found(&known, Parameter::RecoveryEnds, false);
        assert_found(&known, Parameter::RewriteCures, helps);
    }
}
