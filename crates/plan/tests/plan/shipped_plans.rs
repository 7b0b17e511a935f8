//! The shipped plans are uFLIP's: each micro-benchmark has exactly the parameter range of Table 1,
//! computed here from the table's formulas.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_plan::{
    Choice, IoSize, Location, Misfit, ModeRule, Pattern, PatternParameter, Plan, Space, Time,
};

const IO_SIZE: f64 = 32.0 * 1024.0;
const ALL: [&str; 4] = ["SR", "RR", "SW", "RW"];
const SEQUENTIAL: [&str; 2] = ["SR", "SW"];

/// [2^0, ..., 2^last] x unit.
fn powers(last: u32, unit: f64) -> Vec<f64> {
    (0..=last).map(|exponent| f64::from(1u32 << exponent) * unit).collect()
}

fn plan(name: &str) -> Plan {
    Plan::builtin(name).unwrap_or_else(|| panic!("{name} is not shipped"))
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.experiments.iter().map(|experiment| experiment.name.as_str()).collect()
}

fn numbers(plan: &Plan, experiment: &str) -> Vec<f64> {
    let experiment = plan.experiments.iter().find(|other| other.name == experiment).unwrap();
    experiment.runs(Choice::Full).map(|(value, _)| value.number).collect()
}

/// Every experiment of the plan starts from its baseline, and has these values.
fn assert_range(name: &str, parameter: PatternParameter, experiments: &[&str], expected: &[f64]) {
    let plan = plan(name);
    assert_eq!(plan.parameter, Some(parameter), "{name}");
    assert_eq!(names(&plan), experiments, "{name}");
    for experiment in experiments {
        assert_eq!(numbers(&plan, experiment), expected, "{name} {experiment}");
    }
}

#[test]
fn granularity_has_table_1s_sizes_and_some_others() {
    let plan = plan("granularity");
    assert_eq!((plan.parameter, names(&plan)), (Some(PatternParameter::IoSize), ALL.to_vec()));
    for name in ALL {
        let sizes = numbers(&plan, name);
        let (of_table, others): (Vec<f64>, Vec<f64>) =
            sizes.iter().partition(|size| (*size / 512.0).log2().fract() == 0.0);
        assert_eq!(of_table, powers(9, 512.0), "{name}");
        assert!(!others.is_empty() && others.iter().all(|size| size % 512.0 == 0.0), "{others:?}");
    }
}

#[test]
fn alignment_has_table_1s_shifts_and_none() {
    let mut shifts = vec![0.0];
    shifts.extend(powers(6, 512.0));
    assert_eq!(*shifts.last().unwrap(), IO_SIZE);
    assert_range("alignment", PatternParameter::IoShift, &ALL, &shifts);
}

#[test]
fn locality_has_table_1s_target_sizes() {
    let plan = plan("locality");
    assert_eq!((plan.parameter, names(&plan)), (Some(PatternParameter::TargetSize), ALL.to_vec()));
    for (name, last) in [("SR", 8), ("RR", 16), ("SW", 8), ("RW", 16)] {
        assert_eq!(numbers(&plan, name), powers(last, IO_SIZE), "{name}");
    }
}

#[test]
fn the_other_micro_benchmarks_have_table_1s_ranges() {
    assert_range("partitioning", PatternParameter::Partitions, &SEQUENTIAL, &powers(8, 1.0));
    let mut increments = vec![-1.0, 0.0];
    increments.extend(powers(8, 1.0));
    assert_range("order", PatternParameter::Incr, &SEQUENTIAL, &increments);
    assert_range("parallelism", PatternParameter::ParallelDegree, &ALL, &powers(4, 1.0));
    let pairs = ["SR/RR", "SR/RW", "SR/SW", "RR/SW", "RR/RW", "SW/RW"];
    assert_range("mix", PatternParameter::Ratio, &pairs, &powers(6, 1.0));
    assert_range("pause", PatternParameter::Pause, &ALL, &powers(8, 1e5));
    assert_range("bursts", PatternParameter::Burst, &ALL, &powers(6, 10.0));
}

#[test]
fn each_experiment_departs_from_its_baseline_only_in_its_parameter() {
    for builtin in &Plan::builtins()[1..10] {
        for experiment in builtin.plan().experiments {
            let (first, second) = match experiment.name.split_once('/') {
                Some((first, second)) => (first, Some(second)),
                None => (experiment.name.as_str(), None),
            };
            let mut expected = Pattern::baseline(first).unwrap();
            if builtin.name == "bursts" {
                expected.first.time = Time::Pause { pause: Nanos::from_millis(100) };
            }
            let second = second.map(|name| Pattern::baseline(name).unwrap().first);
            assert_eq!(experiment.pattern.first, expected.first, "{} {}", builtin.name, experiment.name);
            assert_eq!(experiment.pattern.mix.map(|mix| mix.second), second);
        }
    }
}

#[test]
fn the_varied_parameter_is_what_changes_in_the_runs() {
    let last = |name: &str, experiment: &str| {
        let plan = plan(name);
        let experiment = plan.experiments.iter().find(|other| other.name == experiment).unwrap();
        experiment.runs(Choice::Full).last().unwrap().1
    };
    assert_eq!(last("granularity", "RW").first.io_size, IoSize::Fixed(Bytes::kib(256)));
    assert_eq!(last("alignment", "RW").first.io_shift, Bytes::kib(32));
    assert_eq!(last("locality", "RW").first.target_size, Some(Bytes::gib(2)));
    assert_eq!(last("partitioning", "SW").first.location, Location::Partitioned { partitions: 256 });
    assert_eq!(last("order", "SW").first.location, Location::Ordered { incr: 256 });
    assert_eq!(last("parallelism", "RW").parallel_degree, 16);
    assert_eq!(last("mix", "SW/RW").mix.unwrap().ratio, 64);
    assert_eq!(last("pause", "RW").first.time, Time::Pause { pause: Nanos(25_600_000) });
    let burst = Time::Burst { burst: 640, pause: Nanos::from_millis(100) };
    assert_eq!(last("bursts", "RW").first.time, burst);
}

#[test]
fn the_baselines_are_table_1s() {
    let plan = plan("baselines");
    assert_eq!(names(&plan), ALL);
    for experiment in &plan.experiments {
        let basic = &experiment.pattern.first;
        let mode = if experiment.name.ends_with('W') { Mode::Write } else { Mode::Read };
        let location = if experiment.name.starts_with('S') { Location::Sequential } else { Location::Random };
        assert_eq!((basic.mode, basic.location), (ModeRule::Always(mode), location));
        assert_eq!((basic.time, basic.io_size), (Time::Consecutive, IoSize::Fixed(Bytes::kib(32))));
        assert_eq!(experiment.runs(Choice::Quick).count(), 1);
    }
}

#[test]
fn quick_values_are_few_and_keep_the_ends() {
    for builtin in Plan::builtins() {
        for experiment in builtin.plan().experiments {
            let full: Vec<f64> = experiment.runs(Choice::Full).map(|(value, _)| value.number).collect();
            let quick: Vec<f64> = experiment.runs(Choice::Quick).map(|(value, _)| value.number).collect();
            assert!((1..=5).contains(&quick.len()), "{} {}", builtin.name, experiment.name);
            assert_eq!((quick.first(), quick.last()), (full.first(), full.last()));
        }
    }
}

#[test]
fn every_shipped_plan_says_what_it_shows_and_is_printed_in_full() {
    for builtin in Plan::builtins() {
        let plan = builtin.plan();
        assert_eq!(plan.name, builtin.name);
        assert!(builtin.text.starts_with('#') && !plan.title.is_empty() && plan.description.len() > 50);
        assert_eq!(Plan::parse(&plan.to_toml(), "printed.toml").unwrap(), plan, "{}", plan.to_toml());
    }
}

#[test]
fn every_run_fits_a_large_device_of_512_byte_blocks() {
    let space = Space { capacity: Bytes::gib(4), block: Bytes(512) };
    for builtin in Plan::builtins() {
        for experiment in builtin.plan().experiments {
            for (value, pattern) in experiment.runs(Choice::Full) {
                let placed = pattern.place(space, Seed(1));
                let placed =
                    placed.unwrap_or_else(|error| panic!("{} {}: {error}", builtin.name, value.label));
                assert!(placed.ios(0).take(100).count() == 100);
            }
        }
    }
}

#[test]
fn runs_that_a_device_cannot_do_are_told_from_mistakes() {
    let misfits = |name: &str, experiment: &str, space| {
        let plan = plan(name);
        let experiment = plan.experiments.iter().find(|other| other.name == experiment).unwrap();
        let runs = experiment.runs(Choice::Full);
        let misfits = runs.filter_map(|(value, pattern)| {
            let error = pattern.place(space, Seed(1)).err()?;
            Some((value.label, error.misfit().expect("placement errors say what does not fit")))
        });
        misfits.collect::<Vec<(String, Misfit)>>()
    };
    let coarse = Space { capacity: Bytes::gib(4), block: Bytes(4096) };
    let too_fine = |labels: &[&str]| -> Vec<(String, Misfit)> {
        labels.iter().map(|label| (label.to_string(), Misfit::Block)).collect()
    };
    assert_eq!(misfits("granularity", "RR", coarse), too_fine(&["512B", "1KiB", "1536B", "2KiB"]));
    assert_eq!(misfits("alignment", "RR", coarse), too_fine(&["512B", "1KiB", "2KiB"]));
    let small = Space { capacity: Bytes::gib(1), block: Bytes(512) };
    assert_eq!(misfits("locality", "RW", small), [("2GiB".to_owned(), Misfit::Space)]);
}

#[test]
fn a_run_moved_to_a_target_of_its_own_never_leaves_it() {
    let (start, size) = (Bytes::mib(64), Bytes::mib(32));
    let space = Space { capacity: start + size, block: Bytes(512) };
    let mut refused = Vec::new();
    for builtin in Plan::builtins() {
        for experiment in builtin.plan().experiments {
            for (value, pattern) in experiment.runs(Choice::Full) {
                let placed = match pattern.on_target(start, size).place(space, Seed(1)) {
                    Ok(placed) => placed,
                    Err(error) => {
                        assert_eq!((builtin.name, error.misfit()), ("locality", Some(Misfit::Space)));
                        refused.push((experiment.name.clone(), value.label));
                        continue;
                    }
                };
                let target = placed.target();
                assert!(target.iter().all(|range| range.start >= start && range.end <= start + size));
            }
        }
    }
    // 32 MiB and less is there.
    let larger = ["64MiB", "128MiB", "256MiB", "512MiB", "1GiB", "2GiB"];
    let expected =
        ["RR", "RW"].iter().flat_map(|name| larger.map(|size| (name.to_string(), size.to_owned())));
    assert_eq!(refused, expected.collect::<Vec<_>>());
}

#[test]
fn the_random_state_suits_every_block() {
    let plan = plan("random-state");
    let pattern = &plan.experiments[0].pattern;
    for (block, smallest) in [(512, 512), (4096, 4096), (16_384, 16_384)] {
        let space = Space { capacity: Bytes::mib(64), block: Bytes(block) };
        let placed = pattern.place(space, Seed(3)).unwrap();
        let ios: Vec<_> = placed.ios(0).take(20_000).collect();
        assert_eq!(ios.iter().map(|io| io.size.0).min(), Some(smallest));
        assert_eq!(ios.iter().map(|io| io.size.0).max(), Some(131_072));
        assert!(ios.iter().all(|io| io.mode == Mode::Write && io.offset.0 + io.size.0 <= space.capacity.0));
        // IOs may use the whole device, up to its last block.
        assert_eq!(placed.target(), [Bytes::ZERO..space.capacity]);
    }
}
