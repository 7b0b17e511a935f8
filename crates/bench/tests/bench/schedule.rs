//! The benchmark plan (uFLIP section 4.2) is kept to: in what order, where, with which pauses, and at
//! what cost.

use std::collections::HashSet;
use std::ops::Range;

use flashlab_analysis::findings::RunEnd;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_bench::{Purpose, RunRecord, Thoroughness, expected_written, most_written};
use flashlab_plan::{Location, ModeRule, Pattern, Plan};

use crate::lab::{CAPACITY, Lab, Measured, gap, zeus};

const ALL: &[&str] = &Plan::MICRO_BENCHMARKS;
const LINGERING: &str = "[lingering]\nper_write = \"50ms\"\nlongest = \"2.5s\"\nread_factor = 3.0\n";
const STARTUP: &str = "[startup]\nios = 125\nfactor = 0.1\nidle = \"2s\"\n";

fn pattern(record: &RunRecord) -> Pattern {
    let plan = Plan::parse(&record.pattern, "a record").unwrap();
    plan.experiments.into_iter().next().unwrap().pattern
}

/// The areas of a run that are written sequentially.
fn areas(record: &RunRecord) -> Vec<Range<u64>> {
    let pattern = pattern(record);
    let sequential = pattern.basics().filter(|basic| {
        basic.mode != ModeRule::Always(Mode::Read)
            && match basic.location {
                Location::Sequential | Location::Partitioned { .. } => true,
                Location::Ordered { incr } => incr.abs() <= 1,
                _ => false,
            }
    });
    let range = |offset: Bytes, size: Bytes| offset.0..offset.0 + size.0;
    sequential.map(|basic| range(basic.target_offset, basic.target_size.unwrap())).collect()
}

fn is_state(record: &RunRecord) -> bool {
    matches!(record.purpose, Purpose::State { .. })
}

/// What must be so whatever the device and the plans are.
fn check(lab: &Lab, measured: &Measured) {
    let schedule = measured.schedule();
    let points: Vec<&RunRecord> = measured.points_run().collect();

    // Everything planned was done, in that order, and once.
    let done: Vec<String> = points.iter().map(|record| format!("{:?}", record.purpose)).collect();
    assert_eq!(done.len(), schedule.steps.len());
    assert_eq!(done.iter().collect::<HashSet<_>>().len(), done.len());
    for (record, step) in points.iter().zip(&schedule.steps) {
        let Purpose::Point { plan, experiment, label, repetition, .. } = &record.purpose else { panic!() };
        assert_eq!((plan, experiment, *repetition), (&step.plan, &step.experiment, step.repetition));
        assert_eq!(label, &step.value.label);
    }

    // Reads first, then what leaves the state alone, then sequential writes.
    let group = |record: &&RunRecord| match (pattern(record).writes(), areas(record).is_empty()) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => 2,
    };
    assert!(points.iter().map(group).is_sorted());

    // Areas do not overlap until a reset, and resets come only when the next area does not fit.
    let (mut used, mut resets): (Vec<Range<u64>>, u32) = (Vec::new(), 0);
    for (index, record) in measured.records.iter().enumerate() {
        if is_state(record) {
            resets += u32::from(index > 0);
            if index > 0 {
                let next = areas(&measured.records[index + 1]);
                let taken = used.iter().map(|range| range.end.next_multiple_of(1 << 20)).max().unwrap();
                assert!(next.iter().all(|range| taken + (range.end - range.start) > lab.profile.capacity.0));
            }
            used.clear();
            continue;
        }
        for area in areas(record) {
            let overlap = used.iter().find(|other| area.start < other.end && other.start < area.end);
            assert_eq!(overlap, None, "run {} has {area:?}", record.run);
            used.push(area);
        }
    }
    assert_eq!(resets, schedule.resets);

    // The pause before each run is the schedule's.
    for pair in measured.records.windows(2) {
        let [before, after] = pair else { unreachable!() };
        assert_eq!(gap(before, after).0, after.pause_ns, "run {}", after.run);
        if matches!(before.purpose, Purpose::Point { .. }) {
            let expected = if pattern(before).writes() { schedule.pause } else { shortest_pause(lab) };
            assert_eq!(after.pause_ns, expected.0, "run {}", after.run);
        }
        if is_state(before) {
            assert!(after.pause_ns >= schedule.pause.0 && after.pause_ns >= 1_000_000_000);
        }
    }

    // No more is written than was announced, and the samples agree.
    let plans: Vec<Plan> = lab.manifest.plans.iter().map(|text| Plan::parse(text, "x").unwrap()).collect();
    let most = most_written(&plans, &lab.manifest.settings, lab.profile.block).unwrap();
    let written: u64 = measured.records.iter().map(|record| record.written_bytes).sum();
    assert!(written <= most.0, "{} of {most}", Bytes(written));
    assert_eq!(measured.findings.method.bytes_written, Bytes(written));

    // Every figure counts IOs, as many as it says.
    for (record, step) in points.iter().zip(&schedule.steps) {
        let degree = u64::from(step.pattern.parallel_degree);
        let counted = count(measured, record.run);
        // ... or it was given up after eight times its time.
        let took = record.end_ns - record.begin_ns;
        let is_given_up = counted > 0 && took >= 8 * step.time_limit.unwrap().0;
        // ... or it settled late and went on up to its bound.
        let is_at_bound = step.window_ios.is_some() && record.ended == Some(RunEnd::CountReached);
        assert!(
            counted >= step.io_count_least || is_given_up || is_at_bound,
            "{step}: {counted} of {}",
            step.io_count_least
        );
        let count = step.pattern.io_count.unwrap();
        let most = (count - step.pattern.io_ignore) * degree;
        assert!(counted <= most, "{step}: {counted} of {most}");
    }
}

fn count(measured: &Measured, run: u32) -> u64 {
    let experiments = measured.findings.micro_benchmarks.iter().flat_map(|found| &found.experiments);
    let runs = experiments.flat_map(|experiment| &experiment.points).flat_map(|point| &point.runs);
    runs.filter(|summary| summary.run == run).map(|summary| summary.response.count).sum()
}

fn shortest_pause(lab: &Lab) -> Nanos {
    match lab.manifest.settings.thoroughness {
        Thoroughness::Quick => Nanos::from_millis(20),
        Thoroughness::Full => Nanos::from_secs(1),
    }
}

/// What the micro-benchmarks took, from the end of the last baseline.
fn elapsed(measured: &Measured) -> Nanos {
    let first = measured.records.iter().position(|r| matches!(r.purpose, Purpose::Point { .. })).unwrap();
    let end = measured.records.last().unwrap().end_ns;
    Nanos(end - measured.records[first - 1].end_ns)
}

#[test]
fn a_quick_run_keeps_to_its_plan_and_its_budget() {
    let noisy = "[noise]\nsigma = 0.2\nseed = 3\n".to_owned();
    for more in [String::new(), STARTUP.to_owned() + LINGERING + &noisy] {
        let lab = Lab::quick(&more, ALL);
        let measured = lab.measure();
        check(&lab, &measured);
        let budget = lab.manifest.settings.budget.unwrap();
        assert!(measured.schedule().time <= budget, "{} for {more}", measured.schedule().time);
        assert!(elapsed(&measured) <= Nanos(budget.0 * 11 / 10), "{} for {more}", elapsed(&measured));
        // The budget is not left lying about either: this device is slower than what it is made for.
        assert!(measured.schedule().time >= Nanos(budget.0 / 2), "{}", measured.schedule().time);
    }
}

#[test]
fn on_a_usual_device_about_as_much_is_written_as_was_expected() {
    let mut profile = zeus(Bytes::gib(1), "[noise]\nsigma = 0.2\nseed = 3\n");
    let classes = profile.throughput.as_mut().unwrap();
    for line in [
        &mut classes.sequential_read,
        &mut classes.random_read,
        &mut classes.sequential_write,
        &mut classes.random_write,
    ] {
        // 200 us for 32 KiB.
        line.a = Nanos(60_000);
        line.b_us_per_kb = 4.375;
    }
    let lab = Lab::new(profile, Thoroughness::Quick, ALL);
    let plans = Plan::MICRO_BENCHMARKS.map(|name| Plan::builtin(name).unwrap());
    let expected = expected_written(&plans, &lab.manifest.settings, Bytes(512));
    let written = lab.measure().findings.method.bytes_written;
    let times = written.0 as f64 / expected.0 as f64;
    assert!((0.5..=1.2).contains(&times), "{written} and not {expected}");
}

#[test]
fn a_full_run_keeps_to_its_plan() {
    let lab = Lab::full(STARTUP, &["order", "parallelism", "mix", "locality"]);
    let measured = lab.measure();
    check(&lab, &measured);
    assert!(measured.schedule().resets > 0, "256 MiB are not enough for all areas");
}

#[test]
fn a_large_target_needs_no_reset() {
    // As the paper says of its 32 GB devices.
    let lab = Lab::new(zeus(Bytes::gib(2048), ""), Thoroughness::Quick, &["order", "parallelism", "mix"]);
    let measured = lab.measure();
    check(&lab, &measured);
    assert_eq!(measured.schedule().resets, 0);
    // Twenty seconds cover a small part of it, which is said.
    assert_eq!(measured.findings.method.state, "random (in part)");
    assert!(measured.findings.warnings.iter().any(|warning| warning.kind == "state_in_part"));
}

#[test]
fn a_mix_measures_both_of_its_patterns_beyond_their_start_up_phase() {
    // The paper's example: behind 128 cheap random writes, a mix of four reads to one write needs 640 IOs.
    // Large enough that no run would write too much of it, nor a mix of 64 to 1 need too much time.
    let mut lab = Lab::new(zeus(Bytes::gib(16), STARTUP), Thoroughness::Quick, &["mix"]);
    lab.manifest.settings.budget = Some(Nanos::from_secs(1000));
    let measured = lab.measure();
    check(&lab, &measured);
    assert_eq!(measured.baseline("RW").io_ignore, 128);
    for record in measured.points_run() {
        let Purpose::Point { experiment, value, .. } = &record.purpose else { panic!() };
        let ratio = *value as u64;
        if experiment.ends_with("RW") {
            assert_eq!(record.io_ignore, 128 * (ratio + 1), "{experiment} {ratio}");
        } else {
            assert_eq!(record.io_ignore, 0, "{experiment}");
        }
        let seconds = lab
            .samples(record.run)
            .iter()
            .filter(|sample| sample.position >= record.io_ignore && sample.position % (ratio + 1) == ratio)
            .count();
        assert!(seconds >= 8, "{experiment} {ratio}: {seconds}");
    }
    // The figures are those of the running phase, whatever the ratio.
    for point in measured.points("mix", "RR/RW") {
        let (rr, rw) = (357.584, 942.224);
        let truth = (point.value * rr + rw) / (point.value + 1.0);
        let got = point.response_ns_mean / 1e3;
        assert!((got / truth - 1.0).abs() < 0.03, "{}: {got} and not {truth}", point.label);
    }
}

#[test]
fn a_start_up_phase_that_a_quick_run_has_no_time_for_is_said() {
    // 2000 writes of start-up before each of 75 runs would take several times the budget.
    let lab = Lab::quick("[startup]\nios = 700\nfactor = 0.5\nidle = \"1s\"\n", ALL);
    let measured = lab.measure();
    check(&lab, &measured);
    assert!(measured.schedule().time <= lab.manifest.settings.budget.unwrap());
    let shortened = measured.findings.warnings.iter().find(|warning| warning.kind == "startup_shortened");
    assert!(shortened.unwrap().message.contains("--full"));
    let is_short = |record: &&RunRecord| record.io_ignore < record.io_ignore_wanted;
    assert!(measured.points_run().any(|record| is_short(&record)));
}

#[test]
fn a_slow_device_needs_more_than_the_budget_and_that_is_said_before() {
    // A card whose random writes take 40 ms, as some of uFLIP's USB drives.
    let mut profile = zeus(Bytes::gib(1), STARTUP);
    profile.throughput.as_mut().unwrap().random_write.a = Nanos::from_millis(40);
    let lab = Lab::new(profile, Thoroughness::Quick, ALL);
    let measured = lab.measure();
    check(&lab, &measured);
    let (budget, announced) = (lab.manifest.settings.budget.unwrap(), measured.schedule().time);
    assert!(announced > budget);
    // Sequential writes of many processes cost what random ones do, which the baselines do not tell.
    assert!(elapsed(&measured).0 <= announced.0 / 2 * 3, "{} of {announced}", elapsed(&measured));
}

#[test]
fn runs_end_for_the_reason_that_they_give() {
    let lab = Lab::quick("[noise]\nsigma = 0.3\nseed = 1\n", &["granularity", "bursts"]);
    let measured = lab.measure();
    for (record, step) in measured.points_run().zip(&measured.schedule().steps) {
        let counted = count(&measured, record.run);
        let took = record.end_ns - record.begin_ns;
        match record.ended.unwrap() {
            RunEnd::PrecisionReached => assert!(counted >= step.io_count_min, "{step}"),
            RunEnd::BudgetUsed => assert!(took >= step.time_limit.unwrap().0, "{step}: {took}"),
            RunEnd::CountReached => assert_eq!(Some(counted + record.io_ignore), step.pattern.io_count),
        }
    }
}

#[test]
fn what_does_not_fit_the_device_is_left_out_with_the_reason() {
    let lab = Lab::quick("", &["locality"]);
    let measured = lab.measure();
    let left_out = &measured.schedule().left_out;
    // 2 GiB do not fit into 256 MiB, for reads and for writes.
    assert_eq!(left_out.len(), 2);
    for warning in left_out {
        assert!(warning.message.starts_with("locality R"), "{}", warning.message);
        assert!(
            warning.message.contains("2GiB") && warning.message.contains("256MiB"),
            "{}",
            warning.message
        );
    }
    let shown = measured.findings.warnings.iter().filter(|warning| warning.kind == "left_out").count();
    assert_eq!(shown, 2, "the findings name what was left out");
    assert_eq!(CAPACITY, lab.profile.capacity);
}

#[test]
fn experiments_of_a_plan_stand_together_where_they_vary_the_same() {
    let experiment = |name: &str, vary: &str| {
        format!(
            "[[experiment]]\nname = \"{name}\"\nmode = \"read\"\nlocation = \"random\"\nio_size = \"4KiB\"\nio_count = 40\n{vary}\n"
        )
    };
    let sizes = "vary = \"IOSize\"\nvalues = [\"4KiB\", \"8KiB\"]";
    let degrees = "vary = \"ParallelDegree\"\nvalues = [1, 2]";
    let all =
        [("a", sizes), ("b", degrees), ("c", ""), ("d", sizes)].map(|(name, vary)| experiment(name, vary));
    let mut lab = Lab::full("", &[]);
    lab.manifest.plans = vec![format!("version = 1\nname = \"own\"\n{}", all.concat())];
    lab.manifest.settings.methodology = false;
    lab.manifest.settings.state = flashlab_bench::State::None;
    let found = lab.measure().findings.micro_benchmarks;
    let shown: Vec<_> = found
        .iter()
        .map(|micro| {
            let names: Vec<&str> = micro.experiments.iter().map(|found| found.pattern.as_str()).collect();
            (micro.parameter.as_str(), micro.unit.as_str(), names.concat())
        })
        .collect();
    let expected = [("IOSize", "bytes", "ad"), ("ParallelDegree", "", "b"), ("", "", "c")];
    assert_eq!(shown, expected.map(|(parameter, unit, names)| (parameter, unit, names.to_owned())));
}

#[test]
fn plans_are_run_as_they_are_written_outside_the_methodology() {
    let text = "version = 1\nname = \"own\"\nmode = \"write\"\nlocation = \"sequential\"\nio_size = \"4KiB\"\nio_count = 300\nio_ignore = 100\n";
    let mut lab = Lab::full("", &[]);
    lab.manifest.plans = vec![text.to_owned()];
    lab.manifest.settings.methodology = false;
    lab.manifest.settings.state = flashlab_bench::State::None;
    let measured = lab.measure();
    assert_eq!(measured.records.len(), 3);
    for (index, record) in measured.records.iter().enumerate() {
        assert_eq!(record.ended, Some(RunEnd::CountReached));
        assert_eq!((record.written_bytes, record.io_ignore), (300 * 4096, 100));
        assert_eq!(record.pause_ns, if index == 0 { 0 } else { 1_000_000_000 });
        assert_eq!(count(&measured, record.run), 200);
    }
    let plans = [Plan::parse(text, "own.toml").unwrap()];
    let most = most_written(&plans, &lab.manifest.settings, Bytes(512)).unwrap();
    assert_eq!(most, Bytes(3 * 300 * 4096));
}
