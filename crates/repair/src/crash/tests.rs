use super::*;

/// States of the slice that every test run explores.
const STATES: u64 = 12_000;

#[test]
fn no_crash_state_breaks_a_promise() {
    let report = explore(STATES, Seed(1), 2, None);
    assert!(
        report.violations.is_empty(),
        "cargo xtask crash --states {STATES} --seed 1: {:#?}",
        report.violations
    );
    assert!(report.states >= STATES && report.damaged > 500, "{report:?}");
    // A harness in which nothing is packed and no image is written tests little.
    assert!(
        report.packed_segments > 20 && report.images > 2 && report.resizes > 2 && report.errors > 2,
        "{report:?}"
    );
}

/// Of four scenarios, one of them of files, some hundreds of all faults.
#[test]
fn no_damage_makes_an_older_state_of_a_volume() {
    const ONE_IN: u64 = 400;
    let report = explore_every_fault(4, Seed(2), 2, ONE_IN, None);
    assert!(
        report.violations.is_empty(),
        "cargo xtask crash --every-fault 4 --one-in {ONE_IN} --seed 2: {:#?}",
        report.violations
    );
    assert!(report.damaged > 2_000 && report.refused > 500 && report.refused < report.damaged, "{report:?}");
    let bug = Some(SeededBug::MissingCheckpointEndsChain);
    let report = explore_every_fault(4, Seed(2), 2, ONE_IN, bug);
    assert!(!report.violations.is_empty(), "the bug is not found in {} states", report.states);
}

#[test]
fn no_crash_state_of_files_breaks_a_promise() {
    let mut report = CrashReport::default();
    for seed in 1..8 {
        let seed = Seed(6 * seed + 5);
        scenario(seed, None, &mut report);
        assert!(report.violations.is_empty(), "seed {}: {:#?}", seed.0, report.violations);
    }
    assert!(report.states > 4_000 && report.packed_segments > 5, "{report:?}");
}

#[test]
fn the_default_policy_with_several_logs_is_explored_and_packs() {
    let runs: Vec<_> = [4, 9, 14, 19].map(|seed| workload::run(Seed(seed), workload::UUID, None)).into();
    for run in &runs {
        let policy = workload::policy(run.seed, &run.layout);
        assert_eq!(policy.name(), crate::DEFAULT_POLICY, "seed {}", run.seed.0);
    }
    let packed: Vec<u64> = runs.iter().map(|run| run.packed_segments).collect();
    assert!(packed.iter().sum::<u64>() > 4, "{packed:?}");
}

#[test]
fn append_and_pack_is_not_full_while_its_hot_log_has_overwritten_pages() {
    // A million states found these: the cold log, all of it live, was packed until the volume seemed to be full.
    for seed in [33, 63, 78, 138] {
        assert_eq!(workload::run(Seed(seed), workload::UUID, None).broken, None, "seed {seed}");
    }
}

#[test]
fn each_seeded_bug_is_found() {
    for bug in SeededBug::ALL {
        let report = explore(40_000, Seed(1), 2, Some(bug));
        assert!(!report.violations.is_empty(), "{bug} is not found in {} states", report.states);
    }
}

#[test]
fn the_same_seed_finds_the_same() {
    let found = |seed| explore(500, Seed(seed), 1, Some(SeededBug::FlushDoesNothing));
    assert_eq!(found(3), found(3));
}
