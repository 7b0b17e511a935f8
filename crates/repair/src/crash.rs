//! The crash harness: power failures, torn and lost writes and damage, at every place, in virtual time.
//!
//! # Model
//! A scenario is a random workload on a small volume whose device records every write, discard and flush. The power may fail
//! behind each of them. What the device has then is everything up to the last flush, and any part of what came after:
//! each write whole, not at all, or some of its sectors.
//!
//! # Method
//! 1. `workload` runs the scenario, and notes for each recorded IO which writes of the host were issued and which were flushed.
//! 2. `states` builds crash states behind each IO: all subsets of the unflushed writes while they are few, chosen and
//!    random ones beyond, with torn writes; others in addition with damage: misdirected writes, and those of `damage`, which
//!    changes what was durable, also of volumes that were closed in order.
//! 3. Each state is mounted and read. What is read has to be the state after some write of the host, not before the last flush.
//!    Of a damaged state a mount or a page may fail. But no wrong page may be returned, and no older state than is promised (`damage`).
//! 4. Of some states: recovering a second time gives the same; a power failure while recovering is one more state; an IO that
//!    fails while recovering makes no wrong page; and a write after recovery survives the next mount.
//!
//! In some scenarios reads, writes and flushes of the device fail; the volume is opened anew after an error of a write or
//! a flush, and the scenario goes on.
//!
//! Each sixth scenario is one of files: the host makes, writes, renames and removes them, and syncs. What is mounted has to be
//! the directory after some step of its operations, not before the last sync.
//!
//! Everything follows from the seed.

mod damage;
mod file_histories;
mod file_model;
mod file_workload;
mod history;
mod media;
mod report;
mod scatter;
mod states;
mod workload;

use std::sync::atomic::{AtomicU64, Ordering};

use flashlab_base::Seed;

use crate::seeded_bug::SeededBug;

use report::VIOLATIONS_MAX;
pub use report::{CrashReport, CrashViolation};
use workload::Run;
#[cfg(test)]
pub(crate) use {media::CrashMedia, scatter::Scatter};

/// Explores at least `states` crash states, from whole scenarios with this seed and the ones after it, with a number of
/// threads. The violations are in the order of their seeds.
pub fn explore(states: u64, seed: Seed, threads: usize, bug: Option<SeededBug>) -> CrashReport {
    let (next, explored) = (AtomicU64::new(seed.0), AtomicU64::new(0));
    in_threads(threads, || {
        let mut report = CrashReport::default();
        while explored.load(Ordering::Relaxed) < states && report.violations.len() < VIOLATIONS_MAX {
            let before = report.states;
            scenario(Seed(next.fetch_add(1, Ordering::Relaxed)), bug, &mut report);
            explored.fetch_add(report.states - before, Ordering::Relaxed);
        }
        report
    })
}

/// Damages each bit, byte and block of what recovery trusts, alone and in pairs, in scenarios with this seed and the ones after it: where
/// their volumes were last closed in order, and at their ends, where they were not. Of the bits, bytes and pairs it tries one in `one_in`.
pub fn explore_every_fault(
    scenarios: u64,
    seed: Seed,
    threads: usize,
    one_in: u64,
    bug: Option<SeededBug>,
) -> CrashReport {
    let done = AtomicU64::new(0);
    in_threads(threads, || {
        let mut report = CrashReport::default();
        loop {
            let number = done.fetch_add(1, Ordering::Relaxed);
            if number >= scenarios || report.violations.len() >= VIOLATIONS_MAX {
                return report;
            }
            let (run, other) = run(Seed(seed.0 + number), bug, &mut report);
            states::every_fault::explore(&run, &other, one_in, bug, &mut report);
        }
    })
}

fn in_threads(threads: usize, work: impl Fn() -> CrashReport + Sync) -> CrashReport {
    let mut total = CrashReport::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(&work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(report) => total.add(report),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    total.violations.sort_by_key(|violation| (violation.seed.0, violation.io));
    total
}

/// Explores the crash states of one scenario.
fn scenario(seed: Seed, bug: Option<SeededBug>, report: &mut CrashReport) {
    let (run, other) = run(seed, bug, report);
    states::explore(&run, &other, bug, report);
}

/// Runs one scenario, and the same on another volume.
fn run(seed: Seed, bug: Option<SeededBug>, report: &mut CrashReport) -> (Run, Run) {
    let run = |uuid| match seed.0 % 6 {
        5 => file_workload::run(seed, uuid, bug),
        _ => workload::run(seed, uuid, bug),
    };
    let (run, other) = (run(workload::UUID), run(workload::OTHER_UUID));
    report.scenarios += 1;
    report.ios += run.log.len() as u64;
    report.packed_segments += run.packed_segments;
    report.images += run.images;
    report.resizes += run.resizes;
    report.errors += run.errors;
    if let Some(what) = &run.broken {
        let (state, what) = ("no crash".to_owned(), what.clone());
        report.violations.push(CrashViolation { seed, io: run.log.len(), state, what });
    }
    (run, other)
}

#[cfg(test)]
mod tests;
