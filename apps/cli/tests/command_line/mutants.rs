//! Damages each kind of file that a verb reads, at random, and runs a verb that reads it: the verb refuses the file, or ends as well as
//! without the damage. It never panics, hangs, or takes much memory.
//!
//! By hand, longer: `FLASHLAB_MUTANTS=SEED,COUNT cargo test -p flashlab --test command_line mutants`. `crates/repair` has mutants of
//! volumes with files.

use std::fs;
use std::path::PathBuf;

use flashlab_base::{Prng, Seed};

use crate::file_arguments::{FileArgument, end_in_time, file_arguments, fixtures};
use crate::support::{Directory, Ran, SMALL_PROFILE, program};

/// A kind of file, and a command that reads it.
struct Subject {
    /// A file, or a folder of which the first file is taken.
    file: &'static str,
    command: &'static str,
    /// Whether its checksum covers all of it: what is accepted has the result of the intact file.
    is_sealed: bool,
}

const fn subject(file: &'static str, is_sealed: bool, command: &'static str) -> Subject {
    Subject { file, command, is_sealed }
}

const SUBJECTS: &[Subject] = &[
    subject("run/manifest.json", true, "report run --json"),
    subject("run/runs.jsonl", true, "report run --json"),
    subject("run/files.jsonl", true, "report run --json"),
    subject("run/samples", true, "report run --json"),
    subject("run/samples", true, "compare run other --json"),
    subject("run/samples", true, "sim run sim:./profile.toml --trace run --json"),
    subject("recording/manifest.json", true, "report recording --json"),
    subject("recording/runs.jsonl", true, "report recording --json"),
    subject("recording/files.jsonl", true, "report recording --json"),
    subject("recording/samples", true, "report recording --json"),
    subject("inference/manifest.json", true, "report inference --json"),
    subject("inference/inference.json", true, "report inference --json"),
    subject("inference/checkpoint.json", true, "resume inference --json"),
    subject("inference/runs.jsonl", true, "infer --replay inference --json --output made"),
    subject("inference/files.jsonl", true, "infer --replay inference --json --output made"),
    subject("inference/probes", true, "infer --replay inference --json --output made"),
    subject("inference/samples", true, "infer --replay inference --json --output made"),
    subject("inference/samples", true, "model fit inference --json --output made"),
    subject("fit/manifest.json", true, "model tune fit --for postgresql"),
    subject("fit/samples", true, "model fit fit --json --output made"),
    subject("fit/model.json", true, "model predict fit --io-size 4KiB --json"),
    subject("fit/model.json", true, "model tune fit --for postgresql"),
    subject("fit/model.json", true, "em predict scan fit --elements 1000 --json"),
    subject("rr_lat.1.log", false, "model predict rr_lat.1.log --io-size 4KiB --json"),
    subject("fio.json", false, "model predict fio.json --io-size 4KiB --json"),
    subject("profile.toml", false, "sim show sim:./profile.toml"),
    subject("flash.toml", false, "sim show sim:./flash.toml"),
    subject("sealed.toml", true, "sim run sim:./sealed.toml --trace trace.log --json"),
    subject("state", false, "sim run sim:./flash.toml@state --trace trace.log --json"),
    subject("plan.toml", false, "plan check plan.toml"),
    subject("io-properties.yaml", false, "model tune fit --for scylla --published io-properties.yaml --json"),
    subject("trace.log", false, "sim run sim:./profile.toml --trace trace.log --json"),
    subject("trace.gz", false, "sim run sim:./profile.toml --trace trace.gz --json"),
    subject("trace.blkparse", false, "sim run sim:./profile.toml --trace trace.blkparse --json"),
    subject("trace.msr", false, "sim run sim:./profile.toml --trace trace.msr --json"),
    subject("trace.mqsim", false, "sim run sim:./profile.toml --trace trace.mqsim --json"),
    subject(
        "graph",
        true,
        "em predict bfs sim:./profile.toml --graph graph --algorithm semi-external --json",
    ),
    subject("edges", false, "em graph edges made --from edges --json"),
    subject("vol", false, "repair status vol --json"),
    subject("vol", false, "repair check vol"),
];

/// The kinds of files that an argument reads, by the names above. An argument of `../file_arguments.tsv` that reads files and is not
/// here fails a test: give its kinds mutants.
const KINDS: &[(&str, &[&str])] = &[
    ("run PLAN", &["plan.toml"]),
    // Rows that are right are measured, which takes minutes: `tests/fuzz` damages them.
    ("reproduce --rows", &[]),
    ("infer --replay", &["inference"]),
    ("resume RUN", &["run", "inference"]),
    ("report RUN", &["run", "recording", "inference"]),
    ("report TWIN", &["run", "profile.toml"]),
    // What is right is served until a signal: `crates/view/tests` damages samples.
    ("view RUN", &[]),
    ("compare RUN", &["run"]),
    ("compare OTHER", &["run"]),
    ("model predict MODEL", &["fit", "rr_lat.1.log", "fio.json"]),
    ("model check MODEL", &["fit"]),
    ("model tune RUN", &["fit"]),
    ("model tune --published", &["io-properties.yaml"]),
    ("model twin RUN", &["run"]),
    ("model twin --inference", &["inference"]),
    ("model twin-check RUN", &["run"]),
    ("model twin-check TWIN", &["run", "profile.toml"]),
    ("plan check FILE", &["plan.toml"]),
    // Records of any content.
    ("em sort INPUT", &[]),
    ("em run --graph", &["graph"]),
    ("em predict TARGET|RUN", &["fit"]),
    ("em predict --graph", &["graph"]),
    // Devices of any content.
    ("em predict --structure", &[]),
    ("em predict --pool", &[]),
    ("em graph --from", &["edges"]),
    ("sim show NAME", &["profile.toml", "flash.toml", "sealed.toml"]),
    ("sim precondition NAME", &["flash.toml"]),
    ("sim run TARGET", &["profile.toml", "flash.toml", "sealed.toml", "state"]),
    ("sim run --trace", &["trace.log", "trace.gz", "trace.blkparse", "trace.msr", "trace.mqsim", "run"]),
    ("sim run --plan", &["plan.toml"]),
    ("sweep TARGET", &["profile.toml"]),
    ("sweep --plan", &["plan.toml"]),
    // The manifests and the runs in it are read as those of other folders.
    ("sweep merge DIR", &[]),
    ("replay TRACE", &["trace.log"]),
    ("serve TARGET", &["profile.toml", "flash.toml", "state"]),
    ("repair create --from", &["inference"]),
    ("repair serve VOLUME", &["vol"]),
    ("repair mount VOLUME", &["vol"]),
    ("repair run VOLUME", &["vol"]),
    ("repair status VOLUME", &["vol"]),
    ("repair check VOLUME", &["vol"]),
    ("repair dump VOLUME", &["vol"]),
    ("repair erase VOLUME", &["vol"]),
    ("repair resize VOLUME", &["vol"]),
    ("repair simulate --volume", &["vol"]),
];

#[test]
fn each_kind_of_file_that_a_verb_reads_has_mutants() {
    let reads =
        |argument: &FileArgument| matches!(argument.usage, "read" | "stream" | "run" | "device" | "volume");
    for argument in file_arguments().filter(reads) {
        let name = format!("{} {}", argument.verb, argument.name);
        let kinds = KINDS.iter().find(|(argument, _)| *argument == name);
        let (_, kinds) = kinds.unwrap_or_else(|| panic!("which kinds of files does `{name}` read?"));
        for kind in *kinds {
            let is_kind = |subject: &Subject| subject.file.split('/').next() == Some(kind);
            assert!(SUBJECTS.iter().any(is_kind), "`{name}` reads {kind}, which has no mutants");
        }
    }
}

/// What is written over numbers in texts: limits of integers and of floats, and what no size is.
const NUMBERS: [&str; 7] =
    ["2147483647", "4294967295", "18446744073709551615", "99999999999999999999", "1e308", "-1", "0"];

/// Damages `bytes`, and says how.
fn damage(bytes: &mut Vec<u8>, prng: &mut Prng) -> String {
    let at = |bytes: &[u8], prng: &mut Prng| prng.below(bytes.len().max(1) as u64) as usize;
    match prng.below(6) {
        0 => {
            let length = at(bytes, prng);
            bytes.truncate(length);
            format!("cut to {length} bytes")
        }
        1 => {
            let (byte, bit) = (at(bytes, prng), prng.below(8));
            bytes[byte] ^= 1 << bit;
            format!("bit {bit} of byte {byte} flipped")
        }
        2 => {
            let from = at(bytes, prng);
            let to = bytes.len().min(from + 512);
            bytes[from..to].fill(0);
            format!("bytes {from} to {to} are 0")
        }
        3 => {
            let length = 64.min(bytes.len() / 2);
            let (one, other) = (prng.below((bytes.len() - length + 1) as u64) as usize, 0);
            let block = bytes[one..one + length].to_vec();
            bytes.copy_within(other..other + length, one);
            if one >= length {
                bytes[other..other + length].copy_from_slice(&block);
            }
            format!("{length} bytes at {one} swapped with those at 0")
        }
        4 => {
            let (from, length) = (at(bytes, prng), 1 + prng.below(64) as usize);
            let copied = bytes[from..bytes.len().min(from + length)].to_vec();
            bytes.splice(from..from, copied);
            format!("{length} bytes from {from} doubled")
        }
        _ => replace_number(bytes, prng),
    }
}

/// Puts another number in place of one of a text, or of eight bytes.
fn replace_number(bytes: &mut Vec<u8>, prng: &mut Prng) -> String {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|&at| bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_digit()))
        .collect();
    let is_text = std::str::from_utf8(bytes).is_ok();
    if !is_text || starts.is_empty() {
        let from = prng.below(bytes.len().max(1) as u64) as usize;
        let to = bytes.len().min(from + 8);
        bytes[from..to].fill(0xFF);
        return format!("bytes {from} to {to} are all ones");
    }
    let from = starts[prng.below(starts.len() as u64) as usize];
    let length = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = NUMBERS[prng.below(NUMBERS.len() as u64) as usize];
    bytes.splice(from..from + length, number.bytes());
    format!("the number at byte {from} is {number}")
}

fn run(directory: &Directory, command: &str) -> Ran {
    let made = directory.path("made");
    let _ = fs::remove_dir_all(&made).or_else(|_| fs::remove_file(&made));
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    end_in_time(directory, &words)
}

/// The file of a subject: the first one, if it is a folder.
fn file_of(directory: &Directory, subject: &Subject) -> PathBuf {
    let path = directory.path(subject.file);
    match path.is_dir() {
        true => fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).min().unwrap(),
        false => path,
    }
}

const BLKPARSE: &str = "  8,0    1        1     0.000000000  1234  Q   W 2048 + 8 [dbench]\n  \
                        8,0    1        2     0.000100000  1234  C   W 2048 + 8 [0]\n";
const MSR: &str =
    "128166372003061629,hm,0,Read,3834961,32768,413\n128166372016382155,hm,0,Write,2822144,4096,1330\n";

const IO_PROPERTIES: &str = "disks:\n  - mountpoint: /mnt\n    read_iops: 894399\n    read_bandwidth: 3740749056\n    \
                             write_iops: 607182\n    write_bandwidth: 2494925312\n";

/// The output of fio for reads of five sizes.
fn fio_output() -> String {
    let job = |size: u64| {
        let time = serde_json::json!(100_000 + size);
        serde_json::json!({
            "jobname": format!("rr{size}"),
            // A group of its own: it ran alone.
            "groupid": size,
            "job options": {"rw": "randread", "bs": size.to_string(), "ioengine": "psync"},
            "read": {"io_bytes": 1000 * size, "total_ios": 1000, "iops": 1e9 / (100_000 + size) as f64, "clat_ns": {"mean": time,
                "percentile": {"50.000000": time, "95.000000": time, "99.000000": time}}},
            "write": {"total_ios": 0},
        })
    };
    let jobs = [4096, 16_384, 65_536, 262_144, 1_048_576].map(job);
    serde_json::json!({"fio version": "fio-3.33", "jobs": jobs}).to_string()
}

#[test]
fn damaged_files_are_refused_or_make_no_difference() {
    /// Five for each subject take less than a minute.
    const HERE: (u64, u64) = (49, 5);
    let by_hand = std::env::var("FLASHLAB_MUTANTS").ok();
    let (seed, count) = by_hand.map_or(HERE, |text| {
        let (seed, count) = text.split_once(',').expect("FLASHLAB_MUTANTS=SEED,COUNT");
        (seed.parse().unwrap(), count.parse().unwrap())
    });
    let directory = fixtures();
    let offset = |io: u64| (io * io * 7919 % 1000) << 20;
    let line = |io: u64| {
        format!("{}, {}, 0, {}, {}, 0\n", io / 10, 100_000 + io % 7, 4096 << (2 * (io / 75)), offset(io))
    };
    directory.write("rr_lat.1.log", (0..300).map(line).collect::<String>());
    directory.write("edges", "0 1\n1 2\n2 3\n3 0\n1 3\n");
    directory.succeeds(&["sim", "precondition", "sim:./flash.toml", "--output", "state"]);
    directory.succeeds(&["sim", "run", "sim:./profile.toml", "--plan", "plan.toml", "--output", "recording"]);
    directory.succeeds(&[
        "infer",
        "sim:./profile.toml",
        "--only",
        "read_cost_per_io,read_page_size",
        "--output",
        "inference",
    ]);
    directory.write("sealed.toml", flashlab_samples::seal::PROFILE.sealed(SMALL_PROFILE));
    directory.write("fio.json", fio_output());
    directory.write("io-properties.yaml", IO_PROPERTIES);
    fs::copy(directory.path("trace.log"), directory.path("trace")).unwrap();
    program("gzip", &["--no-name", directory.path("trace").to_str().unwrap()]).unwrap();
    directory.write("trace.blkparse", BLKPARSE);
    directory.write("trace.msr", MSR);
    directory.write("trace.mqsim", "1000 0 2048 8 1\n2000 0 4096 16 0\n");
    let mut prng = Prng::new(Seed(seed));
    let mut wrong = String::new();
    for subject in SUBJECTS {
        let file = file_of(&directory, subject);
        let intact = fs::read(&file).unwrap();
        let whole = run(&directory, subject.command);
        assert_eq!(whole.code, Some(0), "{}: {whole}", subject.command);
        // What is far behind the superblocks of a volume is data.
        let head = intact.len().min(1 << 20);
        for _ in 0..count {
            let mut bytes = intact[..head].to_vec();
            let how = damage(&mut bytes, &mut prng);
            if bytes.len() == head {
                bytes.extend_from_slice(&intact[head..]);
            }
            fs::write(&file, &bytes).unwrap();
            let ran = run(&directory, subject.command);
            let is_right = match ran.code {
                Some(0) => !subject.is_sealed || ran.out == whole.out,
                Some(code) => (1..=5).contains(&code) && !ran.err.is_empty(),
                None => false,
            };
            if !is_right {
                wrong += &format!("{} ({how}): {}: {ran}\n", file.display(), subject.command);
            }
        }
        fs::write(&file, &intact).unwrap();
    }
    assert!(wrong.is_empty(), "FLASHLAB_MUTANTS={seed},{count}\n{wrong}");
}
