//! `flashlab repair`: volumes that are made, checked, dumped and refused, and databases on one whose server is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::live_disk::{Server, pattern};
use crate::support::{Directory, LoopDevice, program};

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

pub fn new_volume(directory: &Directory, size: &str) -> String {
    let volume = directory.path("volume").to_str().unwrap().to_owned();
    let made =
        directory.succeeds(&["repair", "create", &volume, "--size", size, "--segment", "1MiB", "--json"]);
    assert_eq!(json(&made.out)["segment_bytes"], 1 << 20);
    volume
}

#[test]
fn a_volume_is_made_once_and_described() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "64MiB");
    let status = json(&directory.succeeds(&["repair", "status", &volume, "--json"]).out);
    assert_eq!((&status["is_clean"], &status["fill"]), (&Value::from(true), &Value::from(0.0)));
    let again = directory.flashlab(&["repair", "create", &volume, "--size", "64MiB"]);
    assert_eq!(again.code, Some(2), "{}", again.err);
    assert!(again.err.contains("--size is for a file that does not exist yet"), "{}", again.err);
    let unasked = directory.flashlab(&["repair", "create", &volume]);
    assert_eq!(unasked.code, Some(3), "{}", unasked.err);
    assert!(unasked.err.contains("flashlab volume (at byte 0)"), "{}", unasked.err);
    let checked = directory.succeeds(&["repair", "check", &volume]);
    assert!(checked.out.ends_with("0 pages are right, 0 are damaged\n"), "{}", checked.out);
}

#[test]
fn a_volume_that_lost_its_end_is_dumped_and_not_opened() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "64MiB");
    fs::OpenOptions::new().write(true).open(&volume).unwrap().set_len(60 << 20).unwrap();
    let status = directory.flashlab(&["repair", "status", &volume]);
    assert_eq!(status.code, Some(1), "{}", status.err);
    assert!(status.err.contains("the volume takes 64 MiB, but the device has 60 MiB"), "{}", status.err);
    directory.succeeds(&["repair", "dump", &volume, "-o", "dumped"]);
}

#[test]
fn nothing_writes_over_a_volume_until_it_is_erased() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "64MiB");
    let before = fs::read(&volume).unwrap();
    let writers: [&[&str]; 5] = [
        &["bench", &volume, "--overwrite-file", "--quick"],
        &["run", "sequential-state", &volume, "--overwrite-file"],
        &["infer", &volume, "--write", "--overwrite-file"],
        &["repair", "create", &volume, "--overwrite-file", "--segment", "1MiB"],
        &["serve", "sim:zeus", "--size", "64MiB", "--fuse", ".", "--backing", &volume, "--overwrite-file"],
    ];
    let all_refused = || {
        for writer in writers {
            let ran = directory.flashlab(writer);
            assert_eq!(ran.code, Some(3), "{writer:?}: {}", ran.err);
            assert!(ran.err.contains("flashlab volume") && ran.err.contains("repair erase"), "{}", ran.err);
        }
    };
    all_refused();
    if let Some(device) = LoopDevice::over(Path::new(&volume), &[]) {
        let ran = directory.flashlab(&["bench", &device.0, "--destroy-data-on", &device.0]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        assert!(ran.err.contains("flashlab volume (at byte 0)"), "{}", ran.err);
    }
    assert!(fs::read(&volume).unwrap() == before);
    // One superblock is enough.
    let file = fs::OpenOptions::new().write(true).open(&volume).unwrap();
    for offset in [0, 65536, (64 << 20) - 65536] {
        file.write_all_at(&[0; 4096], offset).unwrap();
    }
    drop(file);
    all_refused();
    let checked = directory.flashlab(&["repair", "check", &volume]);
    assert_eq!(checked.code, Some(1), "{}", checked.err);
    assert!(checked.err.contains("3 of 4 copies of the superblock"), "{}", checked.err);
    assert!(checked.out.contains("superblock at byte 65536 of the device is damaged"), "{}", checked.out);
    let unasked = directory.flashlab(&["repair", "erase", &volume]);
    assert_eq!(unasked.code, Some(3), "{}", unasked.err);
    let uuid = json(&directory.succeeds(&["repair", "status", &volume, "--json"]).out)["uuid"].clone();
    directory.succeeds(&["repair", "erase", &volume, "--uuid", uuid.as_str().unwrap()]);
    let gone = directory.flashlab(&["repair", "status", &volume]);
    assert!(gone.err.contains("there is no flashlab volume"), "{}", gone.err);
    directory.succeeds(&["repair", "create", &volume, "--overwrite-file", "--segment", "1MiB"]);
}

/// The default segment is one that the device has space for.
#[test]
fn a_small_volume_has_small_segments() {
    let directory = Directory::new();
    for (size, segment) in [("1GiB", "4 MiB"), ("128MiB", "2 MiB"), ("16MiB", "256 KiB")] {
        let ran = directory.succeeds(&["repair", "create", size, "--size", size]);
        assert!(ran.out.contains(&format!("segments of {segment} on {size}")), "{ran}");
        directory.succeeds(&["repair", "check", size]);
    }
    // What is asked for is not changed.
    let asked = directory.flashlab(&["repair", "create", "new", "--size", "128MiB", "--segment", "4MiB"]);
    assert!(asked.code == Some(2) && asked.err.contains("do not fit"), "{asked}");
}

#[test]
fn what_is_no_volume_or_fits_nothing_is_refused() {
    let directory = Directory::new();
    let empty = directory.file("empty", 1 << 20).to_str().unwrap().to_owned();
    let refused = |arguments: &[&str], code: i32, text: &str| {
        let ran = directory.flashlab(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(text), "{arguments:?}: {}", ran.err);
    };
    for task in ["status", "check"] {
        refused(&["repair", task, &empty], 2, "there is no flashlab volume");
    }
    refused(&["repair", "serve", &empty, "--loop"], 2, "there is no flashlab volume");
    refused(&["repair", "create", &empty, "--overwrite-file"], 2, "do not fit");
    refused(&["repair", "create", "new", "--size", "64MiB", "--fill", "0.99"], 2, "at most 0.95");
    refused(&["repair", "create", "new", "--size", "64MiB", "--page", "5KiB"], 2, "4, 8, 16, 32 or 64 KiB");
    refused(&["repair", "create", "new", "--size", "64MiB", "--fill", "-1"], 2, "above 0");
    // Too large for the file system, or, where it takes that, for a volume.
    let huge = directory.flashlab(&["repair", "create", "new", "--size", "9000PB"]);
    assert!(matches!(huge.code, Some(1 | 2)) && !huge.err.is_empty(), "{}", huge.err);
    assert!(!directory.path("new").exists());
    refused(&["repair", "create", "sim:zeus"], 2, "keeps no data");
    let volume = new_volume(&directory, "64MiB");
    refused(&["repair", "serve", &volume], 2, "--loop or --ublk");
    fs::create_dir(directory.path("mounted")).unwrap();
    for front in [["serve", &volume, "--loop"], ["mount", &volume, "mounted"]] {
        let arguments = [&["repair"], &front[..], &["--policy", "lru"]].concat();
        refused(&arguments, 2, "there is no policy `lru`; there are multi-log");
    }
    refused(&["repair", "create", "new", "--size", "64MiB", "--from", "/nonexistent"], 2, "/nonexistent");
    refused(&["repair", "serve", &volume, "--loop", "--memory-max", "1KiB"], 2, "of memory");
    fs::OpenOptions::new().write(true).open(&volume).unwrap().set_len(32 << 20).unwrap();
    refused(&["repair", "status", &volume], 1, "it was truncated");
}

/// What `repair` must not do while another program has the volume.
fn is_refused_to_others(directory: &Directory, volume: &str) {
    let image = directory.path("never").to_str().unwrap().to_owned();
    let tasks: [&[&str]; 5] = [
        &["status", volume],
        &["check", volume],
        &["dump", volume, "-o", &image],
        &["serve", volume, "--loop"],
        &["create", volume, "--segment", "1MiB", "--overwrite-file", "--destroy-data-on", volume],
    ];
    for task in tasks {
        let ran = directory.flashlab(&[&["repair"], task].concat());
        assert_eq!(ran.code, Some(3), "{task:?}: {}", ran.err);
        assert!(task[0] == "create" || ran.err.contains("repair status SOCKET"), "{task:?}: {}", ran.err);
    }
    assert!(!Path::new(&image).exists());
}

#[test]
fn a_volume_has_one_opener_and_its_server_reports_its_logs() {
    let directory = Directory::new();
    let outer = new_volume(&directory, "128MiB");
    let Some(server) = serve(&directory, &outer) else { return };
    is_refused_to_others(&directory, &outer);
    // The same for a volume on a block device.
    let device = server.path.to_str().unwrap().to_owned();
    let create = ["repair", "create", &device, "--segment", "1MiB", "--destroy-data-on", &device];
    directory.succeeds(&create);
    let inner = serve(&directory, &device).unwrap();
    is_refused_to_others(&directory, &device);
    let disk = inner.open();
    // Large enough for packing in the volume beneath.
    for round in 0..5 {
        disk.write_all_at(&pattern(round, 32 << 20), 0).unwrap();
        disk.sync_all().unwrap();
    }
    drop(disk);
    let status = json(&directory.succeeds(&["repair", "status", &server.control, "--json"]).out);
    for key in ["write_amplification", "write_amplification_predicted", "span_host_pages", "fill"] {
        assert!(status[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {status}");
    }
    let logs = status["logs"].as_array().unwrap();
    assert!(logs.iter().all(|log| log["alpha"].as_f64().is_none_or(|alpha| alpha > 1.0)), "{status}");
    assert!(logs.iter().any(|log| log["p"].is_number() && log["p_predicted"].is_number()), "{status}");
    let text = directory.succeeds(&["repair", "status", &server.control]).out;
    assert!(text.contains("p measured   p predicted") && text.contains("policy"), "{text}");
    inner.end();
    directory.succeeds(&["repair", "check", &device]);
    server.end();
    let status = json(&directory.succeeds(&["repair", "status", &outer, "--json"]).out);
    assert!(status["p"].is_number() && status["logs"][0]["p_predicted"].is_number(), "{status}");
    let gone = directory.flashlab(&["repair", "status", "/nonexistent/control"]);
    assert_eq!(gone.code, Some(2), "{}", gone.err);
}

#[test]
fn a_file_system_is_not_overwritten() {
    let directory = Directory::new();
    let file = directory.file("disk", 64 << 20);
    if run(&format!("mkfs.ext4 -q -F {}", file.display())).is_err() {
        flashlab_skip::skip(flashlab_skip::Need::Programs, "mkfs.ext4 is not installed");
        return;
    }
    let before = fs::read(&file).unwrap();
    let refused = |path: &str| {
        let create = ["repair", "create", path, "--segment", "1MiB", "--destroy-data-on", path];
        let ran = directory.flashlab(&create);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        ran.err
    };
    let Some(device) = LoopDevice::over(&file, &[]) else { return };
    assert!(refused(&device.0).contains("ext4"));
    drop(device);
    let told = refused(file.to_str().unwrap());
    assert!(told.contains("ext4") && told.contains("would be lost"), "{told}");
    assert!(fs::read(&file).unwrap() == before);
}

/// CRC32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

#[test]
fn another_version_and_damaged_superblocks_are_recognised() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "64MiB");
    let file = fs::OpenOptions::new().read(true).write(true).open(&volume).unwrap();
    let copies = [0, 64 << 10, (64 << 20) - (64 << 10), (64 << 20) - (128 << 10)];
    let mut block = vec![0; 4096];
    file.read_exact_at(&mut block, 0).unwrap();
    let stored = u32::from_le_bytes(block[12..16].try_into().unwrap());
    block[12..16].fill(0);
    assert_eq!(crc32c(&block), stored);
    // One copy is left.
    copies[..3].iter().for_each(|copy| file.write_all_at(&[0x55; 4096], *copy).unwrap());
    assert_eq!(json(&directory.succeeds(&["repair", "status", &volume, "--json"]).out)["is_clean"], true);
    block[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let checksum = crc32c(&block);
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
    let expect = |text: &str| {
        let image = directory.path("image").to_str().unwrap().to_owned();
        let tasks: [&[&str]; 4] = [&["status"], &["check"], &["serve", "--loop"], &["dump", "-o", &image]];
        for task in tasks {
            let ran = directory.flashlab(&[&["repair"], task, &[&volume]].concat());
            assert!(ran.code == Some(2) && ran.err.contains(text), "{task:?}: {:?} {}", ran.code, ran.err);
        }
        assert!(!Path::new(&image).exists(), "a dump that failed leaves no image");
    };
    copies.iter().for_each(|copy| file.write_all_at(&block, *copy).unwrap());
    expect("version 99 of the format");
    block[100] ^= 1;
    copies.iter().for_each(|copy| file.write_all_at(&block, *copy).unwrap());
    expect("none of its superblocks has the right checksum");
}

#[test]
fn policies_are_simulated_and_what_is_impossible_is_refused() {
    let directory = Directory::new();
    let small = ["--segments", "512", "--pages-per-segment", "32", "--settle", "2", "--measure", "1"];
    let simulate =
        |options: &[&str]| directory.flashlab(&[&["repair", "simulate"], &small[..], options].concat());
    let ran = simulate(&["--workload", "zipf:0.99", "--fill", "0.7", "--move", "--json"]);
    let row = json(&ran.out);
    let number = |key: &str| row[key].as_f64().unwrap();
    assert!(number("write_amplification") > 1.0 && number("predicted") > 1.0, "{row}");
    assert_eq!((row["policy"].as_str(), row["fill"].as_f64()), (Some("multi-log"), Some(0.7)));
    assert!(row["logs"][0]["p_predicted"].is_number() && row["logs"][0]["alpha"].is_number(), "{row}");
    assert_eq!(row["after_move"]["half_volumes"].as_array().map(Vec::len), Some(8));
    let all = json(&simulate(&["--policy", "all", "--fill", "0.7", "--json"]).out);
    assert_eq!(all.as_array().map(Vec::len), Some(7));
    for (options, text) in [
        (["--fill", "1.0"], "not between 0 and 1"),
        (["--fill", "0.99"], "give more segments or a lower fill"),
        (["--fill", "NaN"], "not between 0 and 1"),
        (["--policy", "lru"], "there is no policy `lru`; there are multi-log"),
        (["--workload", "zipf:-1"], "zipf"),
        (["--workload", "hot-cold:110/20"], "hot-cold"),
        (["--workload", "bursts"], "bursts"),
    ] {
        let ran = simulate(&options);
        assert!(ran.code == Some(2) && ran.err.contains(text), "{options:?}: {:?} {}", ran.code, ran.err);
        assert!(ran.out.is_empty());
    }
}

#[test]
fn a_file_that_its_file_system_cannot_hold_is_made_with_a_warning() {
    let directory = Directory::new();
    let create = |name: &str, size: &str, options: &[&str]| {
        let path = directory.path(name).to_str().unwrap().to_owned();
        directory
            .flashlab(&[&["repair", "create", &path, "--size", size, "--segment", "64MiB"], options].concat())
    };
    let huge = create("huge", "4TiB", &[]);
    if huge.err.contains("choose a smaller --size") && huge.code != Some(0) {
        return; // The file system has no files of this size, sparse or not.
    }
    assert_eq!(huge.code, Some(0), "{huge}");
    assert!(huge.err.contains("warning: ") && huge.err.contains("writes to the volume fail"), "{huge}");
    let huge = create("huge as JSON", "4TiB", &["--json"]);
    assert!(json(&huge.out)["warning"].as_str().is_some_and(|text| text.contains("left")), "{huge}");
    let small = directory.path("small").to_str().unwrap().to_owned();
    assert!(
        directory
            .succeeds(&["repair", "create", &small, "--size", "64MiB", "--segment", "256KiB"])
            .err
            .is_empty()
    );
}

#[test]
fn a_volume_that_could_become_full_while_it_is_overwritten_is_not_made_and_a_policy_with_too_many_logs_is_warned_of()
 {
    let directory = Directory::new();
    let volume = directory.path("small").to_str().unwrap().to_owned();
    // Four pages in a segment.
    let create = ["repair", "create", &volume, "--size", "32MiB", "--page", "16KiB", "--segment", "64KiB"];
    let refused = directory.flashlab(&create);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.err.contains("give a lower fill, segments of more pages"), "{refused}");
    directory.succeeds(&[&create[..], &["--fill", "0.6"]].concat());
    let opened = |policy: &[&str]| {
        // It ends there: the directory is none.
        let ran = directory.flashlab(&[&["repair", "serve", &volume, "--fuse", "none"], policy].concat());
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err.contains("warning: ")
    };
    assert!(!opened(&[]) && opened(&["--policy", "append-and-pack"]));
}

#[test]
fn the_geometry_of_a_volume_is_simulated() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "64MiB");
    let simulate = |options: &[&str]| {
        let short = ["repair", "simulate", "--settle", "1", "--measure", "1", "--volume", &volume, "--json"];
        directory.flashlab(&[&short[..], options].concat())
    };
    let status = json(&directory.succeeds(&["repair", "status", &volume, "--json"]).out);
    let plain = json(&simulate(&["--workload", "uniform"]).out);
    assert_eq!((&plain["volume"], &plain["segments"]), (&status["uuid"], &status["segments"]));
    assert_eq!(plain["policy"], "greedy", "a small volume has one log: {plain}");
    let flushes = json(&simulate(&["--workload", "uniform", "--flush-every", "4"]).out);
    let amplification = |row: &Value| row["write_amplification"].as_f64().unwrap();
    assert!(amplification(&flushes) > 1.2 * amplification(&plain), "{plain} {flushes}");
    // Six logs do not fit in the slack.
    for options in [&["--policy", "sepbit"][..], &["--fill", "0.5"], &["--flush-every", "0"]] {
        assert_eq!(simulate(options).code, Some(2), "{options:?}");
    }
}

/// The volume as a loop device. `None`: not possible here.
fn serve(directory: &Directory, volume: &str) -> Option<Server> {
    Server::begin(directory, &["repair", "serve", volume, "--loop", "--json"])
}

fn run(command: &str) -> Result<String, String> {
    program("sh", &["-c", command])
}

#[test]
fn what_was_flushed_survives_a_killed_server_and_damage_is_found() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "64MiB");
    let Some(server) = serve(&directory, &volume) else { return };
    let disk = server.open();
    let data = pattern(5, 1 << 20);
    disk.write_all_at(&data, 3 << 20).unwrap();
    disk.sync_all().unwrap();
    drop(disk);
    server.kill();
    let checked = json(&directory.succeeds(&["repair", "check", &volume, "--json"]).out);
    assert_eq!((&checked["right_pages"], &checked["volume"]["is_clean"]), (&256.into(), &false.into()));
    let server = serve(&directory, &volume).unwrap();
    let mut read = vec![0; data.len()];
    server.open().read_exact_at(&mut read, 3 << 20).unwrap();
    assert!(read == data);
    server.end();
    let status = json(&directory.succeeds(&["repair", "status", &volume, "--json"]).out);
    assert_eq!(status["is_clean"], true);
    // The data in the middle of the file is altered.
    let file = fs::OpenOptions::new().read(true).write(true).open(&volume).unwrap();
    let content = fs::read(&volume).unwrap();
    let at = content.windows(16).position(|bytes| bytes == &data[4096..4112]).unwrap() as u64;
    file.write_all_at(b"altered", at).unwrap();
    let damaged = directory.flashlab(&["repair", "check", &volume, "--json"]);
    assert_eq!((damaged.code, &json(&damaged.out)["damaged"][0]["page"]), (Some(1), &Value::from(769)));
    let image = directory.path("image");
    let dumped = directory.flashlab(&["repair", "dump", &volume, "-o", image.to_str().unwrap(), "--json"]);
    assert!(dumped.code == Some(1) && dumped.err.contains("1 pages are missing"), "{}", dumped.err);
    let dumped = json(&dumped.out);
    assert_eq!((&dumped["pages"], &dumped["damaged_versions"]), (&255.into(), &1.into()));
    assert_eq!((&dumped["map"], &dumped["missing"][0]["first_page"]), (&"newest".into(), &769.into()));
    let image = fs::read(image).unwrap();
    assert!(image[3 << 20..][..4096] == data[..4096] && image[3 << 20..][8192..1 << 20] == data[8192..]);
}

#[test]
fn a_volume_is_made_larger_and_smaller_and_keeps_its_data() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "64MiB");
    let resize = |size: &str, options: &[&str]| {
        let ran = directory.flashlab(&[&["repair", "resize", &volume, size, "--json"], options].concat());
        (ran.code, if ran.code == Some(0) { json(&ran.out) } else { Value::String(ran.err) })
    };
    let data = pattern(3, 1 << 20);
    let place = 30 << 20;
    let Some(server) = serve(&directory, &volume) else { return };
    let (code, _) = resize("50MiB", &[]);
    assert_eq!(code, Some(3), "it is being served");
    server.open().write_all_at(&data, place).unwrap();
    server.end();
    let refused = |size: &str, text: &str| {
        let (code, why) = resize(size, &[]);
        assert!(code == Some(2) && why.as_str().unwrap().contains(text), "{size}: {code:?} {why}");
    };
    refused("16MiB", "1 MiB of data lie behind byte 16777216");
    refused("63MiB", "the volume can offer at most");
    let (code, grown) = resize("50MiB", &[]);
    assert_eq!((code, &grown["size_bytes"]), (Some(0), &Value::from(50 << 20)), "{grown}");
    // The device has grown.
    fs::OpenOptions::new().write(true).open(&volume).unwrap().set_len(72 << 20).unwrap();
    let (_, larger) = resize("56MiB", &[]);
    assert!(larger["segments"].as_u64() > grown["segments"].as_u64(), "{grown} {larger}");
    let (_, smaller) = resize("40MiB", &[]);
    assert_eq!(smaller["size_before_bytes"], 56 << 20);
    let checked = json(&directory.succeeds(&["repair", "check", &volume, "--json"]).out);
    assert_eq!((&checked["right_pages"], &checked["volume"]["is_clean"]), (&256.into(), &true.into()));
    let server = serve(&directory, &volume).unwrap();
    let mut read = vec![0; data.len()];
    let disk = server.open();
    disk.read_exact_at(&mut read, place).unwrap();
    assert!(read == data && disk.metadata().is_ok());
    drop(disk);
    server.end();
    let (code, dropped) = resize("16MiB", &["--drop-beyond"]);
    assert_eq!(code, Some(0), "{dropped}");
    let checked = json(&directory.succeeds(&["repair", "check", &volume, "--json"]).out);
    assert_eq!(checked["right_pages"], 0);
}

#[test]
fn the_segment_comes_from_what_an_inference_found() {
    let directory = Directory::new();
    let run = directory.path("inferred").to_str().unwrap().to_owned();
    directory.succeeds(&["infer", "sim:sdcard", "--size", "256MiB", "-o", &run]);
    let file = directory.path("inferred/inference.json");
    let known = json(&fs::read_to_string(&file).unwrap());
    let findings = known["findings"].as_array().unwrap();
    let block =
        findings.iter().find(|finding| finding["parameter"] == "erase_block_size").unwrap()["value"].as_f64();
    let volume = directory.path("card").to_str().unwrap().to_owned();
    let made =
        directory.succeeds(&["repair", "create", &volume, "--size", "256MiB", "--from", &run, "--json"]);
    let segment = json(&made.out)["segment_bytes"].as_f64().unwrap();
    assert_eq!(segment % block.expect("the erase block of this card is found"), 0.0, "{block:?}");
}

#[test]
fn nbd_clients_copy_to_a_volume_and_from_it_after_its_server_was_killed() {
    let directory = Directory::new();
    if run("command -v nbdkit && command -v nbdcopy && command -v qemu-img").is_err() {
        flashlab_skip::skip(flashlab_skip::Need::Nbdkit, "nbdkit, nbdcopy or qemu-img is not installed");
        return;
    }
    let volume = new_volume(&directory, "64MiB");
    let serve = || Server::begin(&directory, &["repair", "serve", &volume, "--nbd", "socket", "--json"]);
    let Some(server) = serve() else { return };
    let uri = server.path.display().to_string();
    let size =
        json(&directory.succeeds(&["repair", "status", &server.control, "--json"]).out)["page_bytes"].clone();
    assert_eq!(size, 4096);
    let info = json(&run(&format!("qemu-img info --output=json '{uri}'")).unwrap());
    let image = directory.path("image");
    let data = pattern(9, info["virtual-size"].as_u64().unwrap() as usize);
    fs::write(&image, &data).unwrap();
    // Several requests at once, and a flush at the end.
    run(&format!("nbdcopy --flush --requests=16 {} '{uri}'", image.display())).unwrap();
    server.kill();
    let server = serve().unwrap();
    run(&format!("qemu-img compare -f raw -F raw '{uri}' {}", image.display())).unwrap();
    server.end();
    let checked = json(&directory.succeeds(&["repair", "check", &volume, "--json"]).out);
    assert_eq!(checked["right_pages"], data.len() / 4096);
}

#[test]
fn fio_verifies_what_it_wrote() {
    let directory = Directory::new();
    let volume = new_volume(&directory, "96MiB");
    let Some(server) = serve(&directory, &volume) else { return };
    let disk = server.path.display();
    let fio = format!(
        "fio --name=verify --filename={disk} --direct=1 --rw=randwrite --bs=4k --size=24M --io_size=60M --norandommap \
         --ioengine=libaio --iodepth=16 --serialize_overlap=1 --fsync=64 --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_state_save=0 --randseed=7 --output-format=terse"
    );
    match run(&fio) {
        Ok(_) => {}
        Err(error) if error.contains("not found") => {
            flashlab_skip::skip(flashlab_skip::Need::Programs, "fio is not installed");
        }
        Err(error) => panic!("{error}"),
    }
    server.end();
    let checked = json(&directory.succeeds(&["repair", "check", &volume, "--json"]).out);
    assert_eq!(checked["damaged"], Value::Array(Vec::new()));
}

#[test]
fn a_database_keeps_what_it_committed_when_the_server_is_killed() {
    let directory = Directory::new();
    if run("command -v sqlite3 && command -v mkfs.ext4").is_err() {
        flashlab_skip::skip(flashlab_skip::Need::Programs, "sqlite3 or mkfs.ext4 is not installed");
        return;
    }
    let volume = new_volume(&directory, "96MiB");
    for journal in ["delete", "wal"] {
        let Some(server) = serve(&directory, &volume) else { return };
        let mount = directory.path(journal);
        fs::create_dir(&mount).unwrap();
        let (disk, place) = (server.path.display(), mount.display());
        run(&format!("mkfs.ext4 -q -F {disk} && mount {disk} {place}")).unwrap();
        let database = mount.join("db");
        let committed =
            insert_until(&database, journal, 30, || crate::live_disk::send(&server.child, "KILL"));
        run(&format!("umount -l {place}")).unwrap();
        server.reap();
        directory.succeeds(&["repair", "check", &volume]);
        let server = serve(&directory, &volume).unwrap();
        run(&format!("mount {} {place}", server.path.display())).unwrap();
        let query = "pragma integrity_check; select count(*) from t; select max(i) from t;";
        let found = program("sqlite3", &[database.to_str().unwrap(), query]).unwrap();
        run(&format!("umount {place}")).unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[0], "ok", "{journal}");
        assert_eq!(lines[1], lines[2], "{journal}: a row in the middle is lost");
        // The commit that was under way may have been durable.
        let last: u64 = lines[2].parse().unwrap();
        assert!(last == committed || last == committed + 1, "{journal}: {last}, acknowledged {committed}");
        server.end();
    }
}

/// Commits rows with consecutive numbers, calls `kill` after some, and returns the last row that was acknowledged.
pub fn insert_until(database: &Path, journal: &str, rows: u64, kill: impl FnOnce()) -> u64 {
    let mut command = Command::new("sh");
    command.args(["-c", &insert_script(database, journal)]);
    acknowledged_until(command, rows, |_| kill())
}

/// A script that commits rows with consecutive numbers and prints each number then, until a commit fails.
pub fn insert_script(database: &Path, journal: &str) -> String {
    // Below `extra`, SQLite does not sync the directory after it removed the journal, and a power failure may undo the last
    // commit.
    format!(
        "sqlite3 {path} 'pragma journal_mode={journal}; create table t(i)' >/dev/null; i=1; \
         while sqlite3 -cmd 'pragma synchronous=extra' {path} \"insert into t values($i)\" 2>/dev/null >/dev/null; \
         do echo $i; i=$((i+1)); done",
        path = database.display()
    )
}

/// Runs a command that prints numbers, calls `kill` with it after some, and returns the last number.
pub fn acknowledged_until(mut command: Command, rows: u64, kill: impl FnOnce(&Child)) -> u64 {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    let mut kill = Some(kill);
    while let Some(Ok(line)) = lines.next() {
        last = line.parse().unwrap();
        if last >= rows
            && let Some(kill) = kill.take()
        {
            kill(&child);
        }
    }
    child.wait().unwrap();
    assert!(last >= rows, "only {last} rows were written");
    last
}
