//! Files as other programs write them: each is read with the right figures, or refused with what it is, and none is ever offered
//! for overwriting. The files and their right answers are in `../shared/data/foreign`.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Directory, SMALL_PROFILE};

/// A folder with a copy of each file, logs and traces under their own names; `None` where there are none.
fn foreign() -> Option<Directory> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/foreign");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        flashlab_skip::skip(flashlab_skip::Need::Reference, format!("{} is not there", folder.display()));
        return None;
    };
    let directory = Directory::new();
    for entry in entries {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(plain) = name.strip_suffix(".gz") {
            // With and without compression.
            directory.write(name, &bytes);
            let mut inside = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut inside).unwrap();
            bytes = inside;
            directory.write(plain, &bytes);
        } else {
            directory.write(name, &bytes);
        }
    }
    Some(directory)
}

fn fitted(directory: &Directory, file: &str) -> Value {
    let ran = directory.succeeds(&["model", "fit", file, "--json", "--output", "model"]);
    serde_json::from_str(&ran.out).unwrap()
}

/// A and B of random reads.
fn line(document: &Value) -> [f64; 2] {
    ["a_us", "b_us_per_kb"].map(|key| document["rr"][key].as_f64().unwrap_or(f64::NAN))
}

#[test]
fn what_fio_measured_has_its_right_figures() {
    let Some(directory) = foreign() else { return };
    // Other names of the same content.
    let right = std::fs::read(directory.path("right.json")).unwrap();
    for name in ["result.out", "result.yaml", "result", "result.log", "result.gz"] {
        directory.write(name, &right);
    }
    for file in [
        "right.json",
        "results.txt",
        "result.out",
        "result.yaml",
        "result",
        "result.log",
        "result.gz",
        "numjobs-entries.json",
        "kib.json",
        "no-bs.json",
        "status-interval.json",
        "normal-and-json.json",
        "issue-time_lat.1.log",
        "issue-time_lat.1.log.gz",
        "sizes_lat.1.log",
    ] {
        let before = std::fs::read(directory.path(file)).unwrap();
        let [a, b] = line(&fitted(&directory, file));
        assert!((a - 80.0).abs() < 0.5 && (b - 0.5).abs() < 0.02, "{file}: A = {a}, B = {b}");
        assert_eq!(std::fs::read(directory.path(file)).unwrap(), before, "{file}");
    }
    let points = |file: &str| -> Vec<[f64; 3]> {
        let document = fitted(&directory, file);
        let figure = |point: &Value| {
            let size =
                point["workload"]["size"].as_str().unwrap().trim_end_matches("KiB").parse::<f64>().unwrap();
            let depth = point["workload"]["depth"].as_f64().unwrap();
            [size, depth, point["ios_per_s"].as_f64().unwrap()]
        };
        document["points"].as_array().unwrap().iter().map(figure).collect()
    };
    let at_depth = points("numjobs-entries.json");
    for (depth, rate) in [(2.0, 22_000.0), (4.0, 40_000.0), (8.0, 40_000.0)] {
        let found: Vec<_> = at_depth.iter().filter(|[_, found, _]| *found == depth).collect();
        assert_eq!(found.len(), 1, "{at_depth:?}");
        assert!((found[0][2] - rate).abs() < 1.0, "{at_depth:?}");
    }
    for ([size, _, rate], mb_per_s) in points("sizes_lat.1.log").into_iter().zip([50.0, 186.0, 585.0]) {
        assert!((size * 1024.0 * rate / 1e6 / mb_per_s - 1.0).abs() < 0.005, "{size} {rate}");
    }
}

#[test]
fn what_fio_did_not_measure_is_refused_by_name() {
    let Some(directory) = foreign() else { return };
    std::fs::rename(directory.path("job_bw.1.log"), directory.path("renamed.txt")).unwrap();
    std::fs::rename(directory.path("job_slat.1.log"), directory.path("other")).unwrap();
    for (file, message) in [
        ("at-once.json", "3 requests were in flight"),
        ("buffered-libaio.json", "submission waits for the disk"),
        ("zipf.json", "random_distribution=zipf:1.2: its offsets are not uniformly random"),
        ("job_bw.1.log.gz", "is a log of bandwidths"),
        ("job_iops.1.log", "is a log of IOPS"),
        ("job_slat.1.log.gz", "is a log of submission latencies"),
        ("renamed.txt", "requests in flight, and a log does not say"),
        ("other", "requests in flight, and a log does not say"),
        ("windowed_lat.1.log", "log_avg_msec"),
        ("two-jobs.iolog", "holds an iolog of fio, and no model"),
        ("k4.metis.graph", "holds lines of whole numbers"),
        ("from-file.blkparse.txt", "holds a trace of blkparse"),
    ] {
        for verb in [&["model", "fit"][..], &["model", "predict", "--io-size", "4KiB"]] {
            let before = std::fs::read(directory.path(file)).unwrap();
            let ran = directory.flashlab(&[verb, &[file]].concat());
            assert_eq!(ran.code, Some(2), "{file}: {ran}");
            assert!(ran.err.contains(message) && !ran.err.contains("overwrite"), "{file}: {ran}");
            assert_eq!(std::fs::read(directory.path(file)).unwrap(), before, "{file}");
        }
    }
}

#[test]
fn no_verb_offers_a_filled_file_for_overwriting() {
    let directory = Directory::new();
    directory.write("notes", "Dear diary,\n".repeat(5000));
    directory.write("data", vec![0xA7; 1 << 20]);
    directory.write("job.out", "{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : []\n}\n");
    directory.file("blank", 1 << 20);
    for verb in [
        &["model", "fit", "@"][..],
        &["bench", "@"],
        &["run", "baselines", "@"],
        &["infer", "@", "--write"],
        &["sweep", "@"],
        &["repair", "create", "@"],
        &["wear-out", "@"],
        &["serve", "sim:barracuda", "--backing", "@"],
    ] {
        for (file, holds) in [
            ("notes", "text"),
            ("data", "data in a format"),
            ("job.out", "JSON output of fio"),
            ("blank", "blank"),
        ] {
            if verb[..2] == ["model", "fit"] && file == "job.out" {
                continue;
            }
            let before = std::fs::read(directory.path(file)).unwrap();
            let words: Vec<&str> = verb.iter().map(|word| if *word == "@" { file } else { word }).collect();
            let ran = directory.flashlab(&words);
            // Of verbs that do not take a file at all, the message is about that.
            let names = ran.err.contains(holds) || !ran.err.contains("exists");
            assert!(matches!(ran.code, Some(2 | 3)) && names, "{words:?}: {ran}");
            assert!(file == "blank" || !ran.err.contains("--overwrite-file"), "{words:?}: {ran}");
            assert_eq!(std::fs::read(directory.path(file)).unwrap(), before, "{words:?}");
        }
    }
}

#[test]
fn traces_of_other_programs_are_what_they_are() {
    let Some(directory) = foreign() else { return };
    directory.write("small.toml", SMALL_PROFILE);
    let replay = |file: &str| -> Value {
        let run = ["sim", "run", "sim:./small.toml", "--trace", file, "--fit", "wrap", "--json"];
        let ran = directory.succeeds(&run);
        serde_json::from_str(&ran.out).unwrap()
    };
    assert_eq!(replay("from-file.blkparse.txt")["trace"]["ios"], 1);
    let zoned = replay("zoned.blkparse.txt");
    assert_eq!(zoned["trace"]["ios"], 3, "{zoned}");
    assert_eq!(
        zoned["trace"]["left_out"],
        serde_json::json!({"zone finishes (ZF)": 1, "zone resets (ZR)": 1})
    );
    assert_eq!(replay("two-jobs.iolog")["trace"]["ios"], 2);
    assert_eq!(replay("wait.iolog")["trace"]["ios"], 4);
    // Through a pipe, compressed.
    let command = "gzip -c two-jobs.iolog | \"$0\" sim run sim:./small.toml --trace /dev/stdin --json";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command, env!("CARGO_BIN_EXE_flashlab")]).current_dir(directory.path("."));
    let piped = directory.ran(shell.output().unwrap());
    assert!(piped.code == Some(0) && piped.out.contains("\"ios\": 2"), "{piped}");
    directory.write("sda.blktrace.0", b"\x07\x74\x61\x65\0\0\0\0\0\0\0\0");
    for (file, message) in [
        (
            "right.json",
            "right.json holds JSON output of fio, and no trace; `flashlab model fit right.json` reads it",
        ),
        ("sda.blktrace.0", "holds a binary trace of blktrace, and no trace; `blkparse -i sda.blktrace.0`"),
        ("small.toml", "small.toml holds a profile of a simulated device"),
    ] {
        let ran = directory.flashlab(&["sim", "run", "sim:./small.toml", "--trace", file]);
        assert!(ran.code == Some(2) && ran.err.contains(message), "{ran}");
    }
}

#[test]
fn a_file_that_ends_within_a_block_is_measured_up_to_it_and_holes_are_warned_of() {
    let directory = Directory::new();
    directory.write("odd", vec![0x5A; (32 << 20) + 100]);
    let fit = ["model", "fit", "odd", "--read-only", "--zones", "1", "--depth-max", "1", "--output", "fit"];
    let ran = directory.flashlab(&fit);
    assert!(!ran.err.contains("the measurement needs") && ran.code != Some(3), "{ran}");
    directory.file("sparse", 32 << 20);
    let fit =
        ["model", "fit", "sparse", "--read-only", "--zones", "1", "--depth-max", "1", "--output", "other"];
    let ran = directory.flashlab(&fit);
    assert!(ran.err.contains("were holes that were never written"), "{ran}");
}

#[test]
fn a_graph_and_a_manifest_are_recognised_as_every_other_file() {
    let directory = Directory::new();
    let fio = "{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : []\n}\n";
    directory.write("k4.graph", "4 6\n2 3 4\n1 3 4\n1 2 4\n1 2 3\n");
    directory.write("bio.mtx", "%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n");
    directory.write("fio.json", fio);
    for (file, holds) in [
        (
            "k4.graph",
            "k4.graph holds lines of whole numbers, as a METIS graph or an edge list, and no graph file; `flashlab em graph edges",
        ),
        ("bio.mtx", "bio.mtx holds a matrix of MatrixMarket, and no graph file; `flashlab em graph edges"),
        (
            "fio.json",
            "fio.json holds JSON output of fio, and no graph file; `flashlab model fit fio.json` reads it",
        ),
    ] {
        let ran = directory.flashlab(&["em", "run", "bfs", "sim:hama", "--graph", file]);
        assert!(ran.code == Some(2) && ran.err.contains(holds), "{file}: {:?} {}", ran.code, ran.err);
    }
    // The one `%` is how networkrepository.com begins its matrices.
    directory.succeeds(&["em", "graph", "edges", "bio", "--from", "bio.mtx"]);
    directory.succeeds(&["em", "run", "bfs", "sim:hama", "--graph", "bio"]);
    std::fs::create_dir(directory.path("run")).unwrap();
    directory.write("run/manifest.json", fio);
    for verb in
        [&["report", "run"][..], &["resume", "run"], &["compare", "run", "run"], &["model", "fit", "run"]]
    {
        let ran = directory.flashlab(verb);
        let says = ran.err.contains("run/manifest.json: holds JSON output of fio, and no manifest of a run");
        assert!(ran.code == Some(2) && says, "{verb:?}: {:?} {}", ran.code, ran.err);
    }
}
