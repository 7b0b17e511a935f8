//! `flashlab model`: a device is fitted, predicted, checked, and other software is tuned; refusals give their reason.

use serde_json::Value;

use crate::support::{COLLECTING_PROFILE, Directory, SMALL_PROFILE, unsealed};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_device_gives_its_parameters_back_and_other_software_gets_its_settings() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    let fit = ["model", "fit", "sim:./small.toml", "--depth-max", "8", "--json", "--output", "fitted"];
    let document = json(&directory.succeeds(&fit).out);
    for (class, a_us, b_us_per_kb) in
        [("sr", 100.0, 1.0), ("rr", 200.0, 1.0), ("sw", 300.0, 2.0), ("rw", 900.0, 2.0)]
    {
        let line = &document[class];
        assert_eq!(line["holds"], true, "{line}");
        assert!((line["a_us"].as_f64().unwrap() / a_us - 1.0).abs() < 0.001, "{line}");
        assert!((line["b_us_per_kb"].as_f64().unwrap() / b_us_per_kb - 1.0).abs() < 0.001, "{line}");
        assert!(line["r2"].as_f64().unwrap() > 0.9999 && line["p_value"].as_f64().unwrap() < 1e-6, "{line}");
        assert!(line["a_us_interval"][0].as_f64().unwrap() <= a_us * 1.001, "{line}");
    }
    // The run is one like any other, and its folder has the model.
    for name in ["model.html", "model.json", "runs.jsonl", "samples"] {
        assert!(directory.path("fitted").join(name).exists(), "{name}");
    }
    directory.succeeds(&["report", "fitted"]);
    let again = json(&directory.succeeds(&["model", "fit", "fitted", "--json", "--output", "again"]).out);
    assert_eq!(again["rw"], document["rw"]);

    // Heat slowed the device down in all of the runs: there is no model, and the reason says so.
    let throttled = directory.path("throttled");
    assert!(
        std::process::Command::new("cp")
            .args(["-r", "fitted"])
            .arg(&throttled)
            .current_dir(directory.path(""))
            .status()
            .unwrap()
            .success()
    );
    let runs = unsealed(std::fs::read_to_string(throttled.join("runs.jsonl")).unwrap());
    let is_known = runs.contains("\"thermal_throttles\":null");
    assert!(is_known, "{}", runs.lines().next().unwrap());
    directory.write_runs("throttled", &runs.replace("\"thermal_throttles\":null", "\"thermal_throttles\":2"));
    let refused = directory.flashlab(&["model", "fit", "throttled", "--output", "none"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(
        refused.err.contains("were disturbed by other IO or by heat: measure when nothing else runs"),
        "{refused}"
    );

    let predicted =
        directory.succeeds(&["model", "predict", "fitted", "--class", "rw", "--size", "8KiB", "--json"]);
    assert!((json(&predicted.out)[0]["p50_us"].as_f64().unwrap() - 916.0).abs() < 1.0, "{predicted}");
    let mix =
        ["model", "predict", "fitted", "--size", "4KiB", "--depth", "8", "--write-share", "0.5", "--csv"];
    assert!(directory.succeeds(&mix).out.contains("r / R + w / W"));

    let check = ["model", "check", "fitted", "sim:./small.toml", "--depth-max", "8", "--output", "checked"];
    let checked = directory.succeeds(&check);
    assert!(checked.out.contains("Goal on a simulated device") && !checked.out.contains("no\n"), "{checked}");
    let table = directory.succeeds(&[&check[..6], &["--csv", "--output", "checked again"]].concat());
    let lines: Vec<&str> = table.out.lines().collect();
    assert!(
        lines[0].starts_with("name,holds,rows,throughput_error,") && lines[0].ends_with(",goal"),
        "{table}"
    );
    assert!(lines[1].starts_with("sr,true,") && lines.last().unwrap().ends_with(",met"), "{table}");

    let beyond = ["model", "predict", "fitted", "--io-size", "4KiB", "--depth", "1000"];
    let refused = directory.flashlab(&beyond);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.err.contains("at depth 1000 are beyond what was measured, 1 to 8, and"), "{refused}");

    directory.write("taken", "notes");
    let taken = directory.flashlab(&["model", "fit", "fitted", "--output", "taken"]);
    assert!(taken.code == Some(2) && taken.err.contains("taken is no folder"), "{taken}");
    directory.succeeds(&["model", "tune", "fitted", "--for", "sim", "--output", "twin.toml"]);
    directory.succeeds(&["sim", "show", "./twin.toml"]);
    let postgresql = directory.succeeds(&["model", "tune", "fitted", "--for", "postgresql"]);
    assert!(postgresql.out.contains("undo: ALTER SYSTEM RESET random_page_cost;"), "{postgresql}");
    let refused = "not set: effective_io_concurrency, maintenance_io_concurrency: ";
    assert!(postgresql.out.starts_with(refused), "{postgresql}");
    assert_eq!(postgresql.out.matches("the disk is no function of the depth").count(), 1, "{postgresql}");
    // 204 us for a random read of 8 KiB, and 14 us for 8 KiB of one of 128 KiB.
    let cold = ["model", "tune", "fitted", "--for", "postgresql", "--cached", "0", "--json"];
    let cost = json(&directory.succeeds(&cold).out)["values"][0]["value"].as_str().unwrap().to_owned();
    assert!((cost.parse::<f64>().unwrap() / (208.0 / (228.0 / 16.0)) - 1.0).abs() < 0.02, "{cost}");
    assert!(postgresql.out.contains("\nrandom_page_cost = 1.4"), "{postgresql}");
    let wrong = directory.flashlab(&["model", "tune", "fitted", "--for", "postgresql", "--cached", "90"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("a share is a number from 0 to 1"), "{wrong}");

    // Where nothing is set, no value is printed: not those of the reads where the writes are missing.
    let reads = ["model", "fit", "sim:./small.toml", "--read-only", "--zones", "1", "--output", "reads"];
    directory.succeeds(&reads);
    for more in [&[][..], &["--json"], &["--csv"]] {
        let refused = directory.flashlab(&[&["model", "tune", "reads", "--for", "io-cost"], more].concat());
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.err.contains("nothing is set for io-cost: "), "{refused}");
        let values = refused.out.contains("rbps = ") || refused.out.contains("\"effect\"");
        assert!(!values && !refused.out.contains("rbps,"), "{refused}");
    }
}

#[test]
fn fio_is_fitted_and_its_other_versions_are_refused() {
    let directory = Directory::new();
    let job = |size: u64| {
        let us = 100.0 + size as f64 / 1024.0;
        serde_json::json!({
            "jobname": format!("rr{size}"),
            "groupid": size,
            "job options": {"rw": "randread", "bs": format!("{}k", size / 1024), "ioengine": "psync"},
            "read": {"io_bytes": 1000 * size, "total_ios": 1000, "iops": 1e6 / us, "clat_ns": {"mean": us * 1e3, "percentile":
                {"50.000000": us * 1e3, "95.000000": us * 1e3, "99.000000": us * 1e3}}},
            "write": {"total_ios": 0},
        })
    };
    let output = |version: &str, jobs: Vec<Value>| {
        serde_json::json!({"fio version": version, "jobs": jobs}).to_string()
    };
    let jobs: Vec<Value> = [4, 16, 64, 256, 1024].map(|kib| job(kib << 10)).into();
    directory.write("fio.json", output("fio-3.33", jobs.clone()));
    let fitted = json(&directory.succeeds(&["model", "fit", "fio.json", "--json", "--output", "f"]).out);
    assert!((fitted["rr"]["a_us"].as_f64().unwrap() - 100.0).abs() < 0.01, "{fitted}");
    assert_eq!(fitted["sw"]["holds"], false);
    assert!(
        fitted["sw"]["reason"].as_str().unwrap().contains("no sequential writes were measured"),
        "{fitted}"
    );

    let log: String = (0..300u64)
        .map(|i| {
            let size = [4096u64, 16_384, 65_536, 262_144][(i / 75) as usize];
            format!(
                "{}, {}, 0, {size}, {}, 0\n",
                i * 21 / 100,
                100_000 + size,
                (i * i * 7919 % 1000) * 262_144
            )
        })
        .collect();
    directory.write("rr_lat.1.log", &log);
    let fitted = json(&directory.succeeds(&["model", "fit", "rr_lat.1.log", "--json", "--output", "l"]).out);
    assert!((fitted["rr"]["b_us_per_kb"].as_f64().unwrap() - 1.024).abs() < 0.001, "{fitted}");

    for (name, text, message) in [
        ("old.json", output("fio-2.21", jobs), "was written by fio-2.21; flashlab reads the JSON of fio 3"),
        (
            "few.json",
            output("fio-3.33", vec![job(4096), job(8192)]),
            "random reads were measured with 2 sizes, and at least 3",
        ),
        ("none.json", output("fio-3.33", vec![]), "no job of it does reads or writes of one size"),
        ("short.log", "1, 2, 0, 4096\n".to_owned(), "short.log:1: has 4 fields in place of 6"),
        (
            "odd.log",
            "0, 2, 0, 4096, 0, 0\n1, x, 0, 4096, 0, 0\n".to_owned(),
            "odd.log:2: expected a latency in nanoseconds, found `x`",
        ),
        ("failed.json", format!("fio: pid=0\n{}", output("fio-2.21", vec![])), "was written by fio-2.21"),
        ("torn.json", "{\"fio version\": \"fio-3".to_owned(), "is cut off"),
    ] {
        directory.write(name, &text);
        let ran = directory.flashlab(&["model", "fit", name, "--output", "no"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.err.contains(message), "{ran}");
    }
    assert!(!directory.names().contains(&"no".to_owned()));
}

#[test]
fn what_cannot_be_modelled_is_told() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    directory.write("model.json", "{}");
    directory.succeeds(&["sim", "run", "sim:./small.toml", "--plan", "order", "--output", "replayed"]);
    for (arguments, code, message) in [
        (&["model", "fit", "nowhere"][..], 2, "nowhere"),
        (
            &["model", "fit", "sim:./small.toml", "--zones", "64", "--size", "1MiB"],
            2,
            "is too little for 129 zones",
        ),
        (&["model", "fit", "replayed"], 2, "is a recording, made by `"),
        (&["model", "twin", "replayed", "-o", "twin.toml"], 2, "is a recording, made by `"),
        (&["model", "fit", "small.toml"], 2, "holds a profile of a simulated device, and no model"),
        (&["model", "predict", "model.json", "--size", "4KiB"], 2, "is no model of flashlab model fit"),
        (
            &["model", "predict", "model.json", "--size", "4KiB", "--write-share", "2"],
            2,
            "must be from 0 to 1",
        ),
        (&["model", "tune", "model.json", "--for", "mysql"], 2, "`mysql` is not tuned; there are: io-cost"),
        (
            &["model", "tune", "model.json", "--for", "io-cost", "--device", "sda"],
            2,
            "write it as lsblk shows it",
        ),
    ] {
        let ran = directory.flashlab(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}\n{ran}");
        assert!(ran.err.contains(message), "{arguments:?}\n{ran}");
    }
    assert_eq!(directory.names(), ["model.json", "replayed", "small.toml"]);
}

#[test]
fn the_cost_of_garbage_collection_is_predicted_from_fills() {
    let directory = Directory::new();
    // Blocks of half the pages.
    let profile = COLLECTING_PROFILE.replace("pages_per_block = 64", "pages_per_block = 32");
    directory.write("collecting.toml", profile);
    let fit = [
        "model",
        "fit",
        "sim:./collecting.toml",
        "--zones",
        "1",
        "--depth-max",
        "2",
        "--json",
        "--output",
        "f",
    ];
    let document = json(&directory.succeeds(&fit).out);
    // Each fill that was measured has a write amplification and a mean time.
    let fills: Vec<[f64; 2]> = document["points"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|point| !point["workload"]["filled"].is_null())
        .map(|point| ["write_amplification", "mean_ns"].map(|key| point[key].as_f64().unwrap()))
        .collect();
    assert_eq!(fills.len(), 10, "five fills, each twice");
    let amplifications = fills.iter().map(|[amplification, _]| amplification.to_string()).collect::<Vec<_>>();
    let predict =
        ["model", "predict", "f", "--of", "collection", "--size", "4KiB", "--json", "--write-amplification"];
    let predicted = json(&directory.succeeds(&[&predict[..], &[&amplifications.join(",")]].concat()).out);
    for (row, [amplification, mean_ns]) in predicted.as_array().unwrap().iter().zip(&fills) {
        let [low, us, high] = ["low", "estimate", "high"].map(|key| row[key].as_f64().unwrap());
        assert!((us * 1e3 / mean_ns - 1.0).abs() < 0.1, "at {amplification}: {us} us, measured {mean_ns} ns");
        assert!(low < us && us < high, "{row}");
    }
    let least = fills.iter().map(|[amplification, _]| *amplification).fold(f64::INFINITY, f64::min);
    let most = fills.iter().map(|[amplification, _]| *amplification).fold(0.0, f64::max);
    assert!(least < 1.2 && most > 2.0, "fills of 40 to 100 % differ: {least} {most}");
    let wrong = directory.flashlab(&[&predict[..], &["0.5"]].concat());
    assert_eq!(wrong.code, Some(2), "{wrong}");
    assert!(wrong.err.contains("--write-amplification 0.5: must be 1 or more"), "{wrong}");
    let other = directory.flashlab(&["model", "predict", "f", "--of", "collection", "--size", "64KiB"]);
    assert_eq!(other.code, Some(2), "{other}");
}

#[test]
fn a_hard_disk_is_predicted_over_the_distance_and_a_device_without_seeks_is_refused() {
    let directory = Directory::new();
    let fit = [
        "model",
        "fit",
        "sim:barracuda",
        "--read-only",
        "--zones",
        "1",
        "--depth-max",
        "1",
        "--json",
        "--output",
        "disk",
    ];
    let document = json(&directory.succeeds(&fit).out);
    let seeks = &document["seeks"][0];
    assert_eq!(seeks["class"], "rr", "{}", document["seeks"]);
    assert!(seeks["full_seek_us_interval"][0].as_f64().unwrap() > 1000.0, "{seeks}");
    assert!(seeks["hold_out_error"].as_f64() < seeks["line_hold_out_error"].as_f64(), "{seeks}");
    let predict = ["model", "predict", "disk", "--size", "64KiB", "--json", "--distance"];
    let rows = json(&directory.succeeds(&[&predict[..], &["1GB,10GB,50GB"]].concat()).out);
    let times: Vec<f64> =
        rows.as_array().unwrap().iter().map(|row| row["p50_us"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[2] > 1.2 * times[0], "{rows:#}");
    assert_eq!(rows[0]["equation"], "T = A + S sqrt(d) + n B");
    // Another size than the fitted ones, over all distances.
    let check = [
        "model",
        "check",
        "disk",
        "sim:barracuda",
        "--read-only",
        "--zones",
        "1",
        "--depth-max",
        "1",
        "--json",
    ];
    let checked = json(&directory.succeeds(&[&check[..], &["--output", "checked"]].concat()).out);
    let summaries = checked["summaries"].as_array().unwrap();
    let distance = summaries.iter().find(|summary| summary["name"] == "distance").unwrap();
    assert!(distance["rows"].as_u64().unwrap() >= 8, "{distance}");
    assert!(distance["throughput_error"].as_f64().unwrap() < 0.1, "{distance}");
    for (arguments, message) in [
        (&["--distance", "1PB"][..], "is more than the device has"),
        (&["--distance", "1GB", "--depth", "4"], "with one random request after the other"),
        (&["--distance", "1GB", "--class", "sr"], "sequential reads have no distance"),
    ] {
        let ran = directory.flashlab(&[&["model", "predict", "disk", "--size", "4KiB"], arguments].concat());
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.err.contains(message), "{ran}");
    }
    directory.write("small.toml", SMALL_PROFILE);
    directory.succeeds(&[
        "model",
        "fit",
        "sim:./small.toml",
        "--read-only",
        "--depth-max",
        "1",
        "--output",
        "ssd",
        "--json",
    ]);
    let ran = directory.flashlab(&["model", "predict", "ssd", "--size", "4KiB", "--distance", "1MiB"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.err.contains("do not depend on the distance; omit --distance"), "{ran}");
}
