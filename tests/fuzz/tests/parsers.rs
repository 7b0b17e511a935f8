//! Fuzzes every parser of outside bytes: it must return a value or an error, and never panic.
//!
//! # Method
//! 1. A target takes a valid example and edits it at random: bytes are overwritten, inserted, removed and
//!    repeated. Edited examples get further into a parser than noise does.
//! 2. Each target runs for [`SECONDS`]; `BOLERO_RANDOM_TEST_TIME_MS` sets another time.
//! 3. A failure prints the smallest failing input, and the `BOLERO_RANDOM_SEED` that repeats it.
//!
//! With cargo-bolero installed, `cargo bolero test --manifest-path tests/fuzz/Cargo.toml NAME` runs a target
//! on libFuzzer.

use std::time::Duration;

use flashlab_analysis::inference::{Inference, Parameter};
use flashlab_base::{Bytes, Nanos, ProfileName, Seed, Target};
use flashlab_em::graph::{
    AdjacencyArrays, GraphFile, GraphSource, parse_edge_list, random_graph, write_graph,
};
use flashlab_export::nbd::parse_handshake;
use flashlab_export::{ControlCommand, FaultRule, HttpRequest};
use flashlab_infer::Recording;
use flashlab_plan::Plan;
use flashlab_reproduce::DriveRows;
use flashlab_samples::{FolderKind, Manifest, RecordingSettings, RunFolder};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice, zoo};

/// How long each target runs: all of them within a minute.
const SECONDS: u64 = 4;

/// One edit: what is done, where, and with which byte.
type Edit = (u8, u16, u8);

/// The example that an index chooses, after these edits.
fn edited(examples: &[Vec<u8>], index: u8, edits: &[Edit]) -> Vec<u8> {
    let mut bytes = examples[usize::from(index) % examples.len()].clone();
    for &(kind, place, byte) in edits.iter().take(64) {
        let place = usize::from(place) % (bytes.len() + 1);
        match kind % 4 {
            0 if place < bytes.len() => bytes[place] = byte,
            1 if place < bytes.len() => drop(bytes.remove(place)),
            2 => bytes.insert(place, byte),
            _ => {
                let end = (place + usize::from(byte)).min(bytes.len());
                let repeated = bytes[place..end].to_vec();
                bytes.splice(place..place, repeated);
            }
        }
    }
    bytes
}

/// Calls a parser with edited examples.
fn fuzz(examples: &[Vec<u8>], parse: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    bolero::check!()
        .with_type::<(u8, Vec<Edit>)>()
        .with_test_time(Duration::from_secs(SECONDS))
        .for_each(|(index, edits)| parse(&edited(examples, *index, edits)));
}

fn texts(examples: &[&str]) -> Vec<Vec<u8>> {
    examples.iter().map(|example| example.as_bytes().to_vec()).collect()
}

#[test]
fn values_of_options() {
    let examples = texts(&[
        "64MiB",
        "1GiB",
        "2.5ms",
        "1h30m",
        "12345",
        "0xdeadbeef",
        "sim:zeus@state",
        "sim:./own.toml",
        "/dev/sda",
        "erase_block_size",
        "write:error=5:every=3",
    ]);
    fuzz(&examples, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = text.parse::<Bytes>().map(|bytes| bytes.to_string());
        let _ = text.parse::<Nanos>().map(|time| time.to_string());
        let _ = text.parse::<Seed>();
        let _ = text.parse::<Target>().map(|target| target.to_string());
        let _ = text.parse::<ProfileName>();
        let _ = text.parse::<Parameter>();
        let _ = text.parse::<FaultRule>();
    });
}

#[test]
fn plans() {
    let examples: Vec<Vec<u8>> = Plan::MICRO_BENCHMARKS
        .iter()
        .map(|name| Plan::builtin(name).unwrap().to_toml().into_bytes())
        .collect();
    fuzz(&examples, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(plan) = Plan::parse(&text, "plan.toml") {
            // An accepted plan can be printed and parsed again.
            assert!(Plan::parse(&plan.to_toml(), "again.toml").is_ok(), "{}", plan.to_toml());
        }
    });
}

#[test]
fn profiles() {
    let examples: Vec<Vec<u8>> = zoo().iter().map(|profile| profile.to_toml().into_bytes()).collect();
    fuzz(&examples, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(profile) = Profile::parse(&text, "profile.toml") {
            assert!(Profile::parse(&profile.to_toml(), "again.toml").is_ok(), "{}", profile.to_toml());
        }
    });
}

#[test]
fn rows_of_real_drives() {
    let examples = texts(&[
        include_str!("../../../crates/reproduce/figures/ssd_iq/media_writes_by_counter.csv"),
        "drive,workload,parameters,file_gib,written_gib,steady_mib_s,use\n\
         WD DC 960 GB (PCIe 3),\"zones, scattered\",s0.2 f0 s0.8 f1,894,6253.0,186.8,test\n\
         WD DC 960 GB (PCIe 3),whole zones in random order,open 1 zone pages of 512 KiB 16384,894,3563.0,457.0,fit\n",
        "drive,offered_per_s,writes_per_s,read_p50_us,read_p99_us,write_p50_us,write_p99_us\n\
         WD DC 960 GB (PCIe 3),10000.0,9953.0,84.0,362.0,13.0,16.0\n",
    ]);
    fuzz(&examples, |bytes| {
        let _ = DriveRows::default().add("rows.csv", &String::from_utf8_lossy(bytes));
    });
}

#[test]
fn traces() {
    let examples = texts(&[
        "fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n10 /dev/sda read 4096 8192\n20 /dev/sda write 0 4096\n",
        "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda wait 100\n/dev/sda write 0 4096\n/dev/sda close\n",
        "  8,0    1        1     0.000000000  1234  Q   W 2048 + 8 [dbench]\n  8,0    1        2     0.000100000  1234  C   W 2048 + 8 [0]\n",
        "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,0,Write,2822144,4096,1330\n",
        "1000 0 2048 8 1\n2000 0 4096 16 0\n",
    ]);
    fuzz(&examples, |bytes| drop(flashlab_trace::parse(bytes, "trace", None, usize::MAX)));
}

#[test]
fn saved_states() {
    let profile = "version = 2\nname = \"small\"\ntitle = \"Small\"\nsource = \"none\"\nfit = \"none\"\n\
                   capacity = \"4MiB\"\n[flash]\nover_provisioning = 0.3\n";
    let profile = Profile::parse(profile, "small").unwrap();
    let Ok(SimulatedDevice::Flash(device)) = profile.device() else { panic!("a profile of flash") };
    let examples = vec![device.save()];
    fuzz(&examples, |bytes| {
        let mut bytes = bytes.to_vec();
        drop(FlashDevice::restore(&profile, &bytes));
        // After the checksum come magic, version, fingerprint, length and the checksum of the payload.
        if bytes.len() > 32 {
            let (length, checksum) = (bytes.len() as u64 - 32, crc32fast::hash(&bytes[32..]));
            bytes[20..28].copy_from_slice(&length.to_le_bytes());
            bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
            drop(FlashDevice::restore(&profile, &bytes));
        }
    });
}

/// A new folder of a run.
fn run_folder(path: &std::path::Path) -> RunFolder {
    let settings = RecordingSettings { target: String::new(), recorded_by: String::new() };
    let manifest =
        Manifest::of_recording(flashlab_base::Identity::default(), "", settings, Vec::new(), String::new());
    RunFolder::create(path, &manifest).unwrap()
}

#[test]
fn lists_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let run = run_folder(&path);
    std::fs::write(run.samples().join("run-00001-00000.parquet"), "PAR1").unwrap();
    let examples = texts(&[
        r#"{"file":"samples/run-00001-00000.parquet","bytes":4,"content_crc32":"0d3d8e3a"}
"#,
        r#"{"file":"../outside/run-00001-00000.parquet","bytes":4,"content_crc32":"0d3d8e3a"}
"#,
    ]);
    fuzz(&examples, |bytes| {
        std::fs::write(path.join("files.jsonl"), bytes).unwrap();
        if let Ok((run, _)) = RunFolder::open::<RecordingSettings>(&path, FolderKind::ALL) {
            // No line leads out of the folder.
            assert!(run.all_segments().iter().all(|segment| segment.starts_with(run.samples())));
        }
    });
}

#[test]
fn segments_of_samples() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_folder(&folder.path().join("run"));
    let mut recording = flashlab_samples::Recording::start(&run);
    let mut lanes = recording.start_run(1, 1).unwrap();
    for position in 0..200 {
        let _ = lanes[0].record(&flashlab_base::Sample {
            position,
            process: 0,
            mode: flashlab_base::Mode::Write,
            offset: Bytes(position * 4096),
            size: Bytes::kib(4),
            intended: Nanos(position * 1000),
            submitted: Nanos(position * 1000),
            completed: Nanos(position * 1000 + 500),
            errno: 0,
        });
    }
    recording.finish_run(lanes).unwrap();
    let examples: Vec<Vec<u8>> =
        run.all_segments().iter().map(|segment| std::fs::read(segment).unwrap()).collect();
    let file = folder.path().join("edited.parquet");
    fuzz(&examples, |bytes| {
        std::fs::write(&file, bytes).unwrap();
        let mut count = 0;
        let _ = flashlab_samples::for_each_batch(&file, |columns| count += columns.len());
    });
}

#[test]
fn inferences() {
    let examples = texts(&[
        r#"{"version": 4, "flashlab": "0.1.0", "identity": {"target": "x", "capacity": 1048576}, "findings": []}"#,
        r#"{"parameter": "erase_block_size", "value": 4194304.0, "confidence": 0.9, "verdict": "found"}"#,
    ]);
    fuzz(&examples, |bytes| drop(serde_json::from_slice::<Inference>(bytes)));
}

#[test]
fn steps_of_probes() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_folder(&folder.path().join("run"));
    let examples = texts(&[concat!(
        r#"{"step":"device","version":1,"capacity_bytes":1048576,"block_bytes":512,"depth":32}"#,
        "\n",
        r#"{"step":"begin","probe":"fill","now_ns":0}"#,
        "\n",
        r#"{"step":"idle","time_ns":7,"now_ns":7}"#,
        "\n",
        r#"{"step":"flush","took_ns":null,"now_ns":9}"#,
        "\n",
        r#"{"step":"end","probe":"fill","is_complete":true}"#,
        "\n"
    )]);
    fuzz(&examples, |bytes| {
        std::fs::write(run.path().join("runs.jsonl"), bytes).unwrap();
        if let Ok(recording) = Recording::open(&run) {
            let _ = recording.steps_of("fill");
        }
    });
}

#[test]
fn handshakes_of_nbd_servers() {
    let mut handshake = b"NBDMAGICIHAVEOPT".to_vec();
    handshake.extend([0, 3]);
    handshake.extend(0x0003_e889_0455_65a9_u64.to_be_bytes());
    handshake.extend([0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0]);
    fuzz(&[handshake], |bytes| drop(parse_handshake(bytes)));
}

#[test]
fn requests_to_a_server() {
    let examples = texts(&[
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
        "status\n",
        "fault write:error=5:every=3\n",
        "power-loss\n",
    ]);
    fuzz(&examples, |bytes| {
        let _ = HttpRequest::parse(bytes);
        let _ = ControlCommand::parse(bytes);
    });
}

#[test]
fn edge_lists() {
    let examples = texts(&["# nodes\n0 1\n1\t2 0.5\n\n% more\n2,3;7\r\n3 3\n", "9 4294967293\n", "12 7"]);
    fuzz(&examples, |text| {
        let Ok(graph) = parse_edge_list(text, Bytes::mib(1)) else { return };
        let mut arcs = 0;
        for node in 0..graph.nodes() {
            let list = graph.of(node);
            assert!(list.is_sorted_by(|a, b| a < b) && !list.contains(&node), "node {node}: {list:?}");
            assert!(list.iter().all(|&other| graph.of(other).contains(&node)), "node {node}: {list:?}");
            arcs += list.len() as u64;
        }
        assert_eq!(arcs, graph.arcs());
    });
}

#[test]
fn graphs() {
    let file = |graph: &AdjacencyArrays| {
        let mut bytes = Vec::new();
        write_graph(graph, Seed(1), |part| {
            bytes.extend_from_slice(part);
            Ok::<(), ()>(())
        })
        .unwrap();
        bytes
    };
    let examples = [file(&random_graph(9, 14, Seed(1))), file(&AdjacencyArrays::from_edges(1, []))];
    fuzz(&examples, |bytes| {
        // An edited file rarely keeps its checksums, so each is parsed as it is and with the header's made right.
        let mut mended = bytes.to_vec();
        if mended.len() >= 64 {
            let content = crc32fast::hash(&mended[64..]);
            mended[40..44].copy_from_slice(&content.to_le_bytes());
            let header = crc32fast::hash(&mended[16..48]);
            mended[12..16].copy_from_slice(&header.to_le_bytes());
        }
        for bytes in [bytes, &mended] {
            if let Ok(read) = GraphFile::parse(bytes) {
                assert_eq!(GraphFile::parse(&file(&read.graph)).unwrap().graph, read.graph);
            }
        }
    });
}
