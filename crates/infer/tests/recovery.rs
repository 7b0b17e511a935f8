//! What random writes leave behind, on drives of Ajwani et al. and on a device that is made up.

mod made_up;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Inference, Parameter, Value};
use flashlab_base::{Bytes, Nanos, Operation, Prng, Seed};
use flashlab_device::{Device, Request};
use flashlab_infer::{Settings, infer, nothing_known};
use made_up::MadeUp;

fn inferred(device: &mut dyn Device) -> Inference {
    let settings = Settings {
        seed: Seed(1),
        write_budget: Some(Settings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(5)),
        writing_time: Nanos::from_secs(24 * 3600),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(device, "test");
    infer(device, &settings, &mut known, &mut ());
    known
}

/// What is found of a drive of the zoo, made smaller.
fn inferred_drive(name: &str, capacity: Bytes) -> Inference {
    let drive = flashlab_sim::zoo().into_iter().find(|drive| drive.name == name).unwrap();
    inferred(&mut drive.resized(capacity).unwrap().device().unwrap())
}

fn assert_found(known: &Inference, parameter: Parameter, value: impl Into<Value>) {
    let found = known.get(parameter).unwrap();
    assert_eq!(found.value, Some(value.into()), "{parameter}: {}", found.evidence);
}

#[test]
fn a_drive_that_is_slow_until_it_is_rewritten_does_not_recover_by_itself() {
    let known = inferred_drive("dt-elite-2g", Bytes::mib(512));
    assert_found(&known, Parameter::RecoveryEnds, false);
    assert_found(&known, Parameter::RewriteCures, true);
}

#[test]
fn a_drive_that_puts_off_merges_recovers_when_they_are_done() {
    let known = inferred_drive("transmemory-1g", Bytes::mib(512));
    assert_found(&known, Parameter::RecoveryEnds, true);
    let found = known.get(Parameter::RecoveryTime).unwrap();
    // A second of random writes leaves two of merges, which are done in slices beside sequential writes that are half as long.
    let seconds = found.number().unwrap_or_default() / 1e9;
    assert!((5.0..30.0).contains(&seconds), "{seconds}: {}", found.evidence);
}

/// What a write takes that takes three times as long as usual, or an IO that does not.
fn time(request: &Request, is_slow: bool, random: &mut Prng) -> f64 {
    let slower = if request.operation == Operation::Write && is_slow { 3.0 } else { 1.0 };
    (1e6 + 100.0 * request.size.0 as f64) * slower * (1.0 + 0.05 * random.unit())
}

#[test]
fn what_was_written_randomly_is_rewritten_where_nothing_else_helps() {
    // Writes are slow while any of the first eighth was written in small pieces and not rewritten since.
    let (mut random, mut stray, slot) = (Prng::new(Seed(1)), BTreeSet::new(), Bytes::kib(32));
    let service = move |request: &Request, _| {
        if request.operation == Operation::Write && request.offset < Bytes::mib(64) {
            let slots = request.offset.0 / slot.0..(request.offset + request.size).0.div_ceil(slot.0);
            if request.size < slot {
                stray.extend(slots);
            } else {
                stray.retain(|stray| !slots.contains(stray));
            }
        }
        time(request, !stray.is_empty(), &mut random)
    };
    let known = inferred(&mut MadeUp::new(Bytes::mib(512), service));
    assert_found(&known, Parameter::RecoveryEnds, false);
    assert_found(&known, Parameter::RewriteCures, true);
}

#[test]
fn rewriting_does_not_cure_what_is_slow_for_ever() {
    // Writes are slow after some hundred of the paper's size one after the other.
    let (mut random, mut small) = (Prng::new(Seed(1)), 0);
    let service = move |request: &Request, _| {
        if small < 500 {
            small = if request.operation == Operation::Write && request.size == Bytes::kib(2) {
                small + 1
            } else {
                0
            };
        }
        time(request, small >= 500, &mut random)
    };
    let known = inferred(&mut MadeUp::new(Bytes::mib(512), service));
    assert_found(&known, Parameter::RecoveryEnds, false);
    assert_found(&known, Parameter::RewriteCures, false);
}
