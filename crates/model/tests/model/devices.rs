//! A simulated device is measured zone by zone, and its own parameters come back.

use std::sync::atomic::AtomicBool;

use flashlab_base::{Bytes, Identity, Nanos, Seed};
use flashlab_bench::{BenchManifest, Settings, Silent, State, Thoroughness};
use flashlab_device::Device;
use flashlab_model::{
    DeviceModel, Extraction, GoalVerdict, MODEL_VERSION, ModelCheck, ModelDocument, ModelSource, RunLength,
    RunPoint, TuneSurroundings, TuneTarget, WorkloadRequest, read_model, run_points, tune,
};
use flashlab_plan::{Plan, Space};
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::Profile;
use flashlab_sim::profile::ThroughputClass;

fn zeus(extra: &str) -> Profile {
    let text = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "zeus").unwrap().to_toml();
    Profile::parse(&format!("{text}\n{extra}"), "zeus with more").unwrap()
}

fn extraction(device: &mut dyn Device) -> Extraction {
    let geometry = device.geometry();
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    Extraction { space, zones: 3, depth_max: 16, writes: true, length: RunLength::REAL }
}

/// Runs plans on the device as `model fit` does, and returns their points.
fn measured(device: &mut dyn Device, plans: &[Plan]) -> Vec<RunPoint> {
    measured_as(FolderKind::ModelFit, device, plans)
}

/// Runs plans on the device as they are, and returns their points.
pub fn measured_as(kind: FolderKind, device: &mut dyn Device, plans: &[Plan]) -> Vec<RunPoint> {
    let directory = tempfile::tempdir().unwrap();
    let identity = device.identity();
    let settings = Settings {
        methodology: false,
        state: State::None,
        seed: Seed(1),
        repetitions: 1,
        target: "sim:test".to_owned(),
        target_size: identity.capacity,
        ..Settings::new(Thoroughness::Quick)
    };
    let manifest: BenchManifest = BenchManifest {
        plans: plans.iter().map(Plan::to_toml).collect(),
        ..Manifest::new(kind, settings, identity, String::new())
    };
    let path = directory.path().join("run");
    let folder = RunFolder::create(&path, &manifest).unwrap();
    flashlab_bench::bench(device, &folder, &manifest, &AtomicBool::new(false), &Silent).unwrap();
    run_points(&path).unwrap()
}

fn all_plans(extraction: &Extraction) -> Vec<Plan> {
    let sizes = extraction
        .size_steps()
        .into_iter()
        .flat_map(|step| extraction.sizes().into_iter().map(move |size| extraction.size_plan(step, size)));
    sizes.chain(extraction.queue_plans()).collect()
}

fn fitted(profile: &Profile) -> DeviceModel {
    let mut device = profile.device().unwrap();
    let plans = all_plans(&extraction(&mut device));
    let points = measured(&mut device, &plans);
    let source = ModelSource {
        files_crc32: None,
        version: MODEL_VERSION,
        flashlab: "test".to_owned(),
        identity: Identity { target: "sim:test".to_owned(), ..profile.identity() },
        source: "test".to_owned(),
        points,
        bursts: Vec::new(),
    };
    DeviceModel::fit(source).unwrap()
}

/// The largest relative error of the eight parameters.
fn worst_error(profile: &Profile) -> f64 {
    let document = ModelDocument::of(&fitted(profile));
    let truth = profile.throughput.unwrap();
    let lines = [truth.sequential_read, truth.random_read, truth.sequential_write, truth.random_write];
    let errors = ThroughputClass::ALL.into_iter().zip(lines).flat_map(|(class, line)| {
        let found = document.line(class);
        assert!(found.holds && found.p_value.unwrap() < 1e-9, "{class:?}: {found:?}");
        [found.a_us.unwrap() / (line.a.0 as f64 / 1e3), found.b_us_per_kb.unwrap() / line.b_us_per_kb]
    });
    errors.map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn the_zeus_gives_its_own_eight_parameters_back() {
    let exact = worst_error(&zeus(""));
    assert!(exact < 0.001, "{exact}");
    let jittered = worst_error(&zeus("[noise]\nsigma = 0.05\nseed = 7\n"));
    assert!(jittered < 0.02, "{jittered}");
}

#[test]
fn a_class_whose_line_does_not_hold_is_checked_apart() {
    let mut profile = zeus("[noise]\nsigma = 0.05\nseed = 7\n");
    // Every write costs the same, whatever its size: there is no B.
    profile.throughput.as_mut().unwrap().random_write.b_us_per_kb = 0.0;
    let model = fitted(&profile);
    let mut device = profile.device().unwrap();
    let extraction = extraction(&mut device);
    let step = extraction.size_steps().into_iter().last().unwrap();
    let plans: Vec<Plan> =
        extraction.check_sizes().into_iter().map(|size| extraction.check_size_plan(step, size)).collect();
    let report = ModelCheck::new(&model, "sim:test", true, true, &measured(&mut device, &plans));
    let names: Vec<&str> = report.summaries.iter().map(|summary| summary.name).collect();
    assert_eq!(names, ["sw", "rw", "apart", "all"]);
    let [sw, rw, apart, all] = &report.summaries[..] else { panic!("{report:?}") };
    assert!(sw.holds && !rw.holds && apart.rows == rw.rows && all.rows == sw.rows, "{report:?}");
    assert!(
        matches!(&report.apart[..], [reason] if reason.starts_with("random writes: ")),
        "{:?}",
        report.apart
    );
    assert_eq!(report.goal(), GoalVerdict::Met, "{report:?}");
}

#[test]
fn a_class_that_misses_is_in_the_verdict() {
    let model = fitted(&zeus(""));
    // Random writes take 15 % longer now, and the mean over all four classes is 4 % off.
    let mut slower = zeus("");
    let lines = slower.throughput.as_mut().unwrap();
    lines.random_write.a = Nanos((lines.random_write.a.0 as f64 * 1.15) as u64);
    lines.random_write.b_us_per_kb *= 1.15;
    let mut device = slower.device().unwrap();
    let extraction = extraction(&mut device);
    let plans: Vec<Plan> = extraction
        .size_steps()
        .into_iter()
        .flat_map(|step| extraction.check_sizes().into_iter().map(move |size| (step, size)))
        .map(|(step, size)| extraction.check_size_plan(step, size))
        .collect();
    let report = ModelCheck::new(&model, "sim:test", true, true, &measured(&mut device, &plans));
    let all = report.summaries.last().unwrap();
    assert!(all.throughput_error < 0.05 && all.p50_error.unwrap() < 0.1, "{all:?}");
    assert_eq!(report.goal(), GoalVerdict::Missed, "{report:?}");
    assert_eq!(report.missed().map(|summary| summary.name).collect::<Vec<_>>(), ["rw"]);
}

#[test]
fn a_device_that_changed_since_the_fit_is_asked_for_no_more_than_its_drift() {
    let model = fitted(&zeus(""));
    // Reads take a quarter longer now.
    let mut slower = zeus("");
    let lines = slower.throughput.as_mut().unwrap();
    for line in [&mut lines.sequential_read, &mut lines.random_read] {
        line.a = Nanos(line.a.0 * 5 / 4);
        line.b_us_per_kb *= 1.25;
    }
    let mut device = slower.device().unwrap();
    let extraction = extraction(&mut device);
    let step = extraction.size_steps()[0];
    let check = extraction.check_sizes().into_iter().map(|size| extraction.check_size_plan(step, size));
    let checked: Vec<Plan> = check.flat_map(|plan| [plan.clone(), plan]).collect();
    let again = vec![extraction.size_plan(step, Bytes::kib(16))];
    let report = ModelCheck::new(&model, "real", false, true, &measured(&mut device, &checked));
    assert_eq!(report.goal(), GoalVerdict::Undecided, "{report:?}");
    assert_eq!(report.undecided.last().unwrap(), "all: no measurement of throughput and p50 was repeated");
    let all = [again, checked].concat();
    let report = ModelCheck::new(&model, "real", false, true, &measured(&mut device, &all));
    assert!(report.rows.iter().all(|row| row.size_bytes != 16 << 10), "what was fitted is no row");
    let last = report.summaries.last().unwrap();
    assert!((last.throughput_drift.unwrap() - 0.25).abs() < 0.01, "{last:?}");
    assert!((last.p50_drift.unwrap() - 0.2).abs() < 0.01, "{last:?}");
    assert_eq!((report.goal(), &report.undecided[..]), (GoalVerdict::Met, &[][..]), "{report:?}");
    // Of another device it is no drift.
    let other = ModelCheck::new(&model, "other", false, false, &measured(&mut device, &all));
    assert_eq!(other.goal(), GoalVerdict::Undecided, "{other:?}");
    assert!(other.rows.iter().all(|row| row.throughput_drift.is_none()), "{other:?}");
}

#[test]
fn a_device_that_changed_too_much_has_no_verdict() {
    let model = fitted(&zeus(""));
    let mut slower = zeus("");
    let lines = slower.throughput.as_mut().unwrap();
    for line in [&mut lines.sequential_read, &mut lines.random_read] {
        line.a = Nanos(line.a.0 * 2);
        line.b_us_per_kb *= 2.0;
    }
    let mut device = slower.device().unwrap();
    let extraction = extraction(&mut device);
    let step = extraction.size_steps()[0];
    let plans =
        [extraction.size_plan(step, Bytes::kib(16)), extraction.check_size_plan(step, Bytes::kib(24))];
    let report = ModelCheck::new(&model, "real", false, true, &measured(&mut device, &plans));
    assert_eq!(report.goal(), GoalVerdict::Undecided, "{report:?}");
    assert_eq!(
        report.undecided.last().unwrap(),
        "all: throughput changed by 100 % and p50 changed by 50 % between measurements of the same requests; beyond 25 % an error says little of the model"
    );
}

#[test]
fn other_sizes_with_a_queue_are_predicted_and_what_was_not_measured_is_refused() {
    let profile = zeus("");
    let model = fitted(&profile);
    let truth = profile.throughput.unwrap();
    for (class, line) in [
        (ThroughputClass::RandomRead, truth.random_read),
        (ThroughputClass::SequentialWrite, truth.sequential_write),
    ] {
        for (size, depth) in [(Bytes::kib(8), 2), (Bytes::kib(96), 8), (Bytes::kib(256), 16)] {
            let predicted = model.predict(WorkloadRequest::of_class(class, size, depth)).unwrap();
            // The Zeus serves one request after the other, whatever waits.
            let rate = 1e9 / line.time_ns(size);
            let found = predicted.ios_per_s;
            assert!((found.estimate / rate - 1.0).abs() < 0.01, "{class:?} {size} {depth}: {found:?} {rate}");
            let is_inside = found.low < rate * 1.01 && rate * 0.99 < found.high;
            assert!(is_inside && found.low < found.high, "{class:?} {size} {depth}: {found:?} {rate}");
        }
    }
    let refused = |class, size, depth| {
        model.predict(WorkloadRequest::of_class(class, size, depth)).unwrap_err().to_string()
    };
    let reads = ThroughputClass::RandomRead;
    for (text, parts) in [
        (refused(reads, Bytes::gib(1), 1), ["random reads of 1 GiB are beyond", "fit a run that has"]),
        (refused(reads, Bytes(512), 1), ["random reads of 512 B are beyond", "4 KiB to "]),
        (refused(reads, Bytes::kib(4), 1000), ["at depth 1000 are beyond", "--depth-max 1000"]),
        (refused(reads, Bytes::mib(1), 8), ["of 1 MiB at depth 8 are beyond", "4 KiB to 256 KiB"]),
    ] {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn what_was_never_fitted_is_predicted() {
    let profile = zeus("[noise]\nsigma = 0.05\nseed = 7\n");
    let model = fitted(&profile);
    let mut device = profile.device().unwrap();
    let extraction = extraction(&mut device);
    let steps = extraction.size_steps().into_iter();
    let sizes = steps.flat_map(|step| {
        extraction.check_sizes().into_iter().map(move |size| extraction.check_size_plan(step, size))
    });
    let plans: Vec<Plan> = sizes.chain(extraction.check_queue_plans()).collect();
    let points = measured(&mut device, &plans);
    let report = ModelCheck::new(&model, "sim:test", true, true, &points);
    assert_eq!(report.goal(), GoalVerdict::Met, "{report:?}");
    // A mix is predicted for the writes that were drawn, not for those that were asked for.
    let shares: Vec<f64> = report.rows.iter().filter_map(|row| row.write_share).collect();
    let asked: Vec<f64> = shares.iter().map(|share| (share * 10.0).round() / 10.0).collect();
    assert_eq!(asked, [0.2, 0.6]);
    for (share, asked) in shares.into_iter().zip(asked) {
        let of_mix = points.iter().filter(|point| point.workload.write_share == asked);
        let (writes, reads): (Vec<_>, Vec<_>) = of_mix.partition(|point| point.workload.class.writes());
        let ios = |points: &[&RunPoint]| points.iter().map(|point| point.ios).sum::<usize>() as f64;
        assert_eq!(share, ios(&writes) / (ios(&writes) + ios(&reads)));
        assert_ne!(share, asked, "no draw of a thousand has just that share");
    }
    assert_eq!(report.left_out, Vec::<String>::new());
    let all = report.summaries.last().unwrap();
    assert!(all.rows > 20 && all.in_interval > 0.8, "{all:?}");
    let names: Vec<&str> = report.summaries.iter().map(|summary| summary.name).collect();
    assert_eq!(names, ["sr", "rr", "sw", "rw", "depth", "mix", "all"]);

    // The models of one mechanism hold what the true costs lead to.
    let line = |line: flashlab_sim::profile::ThroughputLine| line.time_ns(Bytes::kib(4));
    let truth = profile.throughput.unwrap();
    let [rr, sw, rw] = [truth.random_read, truth.sequential_write, truth.random_write].map(line);
    let costs = flashlab_model::append_and_pack::AppendAndPack {
        random_read: rr,
        sequential_write: sw,
        random_write: rw,
    };
    let [speed_up, repaired_write] = model.append_and_pack(Bytes::kib(4), 0.5, 2.0).unwrap();
    assert!(speed_up.holds(costs.speed_up(0.5, 2.0)), "{speed_up:?}");
    assert!(repaired_write.holds(costs.repaired_write(2.0)), "{repaired_write:?}");
    let (mib, block) = (Bytes::mib(1), Bytes::kib(4));
    let [seconds, write_cost] = model.external_memory([mib, mib], [block, block]).unwrap();
    assert!(
        seconds.holds(256.0 * (rr + rw) / 1e9) && write_cost.holds(rw / rr),
        "{seconds:?} {write_cost:?}"
    );
    let uncounted = model.collection(block, 2.0).unwrap_err().to_string();
    assert!(uncounted.contains("at different write amplifications"), "{uncounted}");

    // The document has all that the model was made of.
    let document = serde_json::to_string(&ModelDocument::of(&model)).unwrap();
    let again = read_model(&document, "model.json").unwrap();
    let a_us = |model: &DeviceModel| ModelDocument::of(model).rw.a_us.unwrap();
    // The last digit of a figure may be another one in a file.
    assert!((a_us(&again) / a_us(&model) - 1.0).abs() < 1e-9);
    assert_eq!(again.fitted_to.points.len(), model.fitted_to.points.len());
    assert!(read_model("{}", "x").unwrap_err().to_string().contains("is no model of flashlab model fit"));
    assert!(read_model("{\"version\":9}", "x").unwrap_err().to_string().contains("has version 9"));

    // A server of one request at a time is no function of the depth, and its rate is no bandwidth.
    let surroundings =
        TuneSurroundings { device_number: Some("8:0".to_owned()), ..TuneSurroundings::default() };
    let io_cost = tune(&model, TuneTarget::IoCost, &surroundings);
    assert!(io_cost.text.contains("\n8:0 enable=1 ctrl=user rpct=95.00 rlat="), "{io_cost:?}");
    let postgresql = tune(&model, TuneTarget::Postgresql, &surroundings);
    assert!(
        postgresql.text.starts_with("random_page_cost = ") && postgresql.refused.len() == 2,
        "{postgresql:?}"
    );
    assert!(postgresql.refused[0].reason.contains("the disk is no function of the depth"), "{postgresql:?}");
    let sim = tune(&model, TuneTarget::Sim, &surroundings);
    let twin = Profile::parse(&sim.text, "model.toml").unwrap();
    assert_eq!(twin.capacity, profile.capacity);
    let fio = tune(&model, TuneTarget::Fio, &surroundings);
    assert!(fio.text.matches("\n[run-").count() > 100, "{}", fio.text);
    let rocksdb = tune(
        &model,
        TuneTarget::Rocksdb,
        &TuneSurroundings { largest_request: Some(Bytes::kib(128)), ..TuneSurroundings::default() },
    );
    assert!(rocksdb.text.contains("compaction_readahead_size=131072\n"), "{rocksdb:?}");
}

#[test]
fn rocksdb_passes_no_less_on_than_it_keeps_back() {
    let mut profile = zeus("");
    profile.throughput.as_mut().unwrap().sequential_write.a = Nanos(20_000);
    let report = tune(&fitted(&profile), TuneTarget::Rocksdb, &TuneSurroundings::default());
    // 64 KiB would reach 90 % of the bandwidth.
    assert!(report.text.contains("bytes_per_sync=1048576\n"), "{report:?}");
    assert!(
        report.values[1].reason.ends_with("RocksDB keeps the last 1 MiB of a file back in any case"),
        "{report:?}"
    );
}

#[test]
fn the_page_cost_follows_from_read_ahead_and_cache() {
    let profile = zeus("");
    let model = fitted(&profile);
    let truth = profile.throughput.unwrap();
    let cost = |read_ahead: Bytes, cached: f64| -> f64 {
        let surroundings = TuneSurroundings {
            read_ahead: Some(read_ahead),
            cached_share: Some(cached),
            ..TuneSurroundings::default()
        };
        tune(&model, TuneTarget::Postgresql, &surroundings).values[0].value.parse().unwrap()
    };
    let page = |window: Bytes| truth.sequential_read.time_ns(window) * 8192.0 / window.0 as f64;
    let random = truth.random_read.time_ns(Bytes::kib(8));
    for window in [Bytes::kib(32), Bytes::kib(128)] {
        let expected = random / page(window);
        assert!(
            (cost(window, 0.0) / expected - 1.0).abs() < 0.01,
            "{window}: {} {expected}",
            cost(window, 0.0)
        );
    }
    let half = (0.5 * random / page(Bytes::kib(128))).max(1.0);
    assert!((cost(Bytes::kib(128), 0.5) / half - 1.0).abs() < 0.01, "{half}");
    assert_eq!(cost(Bytes::kib(128), 0.9), 1.0);
}

#[test]
fn sequential_reads_from_a_cache_give_no_page_cost() {
    let mut profile = zeus("");
    // 1 us for 8 KiB, and 1 ms for a random read.
    let lines = profile.throughput.as_mut().unwrap();
    (lines.sequential_read.a, lines.sequential_read.b_us_per_kb) = (Nanos(10), 0.125);
    lines.random_read.a = Nanos(1_000_000);
    let report = tune(&fitted(&profile), TuneTarget::Postgresql, &TuneSurroundings::default());
    let refused = report.refused.iter().find(|refused| refused.name == "random_page_cost").unwrap();
    assert!(refused.reason.contains("a cache answered the sequential reads"), "{report:?}");
}

/// A model with this identity and some points left out.
fn changed(model: &DeviceModel, identity: Identity, keeps: impl Fn(&RunPoint) -> bool) -> DeviceModel {
    let points = model.fitted_to.points.iter().filter(|point| keeps(point)).copied().collect();
    DeviceModel::fit(ModelSource { identity, points, ..model.fitted_to.clone() }).unwrap()
}

#[test]
fn hostile_names_are_no_rules_and_what_is_refused_has_no_values() {
    let model = fitted(&zeus(""));
    let surroundings = TuneSurroundings::default();
    let hostile = Identity {
        model: Some("SSD\n  SYSTEMD_WANTS=pwn.service\nblock:*".to_owned()),
        firmware: Some("1\r\nA=b # c".to_owned()),
        ..model.fitted_to.identity.clone()
    };
    let text = tune(&changed(&model, hostile, |_| true), TuneTarget::IoCost, &surroundings).text;
    let entry: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("block:")).collect();
    assert_eq!(entry[0], "block::name:SSD*  SYSTEMD_WANTS=pwn.service*block:?:fwrev:1*A=b ? c:", "{text}");
    assert_eq!(entry.len(), 4, "{text}");
    let nameless = changed(&model, Identity { model: None, ..model.fitted_to.identity.clone() }, |_| true);
    let text = tune(&nameless, TuneTarget::IoCost, &surroundings).text;
    assert!(text.ends_with("# no entry for systemd's hwdb: the disk reports no model\n"), "{text}");

    // Without sequential writes the lines of io.cost cannot be written, and so nothing of them is given.
    let identity = model.fitted_to.identity.clone();
    let partial = changed(&model, identity, |point| point.workload.class != ThroughputClass::SequentialWrite);
    let refused = tune(&partial, TuneTarget::IoCost, &surroundings);
    assert!(
        refused.text.is_empty() && refused.values.is_empty() && !refused.refused.is_empty(),
        "{refused:?}"
    );
}

#[test]
fn cephs_capacity_is_the_rate_of_random_writes_within_its_bounds() {
    let model = fitted(&zeus(""));
    let report = tune(&model, TuneTarget::Ceph, &TuneSurroundings::default());
    let rate = report.values[0].value.parse::<f64>().unwrap();
    let truth = 1e9 / zeus("").throughput.unwrap().random_write.time_ns(Bytes::kib(4));
    assert!((rate / truth - 1.0).abs() < 0.01, "{report:?} {truth}");
    let lines: Vec<&str> = report.text.lines().collect();
    assert_eq!(lines[..2], ["[osd]", &format!("osd_mclock_max_capacity_iops_ssd = {rate}")], "{report:?}");
    assert!(lines[2].starts_with("osd_mclock_max_sequential_bandwidth_ssd = "), "{report:?}");
    // The same rate on a rotating disk is none that Ceph believes.
    let rotating = Identity { rotational: Some(true), ..model.fitted_to.identity.clone() };
    let report = tune(&changed(&model, rotating, |_| true), TuneTarget::Ceph, &TuneSurroundings::default());
    assert!(report.text.is_empty() && report.values.is_empty(), "{report:?}");
    assert_eq!(report.refused[0].name, "osd_mclock_max_capacity_iops_hdd");
    assert!(report.refused[0].reason.contains("Ceph takes 50 to 500 for plausible"), "{report:?}");
}

/// `model check --size 1MiB` once ended with an error about its own manifest: no size fitted, and a plan had no experiment.
#[test]
fn a_small_target_has_no_plan_without_experiments() {
    let space = Space { capacity: Bytes::mib(1), block: Bytes(512) };
    let small = Extraction { space, zones: 3, depth_max: 16, writes: true, length: RunLength::REAL };
    let plans =
        [small.queue_plans(), small.check_queue_plans(), small.seek_plans(), small.check_seek_plans()];
    assert!(plans.iter().flatten().all(|plan| !plan.experiments.is_empty()));
    assert!(
        small.check_seek_plans().len() < extraction(&mut zeus("").device().unwrap()).check_seek_plans().len()
    );
}
