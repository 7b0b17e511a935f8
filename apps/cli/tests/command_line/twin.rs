//! A measured device gets a twin: its profile is written, measured as any device, and compared with the original; both are
//! served live, and another program sees the same ratio.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::live_disk::{Server, mount_point};
use crate::support::{COLLECTING_PROFILE, Directory, program};

/// A device that the throughput model is: reads of 4 KiB take 66 us, and writes 132 us.
const DEVICE: &str = r#"
version = 2
name = "plain"
title = "Plain"
source = "a test"
fit = "none"
capacity = "64MiB"

[throughput]
sequential_read = { a = "50us", b_us_per_kb = 4.0 }
random_read = { a = "90us", b_us_per_kb = 4.0 }
sequential_write = { a = "100us", b_us_per_kb = 8.0 }
random_write = { a = "300us", b_us_per_kb = 8.0 }

[noise]
sigma = 0.03
"#;

fn measured(directory: &Directory) {
    directory.write("plain.toml", DEVICE);
    let options = ["--quick", "--only", "granularity,order,mix", "--repetitions", "1", "--json"];
    directory.succeeds(&[&["bench", "sim:./plain.toml", "--output", "device"], &options[..]].concat());
}

#[test]
fn the_loop_closes_on_a_device_without_flash() {
    let directory = Directory::new();
    measured(&directory);
    let made = directory.succeeds(&["model", "twin", "device", "-o", "twin.toml", "--json"]);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(made["model"], "throughput model");
    assert!(made["candidates"][1]["refused"].as_str().unwrap().contains("a simpler model"), "{made}");
    let error = made["difference"]["error"]["p50"].as_f64().unwrap();
    assert!(error < 0.05, "{made:#}");

    // A profile that lost its end is no profile that a person edited.
    let profile = fs::read_to_string(directory.path("twin.toml")).unwrap();
    for end in ["# crc32", "\n[noise]"] {
        directory.write("cut.toml", &profile[..profile.rfind(end).unwrap()]);
        let cut = directory.flashlab(&["sim", "show", "sim:./cut.toml"]);
        assert!(
            cut.code == Some(2) && cut.err.contains("./cut.toml: the checksum that its first line"),
            "{cut}"
        );
    }
    let lines: Vec<&str> = profile.lines().collect();
    directory.write("edited.toml", lines[1..lines.len() - 1].join("\n"));
    directory.succeeds(&["sim", "show", "sim:./edited.toml"]);

    let options = ["--quick", "--only", "granularity,order,mix", "--repetitions", "1", "--json"];
    directory.succeeds(&[&["bench", "sim:./twin.toml", "--output", "twin"], &options[..]].concat());
    let manifest = fs::read_to_string(directory.path("twin/manifest.json")).unwrap();
    assert!(manifest.contains(r#""mechanism": "throughput model""#), "{manifest}");
    let checked = directory.succeeds(&["report", "device", "twin", "--json"]);
    let checked: Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!(checked["micro_benchmarks"].as_array().unwrap().len(), 3);
    assert!(checked["error"]["mean"].as_f64().unwrap() < 0.1, "{checked:#}");
    let page = fs::read_to_string(directory.path("twin.html")).unwrap();
    assert!(page.contains("Device and twin over each other"));
    let told = directory.succeeds(&["model", "twin-check", "device", "twin.toml"]);
    assert!(told.out.contains("granularity") && told.out.contains("page: twin.html"), "{told}");
}

#[test]
fn a_device_with_flash_gets_a_twin_of_measured_response_times_or_of_what_was_inferred() {
    let directory = Directory::new();
    directory.write("flash.toml", COLLECTING_PROFILE);
    let options = ["--quick", "--only", "granularity,order,mix", "--repetitions", "2", "--json"];
    directory.succeeds(
        &[&["bench", "sim:./flash.toml", "--state", "steady", "--output", "device"], &options[..]].concat(),
    );
    let made = directory.succeeds(&["model", "twin", "device", "-o", "tree.toml", "--json"]);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(made["model"], "response tree", "{made:#}");
    assert!(made["candidates"][1]["refused"].as_str().unwrap().contains("no inference"), "{made:#}");
    for figure in ["mean", "p50", "p99"] {
        let error = made["difference"]["error"][figure].as_f64().unwrap();
        let of_lines = made["candidates"][0]["error"][figure].as_f64().unwrap();
        assert!(error < 0.15 && error < of_lines, "{figure}: {made:#}");
    }
    let shown = directory.succeeds(&["sim", "show", "./tree.toml"]);
    assert!(shown.out.contains("[[response_tree.leaves]]"), "{}", shown.out);

    directory.succeeds(&["infer", "sim:./flash.toml", "--output", "inside", "--json"]);
    let made = directory.succeeds(&[
        "model",
        "twin",
        "device",
        "--inference",
        "inside",
        "-o",
        "twin.toml",
        "--json",
    ]);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    let flash = &made["candidates"][1];
    assert!(
        flash["refused"].is_null() && flash["model"].as_str().unwrap().starts_with("flash with"),
        "{made:#}"
    );
    assert!(flash["error"]["mean"].as_f64().unwrap() < 0.5, "{made:#}");
    let other = directory.flashlab(&["model", "twin", "device", "--inference", "device", "-o", "x.toml"]);
    assert_eq!(other.code, Some(2), "{other}");
}

#[test]
fn what_makes_no_twin_is_refused() {
    let directory = Directory::new();
    measured(&directory);
    directory.succeeds(&["model", "twin", "device"]);
    let again = directory.flashlab(&["model", "twin", "device"]);
    assert_eq!(again.code, Some(2), "{again}");
    assert!(again.err.contains("twin.toml exists"), "{again}");
    directory.write("other.toml", DEVICE.replace("64MiB", "32MiB"));
    let other = directory.flashlab(&["model", "twin-check", "device", "other.toml"]);
    assert_eq!(other.code, Some(2), "{other}");
    assert!(other.err.contains("it is no twin of it"), "{other}");
    let options = ["--quick", "--only", "order", "--repetitions", "1", "--json"];
    directory.succeeds(&[&["bench", "sim:./plain.toml", "--output", "order"], &options[..]].concat());
    let too_few = directory.flashlab(&["model", "twin", "order", "-o", "order.toml"]);
    assert_eq!(too_few.code, Some(2), "{too_few}");
    assert!(too_few.err.contains("without --only"), "{too_few}");
}

#[test]
fn a_live_twin_is_as_fast_as_the_live_device_to_fio() {
    let directory = Directory::new();
    if let Err(reason) = program("fio", &["--version"]) {
        return flashlab_skip::skip(flashlab_skip::Need::Programs, &reason);
    }
    measured(&directory);
    directory.succeeds(&["model", "twin", "device"]);
    let mount = mount_point(&directory);
    let mut seen: [Vec<f64>; 2] = Default::default();
    // Other load makes a live disk slower, and a disk that it held up catches up faster: the median of several rounds counts.
    for round in 0..5 {
        for (side, target) in ["sim:./plain.toml", "sim:./twin.toml"].into_iter().enumerate() {
            let Some(server) = Server::of(&directory, target, &["--fuse", &mount]) else { return };
            seen[side].push(fast_write_us(&server, round));
            server.end();
        }
        let [device, twin] = seen.each_mut().map(|times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        if (0.8..1.25).contains(&(twin / device)) {
            return;
        }
    }
    panic!("fio, in us: {:?} on the twin, {:?} on the device", seen[1], seen[0]);
}

/// The 10th percentile of random writes of 128 KiB, which take 1.3 ms, as fio sees it.
fn fast_write_us(server: &Server, seed: u32) -> f64 {
    let file = server.path.display().to_string();
    let output = Command::new("fio")
        .args([
            "--name=twin",
            "--rw=randwrite",
            "--bs=128k",
            "--ioengine=psync",
            "--direct=1",
            "--number_ios=300",
        ])
        .args([
            &format!("--filename={file}"),
            "--size=64m",
            "--output-format=json",
            &format!("--randseed={seed}"),
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let json = &text[text.find('{').unwrap_or_else(|| panic!("{text}"))..];
    let found: Value = serde_json::from_str(json).unwrap();
    found["jobs"][0]["write"]["clat_ns"]["percentile"]["10.000000"].as_f64().unwrap() / 1e3
}
