//! `flashlab infer`: its output, its writes, its folder, and resuming.

use std::fs;

use serde_json::Value;

use crate::support::{Directory, Mount, SMALL_PROFILE, program, unsealed};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn read_json(directory: &Directory, name: &str) -> Value {
    let mut document = json(&fs::read_to_string(directory.path(name)).unwrap());
    // The tests change documents that are not damaged otherwise.
    document.as_object_mut().map(|fields| fields.remove("crc32"));
    document
}

/// A directory with a simulated device that can be inferred quickly.
fn with_profile() -> Directory {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    directory
}

#[test]
fn a_file_is_only_read() {
    let directory = Directory::new();
    let content: Vec<u8> = (0..4 << 20).map(|i: u32| (i >> 3) as u8).collect();
    let file = directory.write("file", &content);
    let ran = directory.succeeds(&["infer", "file", "--json", "--output", "run"]);
    assert!(ran.err.contains("it will only be read, for a minute at most"), "{ran}");
    assert!(fs::read(file).unwrap() == content, "nothing was written");
    let findings = json(&ran.out);
    let findings = findings.as_object().unwrap();
    assert!(findings.len() > 10, "{findings:?}");
    assert_eq!(findings["device_state"]["value"], "as found");
    let told = findings["device_state"]["evidence"].as_str().unwrap();
    assert!(told.contains("how it writes is not known"), "{told}");
    for (name, finding) in findings {
        let keys: Vec<&str> = finding.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["value", "unit", "confidence", "verdict", "evidence", "bytes_written"], "{name}");
        assert_eq!(finding["bytes_written"], 0, "{name}");
        assert_eq!(finding["value"].is_null(), finding["verdict"] != "found", "{name}: {finding}");
    }
    assert_eq!(
        findings["write_buffer_size"]["evidence"],
        "The probe was left out: it needs writes, and flashlab has no consent to write.",
        "{findings:?}"
    );
}

#[test]
fn writing_takes_the_same_consent_as_in_bench() {
    let directory = Directory::new();
    let content = vec![7; 4 << 20];
    let file = directory.write("file", &content);
    let refused = directory.flashlab(&["infer", "file", "--write"]);
    assert_eq!(refused.code, Some(3), "{refused}");
    assert!(
        refused.err.contains("which would be lost: give another file, or no TARGET for a scratch file"),
        "{refused}"
    );
    let in_vain = directory.flashlab(&["infer", "file", "--overwrite-file"]);
    assert_eq!(in_vain.code, Some(2), "{in_vain}");
    assert!(in_vain.err.contains("add --write, or leave out the consent"), "{in_vain}");
    assert!(fs::read(file).unwrap() == content);
    assert_eq!(directory.names(), ["file"]);
}

#[test]
fn a_simulated_device_is_written_to_within_the_budget() {
    let directory = with_profile();
    let ran =
        directory.succeeds(&["infer", "sim:./small.toml", "--write-budget", "100MiB", "--output", "run"]);
    assert!(ran.err.contains("at most 100 MiB will be written (to a simulated device)"), "{ran}");
    let findings = json(&directory.succeeds(&["report", "run", "--json"]).out);
    let findings = findings.as_object().unwrap();
    let written: u64 = findings.values().map(|finding| finding["bytes_written"].as_u64().unwrap()).sum();
    assert!((1..=100 << 20).contains(&written), "{written}");
    // Reading only is a choice here, too.
    let ran = directory.succeeds(&["infer", "sim:./small.toml", "--read-only", "--output", "read"]);
    assert!(ran.err.contains("it will only be read"), "{ran}");
    assert!(ran.out.contains("Nothing was written."), "{ran}");
}

/// The zoo's cloud volume with fewer dies, so that it can be inferred quickly, and with a name that says nothing.
fn renamed_cloud_volume() -> String {
    let volume = include_str!("../../../../crates/sim/profiles/cloud-gp.toml");
    let lines = volume.lines().map(|line| match line.split_once(" = ") {
        Some(("name", _)) => "name = \"renamed\"",
        Some(("title", _)) => "title = \"A disk\"",
        Some(("capacity", _)) => "capacity = \"512MiB\"",
        Some(("dies", _)) => "dies = 8",
        Some(("channels", _)) => "channels = 4",
        Some(("planes", _)) => "planes = 2",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_cloud_volume_without_its_name_is_not_flash_and_a_drive_behind_no_limit_is() {
    let directory = Directory::new();
    let volume = renamed_cloud_volume();
    let (before, rest) = volume.split_once("[controller.limit]").unwrap();
    let (_, after) = rest.split_once("latency = \"285us\"").unwrap();
    directory.write("volume.toml", &volume);
    directory.write("drive.toml", format!("{before}{after}"));
    let of_flash =
        ["read_page_size", "erase_block_size", "translation_family", "physical_capacity", "parallel_units"];
    let infer = |name: &str| {
        let profile = format!("sim:./{name}.toml");
        let findings = json(&directory.succeeds(&["infer", &profile, "--json", "--output", name]).out);
        let found = of_flash.iter().filter(|&&name| findings[name]["verdict"] == "found").count();
        let advised = json(&directory.succeeds(&["report", name, "--advise", "--json"]).out);
        let given = advised["given"].as_array().unwrap().iter();
        let subjects: Vec<String> =
            given.map(|advice| advice["subject"].as_str().unwrap().to_owned()).collect();
        let page = fs::read_to_string(directory.path(name).join("report.html")).unwrap();
        let reason = read_json(&directory, &format!("{name}/inference.json"))["not_flash"].clone();
        (found, subjects, page, reason, findings["rate_limit"]["value"].clone())
    };
    let (found, subjects, page, reason, limit) = infer("volume");
    assert_eq!((found, limit.as_str()), (0, Some("ios")));
    assert!(subjects.iter().all(|subject| subject == "queue depth"), "{subjects:?}");
    let reason = reason.as_str().unwrap();
    assert!(reason.contains("behind a limit") && reason.contains("12400 IOs a second"), "{reason}");
    assert!(page.contains(reason), "the page says so, too");
    let (found, subjects, page, reason, limit) = infer("drive");
    assert!(found >= 3 && limit != "ios" && limit != "bytes", "{found} {limit}");
    assert!(reason.is_null() && !page.contains("behind a limit"), "{reason}");
    assert!(subjects.iter().any(|subject| subject == "f2fs"), "{subjects:?}");
}

#[test]
fn every_probe_is_a_plan_that_runs_alone() {
    let directory = with_profile();
    directory.succeeds(&["infer", "sim:./small.toml", "--output", "run"]);
    let probes = directory.path("run/probes");
    let mut names: Vec<String> = fs::read_dir(probes)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() > 3, "{names:?}");
    for name in &names {
        directory.succeeds(&["plan", "check", &format!("run/probes/{name}")]);
    }
    let first = format!("run/probes/{}", names[0]);
    directory.succeeds(&["run", &first, "sim:./small.toml", "--repetitions", "1", "--output", "alone"]);
    let page = fs::read_to_string(directory.path("run/report.html")).unwrap();
    assert!(page.contains(&format!("flashlab run probes/{} TARGET", names[0])));
}

#[test]
fn a_finished_run_is_shown_again_and_advises() {
    let directory = with_profile();
    let ran = directory.succeeds(&["infer", "sim:./small.toml", "--output", "run"]);
    let again = directory.succeeds(&["report", "run"]);
    assert_eq!(again.out, ran.out);
    assert_eq!(again.err, "", "nothing is probed");
    let advised = directory.succeeds(&["report", "--advise", "--json", "run"]);
    let advised = json(&advised.out);
    assert!(advised["given"].is_array() && advised["withheld"].is_array(), "{advised}");
    let subjects = advised["given"].as_array().unwrap().len() + advised["withheld"].as_array().unwrap().len();
    assert_eq!(subjects, 7);
}

#[test]
fn a_run_goes_on_where_it_was() {
    let directory = with_profile();
    let only = ["infer", "sim:./small.toml", "--read-only", "--only", "read_cost_per_io", "--output", "run"];
    directory.succeeds(&only);
    // As if it had been interrupted after the first probe.
    let mut manifest = read_json(&directory, "run/manifest.json");
    manifest["settings"]["only"] = Value::Array(Vec::new());
    directory.write("run/manifest.json", manifest.to_string());
    let before = read_json(&directory, "run/inference.json");
    let before = before["findings"].as_array().unwrap();
    let ran = directory.succeeds(&["resume", "run"]);
    assert!(!ran.err.contains("read_cost_per_io"), "what is known is not probed again\n{ran}");
    let after = read_json(&directory, "run/inference.json");
    let after = after["findings"].as_array().unwrap();
    // Findings from writes to a simulated device are probed again, because its state is gone.
    let kept: Vec<&Value> = before
        .iter()
        .filter(|finding| {
            finding["evidence"]
                != "The probe was left out: it needs writes, and flashlab has no consent to write."
        })
        .collect();
    assert!(!kept.is_empty());
    assert!(kept.iter().all(|finding| after.contains(finding)), "{kept:?}\n{after:?}");
    assert!(after.len() > before.len());
}

#[test]
fn a_part_of_a_probe_is_found_again_with_the_rest() {
    let directory = with_profile();
    directory.succeeds(&["infer", "sim:./small.toml", "--output", "run"]);
    let whole = read_json(&directory, "run/inference.json");
    let mut part = whole.clone();
    part["findings"].as_array_mut().unwrap().retain(|finding| finding["parameter"] != "read_ahead_size");
    directory.write("run/inference.json", part.to_string());
    directory.succeeds(&["resume", "run"]);
    let names = |known: &Value| {
        let findings = known["findings"].as_array().unwrap();
        let mut names: Vec<String> =
            findings.iter().map(|finding| finding["parameter"].to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&read_json(&directory, "run/inference.json")), names(&whole));
}

#[test]
fn a_device_is_worn_out_in_rounds() {
    let directory = with_profile();
    let worn =
        ["wear-out", "sim:./small.toml", "--rounds", "2", "--full-writes", "3", "--output", "worn", "--json"];
    let ran = directory.succeeds(&worn);
    assert!(ran.err.contains("WEAR: 2 rounds of 3 full writes"), "{ran}");
    assert!(ran.err.contains("every block is erased about 6 times"), "{ran}");
    let rounds = json(&ran.out);
    let rounds = rounds.as_array().unwrap();
    let full_writes: Vec<u64> = rounds.iter().map(|round| round["full_writes"].as_u64().unwrap()).collect();
    assert_eq!(full_writes, [0, 3, 6]);
    let written: Vec<u64> = rounds.iter().map(|round| round["bytes_written"].as_u64().unwrap()).collect();
    let findings = rounds[0]["findings"].as_object().unwrap().values();
    let inference: u64 = findings.map(|finding| finding["bytes_written"].as_u64().unwrap()).sum();
    assert_eq!((written[0], written[1]), (0, inference + 3 * (64 << 20)));
    assert_eq!(read_json(&directory, "worn/wear.json"), json(&ran.out));
    directory.succeeds(&["report", "worn/round-002"]);
}

#[test]
fn wearing_out_ends_with_the_device() {
    let directory = Directory::new();
    directory.write(
        "mortal.toml",
        "version = 2\nname = \"t\"\ntitle = \"t\"\nsource = \"t\"\nfit = \"t\"\ncapacity = \"64MiB\"\n[flash]\n\
         page = \"4KiB\"\npages_per_block = 64\nover_provisioning = 0.2\nreliability = { endurance = 12 }\n",
    );
    let ran = directory.succeeds(&[
        "wear-out",
        "sim:./mortal.toml",
        "--rounds",
        "3",
        "--full-writes",
        "1000",
        "--output",
        "worn",
    ]);
    assert!(ran.out.contains("\nthe device lived "), "{ran}");
    assert!(ran.out.contains(" full writes: it takes no writes any more, because "), "{ran}");
    assert!(ran.out.contains("\nErases of a block         0 to 0, mean 0.00 (after 0) -> "), "{ran}");
    let rounds = read_json(&directory, "worn/wear.json");
    assert_eq!(rounds.as_array().unwrap().len(), 2);
    assert!(rounds[1]["block_erases_max"].as_u64().unwrap() >= 10, "{ran}");
    assert!(rounds[1]["end"].as_str().unwrap().starts_with("takes no writes any more"), "{ran}");
    // Each round is a run. The folder of the rounds is not a run.
    directory.succeeds(&["report", "worn/round-000"]);
    for command in ["report", "resume"] {
        let ran = directory.flashlab(&[command, "worn"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.err.contains("worn/round-000"), "{ran}");
    }
}

#[test]
fn interrupting_keeps_what_is_known() {
    for signal in ["INT", "KILL"] {
        let directory = Directory::new();
        let started = directory.start(&["infer", "sim:sun-zhang-unknown", "--output", "run"]);
        let ran = started.until("probe 2 of").signal(signal);
        fs::remove_file(directory.path("run/report.html")).unwrap();
        let shown = directory.succeeds(&["report", "run"]);
        fs::read_to_string(directory.path("run/report.html")).unwrap();
        // It may have ended before the signal came.
        if ran.code != Some(0) {
            let told = " of 37 parameters were not looked at yet; resume with: flashlab resume run";
            assert!(shown.out.replace("\n  ", " ").contains(told), "{shown}");
            let shown = directory.succeeds(&["report", "run", "--json"]);
            let count = json(&shown.out).as_object().unwrap().len();
            assert!(count == 38 && shown.err.contains(told), "{shown}");
        }
        if signal == "INT" && ran.code != Some(0) {
            assert_eq!(ran.code, Some(1), "{ran}");
            assert!(ran.err.contains("resume with: flashlab resume run\nflashlab: interrupted\n"), "{ran}");
        }
        let resumed = directory.succeeds(&["resume", "run", "--json"]);
        let straight =
            directory.succeeds(&["infer", "sim:sun-zhang-unknown", "--json", "--output", "straight"]);
        let names = |text: &str| json(text).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&resumed.out), names(&straight.out));
        let page = fs::read_to_string(directory.path("run/report.html")).unwrap();
        assert!(page.ends_with("</html>\n"));
        let replayed = directory.succeeds(&["infer", "--replay", "run", "--output", "again"]);
        assert!(replayed.err.contains("findings are those of the recording"), "{signal}: {replayed}");
    }
}

#[test]
fn another_device_is_not_mixed_in() {
    let directory = with_profile();
    directory.write("file", vec![1; 4 << 20]);
    directory.succeeds(&["infer", "file", "--output", "run"]);
    fs::rename(directory.path("file"), directory.path("moved")).unwrap();
    directory.write("file", vec![1; 4 << 20]);
    let ran = directory.flashlab(&["resume", "run"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.err.contains("file is now another file ("), "{ran}");
}

#[test]
fn what_is_wrong_is_told() {
    let directory = with_profile();
    directory.write("file", vec![1; 1 << 20]);
    directory.succeeds(&[
        "infer",
        "sim:./small.toml",
        "--read-only",
        "--only",
        "read_cost_per_io",
        "--output",
        "run",
    ]);
    let told = |arguments: &[&str]| {
        let ran = directory.flashlab(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}\n{ran}");
        ran.err.chars().take(160).collect::<String>().trim_end().to_owned()
    };
    let damaged = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut inference = read_json(&directory, "run/inference.json");
        change(&mut inference);
        let (run, copy) = (directory.path("run"), directory.path(name));
        program("cp", &["-r", run.to_str().unwrap(), copy.to_str().unwrap()]).unwrap();
        directory.write(&format!("{name}/inference.json"), inference.to_string());
    };
    damaged("twice", &|inference| {
        let first = inference["findings"][0].clone();
        inference["findings"].as_array_mut().unwrap().push(first);
    });
    damaged("newer", &|inference| inference["version"] = Value::from(1000));
    damaged("too_confident", &|inference| inference["findings"][0]["confidence"] = Value::from(2));
    damaged("less", &|inference| {
        let found = |finding: &&mut Value| finding["value"].is_number();
        inference["findings"].as_array_mut().unwrap().iter_mut().find(found).unwrap()["value"] =
            Value::from(-2e9);
    });
    let all = [
        told(&["infer", "file", "--only", "speed"]),
        told(&["infer", "file", "--size", "1MiB"]),
        told(&["infer", "file", "--write-budget", "1MiB"]),
        told(&["report", "twice"]),
        told(&["resume", "newer"]),
        told(&["report", "too_confident"]),
        told(&["report", "less"]),
        told(&["wear-out", "sim:zeus", "--rounds", "1", "--overwrite-file", "--output", "worn"]),
        told(&["infer", "run", "--advise"]),
        told(&["resume", "file"]),
        told(&["infer", "sim:./small.toml", "--output", "run"]),
    ];
    insta::assert_snapshot!(all.join("\n"), @r"
    flashlab: there is no parameter `speed`; there are: read_page_size, planes_read_at_once, segment_groups, segment_group_span, read_buffer_size, read_ahead_size,
    flashlab: --size is for scratch files, and --capacity for simulated devices: a device is inferred as a whole
    flashlab: --write-budget, but nothing would be written: add --write
    flashlab: twice/inference.json: write_cost_per_io stands twice: the file is damaged; begin a new run
    flashlab: newer/inference.json: has version 1000, and this program reads version 5
    flashlab: too_confident/inference.json: the confidence of write_cost_per_io is 2: it is 0 to 1
    flashlab: less/inference.json: the value of segment_groups is -2000000000, and can be 1 to 512 on this device: the file is damaged; begin a new run
    flashlab: consent is given, but a simulated device needs none: leave it out
    flashlab: run is a folder: show a run with: flashlab report run --advise; or name a device to infer
    flashlab: file: is no folder: give the folder of a run, as flashlab-runs/TIME-TARGET
    flashlab: run already exists: choose another name with --output
    ");
}

#[test]
fn what_is_wrong_is_told_before_anything_is_announced() {
    let directory = with_profile();
    directory.write("one", [1]);
    let told = |target: &str, more: &[&str]| {
        let ran = directory.flashlab(&[&["infer", target], more].concat());
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err.lines().next().unwrap_or_default().to_owned()
    };
    let all = [
        told("one", &[]),
        told("sim:", &[]),
        told("sim:zeus@nostate", &[]),
        told("sim:./small.toml", &["--only", "read_page_size,"]),
    ];
    insta::assert_snapshot!(all.join("\n"), @r"
    flashlab: one is smaller than one block: give a device with a medium in it, or a file with content
    error: invalid value 'sim:' for '[TARGET]': sim: names no device: flashlab sim list names them, or give a file as sim:./profile.toml
    flashlab: cannot read the state nostate: No such file or directory (os error 2)
    flashlab: --only has an empty name in it
    ");
}

#[test]
fn what_to_do_about_a_damaged_file_is_told() {
    let directory = with_profile();
    directory.succeeds(&["infer", "sim:./small.toml", "--only", "write_buffer_size", "--output", "run"]);
    let told = |name: &str, text: &str, arguments: &[&str]| {
        let before = fs::read(directory.path(name)).unwrap();
        directory.write(name, text);
        let ran = directory.flashlab(arguments);
        directory.write(name, before);
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err.trim_end().to_owned()
    };
    let mut manifest = read_json(&directory, "run/manifest.json");
    let intact = manifest.clone();
    manifest["settings"]["write_budget"] = "15EiB".into();
    let finished = [
        told("run/manifest.json", &manifest.to_string(), &["resume", "run"]),
        told("run/inference.json", "{", &["report", "run"]),
    ];
    // What was under way counts only in an inference that is not finished.
    manifest = intact;
    manifest["finished"] = Value::Null;
    manifest.as_object_mut().unwrap().remove("crc32");
    directory.write("run/manifest.json", manifest.to_string());
    let unfinished = [
        told("run/under-way.json", "{", &["resume", "run"]),
        told("run/under-way.json", "{\"version\": 9, \"bytes_written\": 0}", &["resume", "run"]),
    ];
    insta::assert_snapshot!([finished, unfinished].concat().join("\n"), @r"
    flashlab: run/manifest.json: write_budget is 15 EiB, and no more than twice the capacity, 128 MiB, is ever written: the file is damaged; begin a new run
    flashlab: run/inference.json: EOF while parsing an object at line 1 column 1: the file is damaged; begin a new run
    flashlab: run/under-way.json: EOF while parsing an object at line 1 column 1: the file is damaged; begin a new run: what the probe under way wrote is not known without it
    flashlab: run/under-way.json: has version 9, and this program reads version 5; begin a new run: what the probe under way wrote is not known without it
    ");
}

/// All documents that differ from this one in one value. Of lists only the first two items are changed, and
/// of findings only the values.
fn changed(document: &Value, absurd: &[Value]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut pointers = vec![String::new()];
    while let Some(pointer) = pointers.pop() {
        match document.pointer(&pointer).unwrap() {
            Value::Object(fields) => pointers.extend(fields.keys().map(|key| format!("{pointer}/{key}"))),
            Value::Array(items) => {
                let count = if pointer == "/findings" { items.len() } else { items.len().min(2) };
                pointers.extend((0..count).map(|index| format!("{pointer}/{index}")));
            }
            _ => {}
        }
        let is_like_the_first =
            pointer.matches('/').count() > 2 && !pointer.contains("/0/") && !pointer.ends_with("/value");
        if pointer.is_empty() || (pointer.starts_with("/findings/") && is_like_the_first) {
            continue;
        }
        for value in absurd {
            let mut changed = document.clone();
            *changed.pointer_mut(&pointer).unwrap() = value.clone();
            all.push((format!("{pointer} = {value}"), changed));
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut without = document.clone();
        if let Some(fields) = without.pointer_mut(parent).and_then(Value::as_object_mut) {
            fields.remove(key);
            all.push((format!("{pointer} is missing"), without));
        }
    }
    all
}

#[test]
fn a_damaged_document_is_refused_or_shown() {
    let directory = with_profile();
    directory.succeeds(&["infer", "sim:./small.toml", "--output", "run"]);
    let good = read_json(&directory, "run/inference.json");
    let most = Value::from(1u64 << 53);
    let absurd =
        [0.into(), (-1).into(), most, u64::MAX.into(), 1e300.into(), "1EiB".into(), "x".into(), Value::Null];
    let mut shown = 0;
    for (change, document) in changed(&good, &absurd) {
        directory.write("run/inference.json", document.to_string());
        for arguments in [&["report", "run", "--advise"][..], &["resume", "run", "--json"]] {
            // These values are used only when the inference is resumed, which takes long if something is
            // missing.
            let is_reckoned_with =
                ["/fill", "/written", "/capacity", "/value"].iter().any(|part| change.contains(part));
            if arguments[0] == "resume" && (!is_reckoned_with || change.contains("missing")) {
                continue;
            }
            let ran = directory.flashlab(arguments);
            assert!(matches!(ran.code, Some(0 | 2 | 3)), "{change}: {arguments:?}\n{ran}");
            assert!(
                ran.code == Some(0) || ran.err.contains("inference.json"),
                "{change}: {arguments:?}\n{ran}"
            );
            shown += u64::from(ran.code == Some(0));
        }
    }
    assert!(shown > 0);
    directory.write("run/inference.json", good.to_string());
    let good = read_json(&directory, "run/checkpoint.json");
    for (change, document) in changed(&good, &absurd) {
        directory.write("run/checkpoint.json", document.to_string());
        let ran = directory.flashlab(&["resume", "run", "--json"]);
        let is_refused = ran.code == Some(2) && ran.err.contains("checkpoint.json");
        assert!(ran.code == Some(0) || is_refused, "{change}\n{ran}");
    }
    directory.write("run/checkpoint.json", good.to_string().replace("\"version\":1", "\"version\":2"));
    let ran = directory.flashlab(&["resume", "run"]);
    assert!(ran.err.contains("checkpoint.json: has version 2, and this program reads version 1"), "{ran}");
}

#[test]
fn a_full_disk_for_the_folder_loses_no_answer_and_no_count_of_what_was_written() {
    let directory = Directory::new();
    directory.write("file", vec![7; 16 << 20]);
    let full = directory.path("full");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &full) else { return };
    let limits = ["--write-budget", "24MiB", "--time-limit", "1s"];
    let begun = ["infer", "file", "--write", "--overwrite-file", "--output", "full/run", "--json"];
    let ran = directory.flashlab(&[&begun[..], &limits].concat());
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.err.contains("No space left on device"), "{ran}");
    let findings = json(&ran.out);
    assert_eq!(findings.as_object().unwrap().len(), 38, "{ran}");
    // What was written over at least once.
    let content = fs::read(directory.path("file")).unwrap();
    let written =
        content.chunks(4096).filter(|block| block.iter().any(|&byte| byte != 7)).count() as u64 * 4096;
    assert!(written > 0, "{ran}");

    let bytes = |size: &Value| size.as_str().unwrap().parse::<flashlab_base::Bytes>().unwrap().get();
    let known = read_json(&directory, "full/run/inference.json");
    let under_way = read_json(&directory, "full/run/under-way.json");
    let (known, under_way) = (bytes(&known["written"]), bytes(&under_way["bytes_written"]));
    assert!(known + under_way >= written, "{known} and {under_way} of {written} bytes are noted\n{ran}");

    program("mount", &["-o", "remount,size=20m", full.to_str().unwrap()]).unwrap();
    directory.succeeds(&["resume", "full/run", "--overwrite-file"]);
    let known = read_json(&directory, "full/run/inference.json");
    assert!(bytes(&known["written"]) <= 24 << 20, "{known}");
}

#[test]
fn a_recorded_inference_is_replayed_byte_for_byte_and_read_as_a_run() {
    let directory = with_profile();
    directory.succeeds(&["infer", "sim:./small.toml", "--seed", "3", "--output", "run"]);
    let ran = directory.succeeds(&["infer", "--replay", "run", "--output", "again"]);
    assert!(ran.err.contains("findings are those of the recording"), "{ran}");
    let document = |name: &str| fs::read_to_string(directory.path(name)).unwrap();
    assert!(document("again/inference.json") == document("run/inference.json"));
    // Every verb that reads runs reads its samples.
    let fitted = directory.succeeds(&["model", "fit", "run", "--output", "model"]);
    assert!(fitted.out.contains("random read: T = "), "{fitted}");
}

#[test]
fn a_replay_says_where_it_diverges() {
    let directory = with_profile();
    directory.succeeds(&["infer", "sim:./small.toml", "--only", "read_page_size", "--output", "run"]);
    // As if another flashlab had drawn other random offsets: the samples are those of the seed before.
    let manifest = fs::read_to_string(directory.path("run/manifest.json")).unwrap();
    directory.write("run/manifest.json", unsealed(manifest).replace("\"seed\": 1", "\"seed\": 2"));
    let ran = directory.flashlab(&["infer", "--replay", "run", "--output", "again"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.err.contains("the replay diverges from run: probe "), "{ran}");
    assert!(ran.err.contains(" asks for the pattern "), "{ran}");
}

#[test]
fn what_is_not_recorded_or_damaged_is_not_replayed() {
    let directory = with_profile();
    directory.succeeds(&["infer", "sim:./small.toml", "--only", "read_page_size", "--output", "run"]);
    let refused = |advice: &str| {
        let ran = directory.flashlab(&["infer", "--replay", "run", "--output", "again"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.err.contains(advice), "{ran}");
        assert!(!directory.path("again").exists(), "nothing is made");
    };
    let lines = unsealed(fs::read_to_string(directory.path("run/runs.jsonl")).unwrap());
    let written = |lines: String| directory.write_runs("run", &lines);
    written(lines.replacen("\"version\":1", "\"version\":7", 1));
    refused("its steps have version 7, and this program reads version 1");
    written(lines.replacen("\"now_ns\":", "\"now_ns\":9999999999999999", 1));
    refused("a figure is too large: the file is damaged");
    fs::remove_file(directory.path("run/runs.jsonl")).unwrap();
    refused("run/runs.jsonl: is missing; restore it, or begin a new run");
    let with_target = directory.flashlab(&["infer", "sim:./small.toml", "--replay", "run"]);
    assert_eq!(with_target.code, Some(2), "{with_target}");
    let with_seed = directory.flashlab(&["infer", "--replay", "run", "--seed", "5"]);
    assert!(with_seed.err.contains("--seed"), "{with_seed}");
    assert_eq!(with_seed.code, Some(2), "{with_seed}");
}
