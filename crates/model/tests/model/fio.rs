//! fio's output: files with known answers (`../shared/data/foreign`), and what the fio that is installed writes, compared with an own
//! sum over its JSON.

use std::path::{Path, PathBuf};
use std::process::Command;

use flashlab_model::{FioPoints, RunPoint, fio_points};
use serde_json::Value;

fn foreign(file: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/foreign").join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => {
            flashlab_skip::skip(flashlab_skip::Need::Reference, format!("{}: {error}", path.display()));
            None
        }
    }
}

pub fn points(text: &str, name: &str) -> Vec<RunPoint> {
    fio_points(text, name).unwrap_or_else(|error| panic!("{error}")).points
}

#[test]
fn files_with_known_answers_give_them() {
    for (file, count) in [
        ("right.json", 3),
        ("results.txt", 3),
        ("kib.json", 4),
        ("no-bs.json", 3),
        ("status-interval.json", 3),
        ("normal-and-json.json", 3),
        ("numjobs-entries.json", 6),
    ] {
        let Some(text) = foreign(file) else { return };
        let points = points(&text, file);
        assert_eq!(points.len(), count, "{file}: {points:?}");
        for point in points.iter().filter(|point| point.workload.depth == 1) {
            let us = 80.0 + 0.5 * point.workload.size.0 as f64 / 1024.0;
            assert!((point.p50_ns / 1e3 - us).abs() < 0.1, "{file}: {point:?}");
            assert!((point.ios_per_s * us / 1e6 - 1.0).abs() < 0.001, "{file}: {point:?}");
        }
        let rates = |depth| {
            points.iter().filter(move |point| point.workload.depth == depth).map(|point| point.ios_per_s)
        };
        if file == "numjobs-entries.json" {
            for (depth, rate) in [(2, 22_000.0), (4, 40_000.0), (8, 40_000.0)] {
                let found: Vec<f64> = rates(depth).collect();
                assert!(found.len() == 1 && (found[0] - rate).abs() < 1.0, "{depth}: {found:?}");
            }
        }
    }
    for (file, reason) in [
        ("at-once.json", "3 requests were in flight"),
        ("buffered-libaio.json", "submission waits for the disk"),
        ("zipf.json", "its offsets are not uniformly random"),
    ] {
        let Some(text) = foreign(file) else { return };
        let refused = fio_points(&text, file).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

/// The output of fio 3.1 with `jobs`, of which each is `(name, group, extra options, reads, iops, us)`.
pub fn made(version: &str, jobs: &[(&str, u64, Value, u64, f64, f64)]) -> String {
    let entry = |(name, group, options, ios, iops, us): &(&str, u64, Value, u64, f64, f64)| {
        let mut all = serde_json::json!({"rw": "randread", "bs": "4k", "ioengine": "psync", "direct": "1"});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let percentile =
            serde_json::json!({"50.000000": us * 1e3, "95.000000": us * 1e3, "99.000000": us * 1e3});
        serde_json::json!({
            "jobname": name, "groupid": group, "error": 0, "job options": all,
            "read": {"io_bytes": ios * 4096, "total_ios": ios, "iops": iops, "runtime": 1000,
                "clat_ns": {"mean": us * 1e3, "percentile": percentile}},
            "write": {"io_bytes": 0, "total_ios": 0, "iops": 0},
        })
    };
    serde_json::json!({"fio version": version, "jobs": jobs.iter().map(entry).collect::<Vec<_>>()})
        .to_string()
}

#[test]
fn one_bad_job_leaves_the_good_ones_and_is_named() {
    let none = || serde_json::json!({});
    let good = ("good", 0, none(), 10_000, 10_000.0, 100.0);
    for (bad, reason) in [
        (
            ("bad", 1, serde_json::json!({"rate_iops": "100"}), 1000, 10_000.0, 100.0),
            "rate_iops=100: its rate is limited",
        ),
        (
            ("bad", 1, serde_json::json!({"rw": "randread:8"}), 1000, 10_000.0, 100.0),
            "rw=randread:8 is none of",
        ),
        (
            ("bad", 1, serde_json::json!({"bs": "8k"}), 1000, 10_000.0, 100.0),
            "io_bytes / total_ios is 4096 bytes",
        ),
        (
            ("bad", 1, serde_json::json!({"iodepth": "32", "ioengine": "libaio"}), 1000, 10_000.0, 100.0),
            "1.00 requests in flight, and its options say 32",
        ),
        (
            ("bad", 1, serde_json::json!({"ioengine": "null"}), 1000, 10_000.0, 100.0),
            "ioengine=null does not send",
        ),
        (
            ("bad", 1, serde_json::json!({"filename": "/dev/sda:/dev/sdb"}), 1000, 10_000.0, 100.0),
            "names several files",
        ),
        (
            ("bad", 1, serde_json::json!({"sparkle": "3"}), 1000, 10_000.0, 100.0),
            "does not know what sparkle=3 changes",
        ),
        (
            (
                "bad",
                1,
                serde_json::json!({"numjobs": "2", "ioengine": "libaio", "iodepth": "4096"}),
                1000,
                478.0,
                17_112_760.320,
            ),
            "the last bin",
        ),
        (("bad", 1, none(), 1000, 10_000.0, 0.0), "it has no latencies"),
    ] {
        let FioPoints { points, notes } = fio_points(&made("fio-3.33", &[good.clone(), bad]), "t").unwrap();
        assert_eq!((points.len(), notes.len()), (1, 1), "{notes:?}");
        assert!(notes[0].starts_with("t: left out: job bad: ") && notes[0].contains(reason), "{notes:?}");
    }
    // fio before 3.5 does not say numjobs.
    let grouped = [("a", 0, none(), 40_000, 40_000.0, 100.0)];
    let counted = fio_points(&made("fio-3.1", &grouped), "t").unwrap();
    assert_eq!((counted.points[0].workload.depth, counted.notes.len()), (4, 1));
    assert!(fio_points(&made("fio-3.5", &grouped), "t").is_err());
    assert!(
        fio_points(&made("fio-2.21", &grouped), "t")
            .unwrap_err()
            .to_string()
            .contains("was written by fio-2.21")
    );
    // A number that JSON does not have is none.
    let text = made("fio-3.33", &[good]).replacen("\"iops\":10000.0", "\"iops\": -nan", 1);
    assert_eq!(points(&text, "t")[0].ios_per_s, 10_000.0);
}

/// Runs fio in a folder and returns its output; `None` where it is not installed.
pub fn fio(folder: &Path, format: &str, options: &str) -> Option<String> {
    let mut command = Command::new("fio");
    command.args(["--filename=scratch", "--size=8m", "--output=out", &format!("--output-format={format}")]);
    command.args(options.split(' ')).current_dir(folder);
    match command.output() {
        Ok(_) => Some(std::fs::read_to_string(folder.join("out")).unwrap()),
        Err(error) => {
            flashlab_skip::skip(flashlab_skip::Need::Programs, format!("fio: {error}"));
            None
        }
    }
}

/// The IOs of all jobs in this list: how many, how many bytes, IOPS, and the number in flight.
pub fn summed(text: &str, list: &str) -> [f64; 4] {
    let begin = text.match_indices("{\n  \"fio version\"").last().unwrap().0;
    let document: Value =
        serde_json::Deserializer::from_str(&text[begin..]).into_iter().next().unwrap().unwrap();
    let mut sums = [0.0; 4];
    for job in document[list].as_array().unwrap() {
        for direction in ["read", "write"] {
            let of = |key: &str| job[direction][key].as_f64().unwrap();
            let mean = job[direction]["lat_ns"]["mean"].as_f64().unwrap();
            for (sum, value) in
                sums.iter_mut().zip([of("total_ios"), of("io_bytes"), of("iops"), of("iops") * mean / 1e9])
            {
                *sum += value;
            }
        }
    }
    sums
}

#[test]
fn what_the_installed_fio_writes_is_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let base = "--direct=1 --rw=randread --time_based --runtime=200ms";
    let libaio = "--ioengine=libaio --iodepth=4";
    // The shape, and the requests in flight; where fio itself waits for a CPU, they are fewer, and the measurement is refused.
    for (format, options, depth, size) in [
        ("json", format!("{base} --bs=4k --ioengine=psync --name=a"), 1, 4096),
        ("json+", format!("{base} --bs=16k --ioengine=psync --name=a"), 1, 16_384),
        ("normal,json", format!("{base} --bs=4k --ioengine=psync --numjobs=3 --name=a"), 3, 4096),
        ("json", format!("{base} --bs=4k --ioengine=psync --numjobs=3 --group_reporting --name=a"), 3, 4096),
        ("json", format!("{base} --bs=64k {libaio} --name=a --numjobs=2 --status-interval=100ms"), 8, 65_536),
        (
            "json",
            format!("--direct=1 --rw=randrw --time_based --runtime=200ms --bs=4k {libaio} --name=a"),
            4,
            4096,
        ),
        ("json", format!("{base} --bs=8k {libaio} --name=a --lat_percentiles=1"), 4, 8192),
        ("json", format!("{base} --bs=4k {libaio} --name=a --unified_rw_reporting=0"), 4, 4096),
        (
            "json",
            "--rw=randread --time_based --runtime=200ms --bs=4KiB --ioengine=psync --name=a".to_owned(),
            1,
            4000,
        ),
        ("json", format!("{} --bs=4k {libaio} --name=a", base.replace("--direct=1", "--direct=0")), 4, 4096),
    ] {
        let Some(text) = fio(folder.path(), format, &options) else { return };
        let [ios, bytes, iops, in_flight] = summed(&text, "jobs");
        assert!(ios > 0.0, "{options}: {text}");
        match fio_points(&text, "out") {
            Ok(FioPoints { points, .. }) => {
                let rate: f64 = points.iter().map(|point| point.ios_per_s).sum();
                let counted: usize = points.iter().map(|point| point.ios).sum();
                assert!(
                    points.iter().all(|point| (point.workload.depth, point.workload.size.0) == (depth, size)),
                    "{options}: {points:?}"
                );
                assert!((rate / iops - 1.0).abs() < 1e-6 && counted as f64 == ios, "{options}: {points:?}");
                assert!((bytes / ios / size as f64 - 1.0).abs() < 0.01, "{options}");
                assert!((in_flight / f64::from(depth) - 1.0).abs() <= 0.2, "{options}: {in_flight}");
            }
            Err(error) => {
                let error = error.to_string();
                let is_little = error.contains("IOPS times mean latency")
                    && (in_flight / f64::from(depth) - 1.0).abs() > 0.2;
                let is_submission =
                    error.contains("submission waits for the disk") && options.contains("libaio");
                let is_count =
                    error.contains("io_bytes / total_ios") && (bytes / ios / size as f64 - 1.0).abs() > 0.01;
                assert!(is_little || is_submission || is_count, "{options}: {error}");
            }
        }
    }
    // What is no measurement of one kind of request is refused, whatever the times were.
    let two = |more: &str| format!("{base} --ioengine=psync --bs=4k --name=a {more}");
    for (options, reasons) in [
        (two("--name=b --bs=64k --rw=randread --direct=1"), &["they differ"][..]),
        (
            two("--name=b --rw=write --direct=1 --bs=4k --group_reporting=1"),
            &["with group_reporting", "they differ"],
        ),
        (two("--bssplit=4k/50:64k/50"), &["it has several sizes"]),
        (two("--random_distribution=zipf:1.2"), &["not uniformly random"]),
        (two("--thinktime=1ms"), &["it waits between its IOs"]),
        (two("--fsync=1").replace("randread", "randwrite"), &["it waits for flushes"]),
        (two("--gtod_reduce=1"), &["it has no latencies"]),
        (format!("{base} --bs=4k --name=a --ioengine=null"), &["ioengine=null does not send"]),
        (format!("{base} --bs=4k --name=a --ioengine=psync --filename=one:two"), &["names several files"]),
        (
            "--rw=randrw --bs=4k --ioengine=psync --direct=1 --name=a --unified_rw_reporting=1".to_owned(),
            &["makes one figure"],
        ),
    ] {
        let Some(text) = fio(folder.path(), "json", &options) else { return };
        let refused = fio_points(&text, "out").map(|found| found.notes);
        let refused = match refused {
            Ok(notes) => notes.join("\n"),
            Err(error) => error.to_string(),
        };
        assert!(reasons.iter().any(|reason| refused.contains(reason)), "{options}: {refused}\n{text}");
    }
}

#[test]
fn logs_of_the_installed_fio_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let base = "--direct=1 --rw=randread --bs=4k --time_based --runtime=300ms --name=a";
    let logs = "--write_lat_log=w --write_bw_log=w --write_iops_log=w";
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let refused = |name: &str| match fio_points(&read(name), name) {
        Ok(found) => panic!("{name}: {found:?}"),
        Err(error) => error.to_string(),
    };
    let Some(json) = fio(folder.path(), "json", &format!("{base} --ioengine=psync {logs} --log_offset=1"))
    else {
        return;
    };
    let [ios, _, iops, in_flight] = summed(&json, "jobs");
    match fio_points(&read("w_lat.1.log"), "w_lat.1.log") {
        Ok(FioPoints { points, .. }) => {
            assert_eq!((points.len(), points[0].workload.size.0, points[0].ios as f64), (1, 4096, ios));
            assert!((points[0].ios_per_s / iops - 1.0).abs() < 0.25, "{points:?} {iops}");
        }
        Err(error) => assert!(
            in_flight < 0.85 && error.to_string().contains("requests in flight"),
            "{in_flight} {error}"
        ),
    }
    for (name, what) in
        [("w_bw.1.log", "bandwidths"), ("w_iops.1.log", "IOPS"), ("w_clat.1.log", "completion latencies")]
    {
        assert!(refused(name).contains(what), "{}", refused(name));
    }
    // Under another name, the values are seen to be no latencies.
    std::fs::copy(folder.path().join("w_iops.1.log"), folder.path().join("renamed")).unwrap();
    assert!(refused("renamed").contains("requests in flight"));
    let deep = format!("{base} --ioengine=libaio --iodepth=8 {logs} --log_offset=1 --log_prio=1");
    fio(folder.path(), "json", &deep).unwrap();
    assert!(refused("w_lat.1.log").contains("requests in flight"));
    fio(folder.path(), "json", &format!("{base} --ioengine=psync {logs}")).unwrap();
    assert!(refused("w_lat.1.log").contains("has 5 fields"));
    fio(folder.path(), "json", &format!("{base} --ioengine=psync {logs} --log_offset=1 --log_avg_msec=50"))
        .unwrap();
    assert!(refused("w_lat.1.log").contains("log_avg_msec"));
}
