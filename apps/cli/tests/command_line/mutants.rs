//! Damages each kind of file that a verb reads, at random, and runs a verb that reads it: the verb refuses the file, or ends as well as
//! without the damage. It never panics, hangs, or takes much memory.
//!
//! By hand, longer: `FLASHLAB_MUTANTS=SEED,COUNT cargo test -p flashlab --test command_line mutants`. `crates/repair` and `flipped_bits`
//! have mutants of volumes with files and of inferences.

use std::fs;
use std::path::PathBuf;

use flashlab_base::{Prng, Seed};

use crate::file_arguments::{end_in_time, fixtures};
use crate::support::{Directory, Ran};

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
    subject("run/samples", true, "report run --json"),
    subject("run/samples", true, "compare run other --json"),
    subject("run/samples", false, "sim run sim:./profile.toml --trace run --json"),
    subject("recording/manifest.json", false, "report recording --json"),
    subject("recording/runs.jsonl", false, "report recording --json"),
    subject("recording/samples", false, "report recording --json"),
    subject("fit/model.json", false, "model predict fit --io-size 4KiB --json"),
    subject("fit/model.json", false, "model tune fit --for postgresql"),
    subject("rr_lat.1.log", false, "model predict rr_lat.1.log --io-size 4KiB --json"),
    subject("profile.toml", false, "sim show sim:./profile.toml"),
    subject("flash.toml", false, "sim show sim:./flash.toml"),
    subject("state", false, "sim run sim:./flash.toml@state --trace trace.log --json"),
    subject("plan.toml", false, "plan check plan.toml"),
    subject("trace.log", false, "sim run sim:./profile.toml --trace trace.log --json"),
    subject(
        "graph",
        true,
        "em predict bfs sim:./profile.toml --graph graph --algorithm semi-external --json",
    ),
    subject("edges", false, "em graph edges made --from edges --json"),
    subject("vol", false, "repair status vol --json"),
    subject("vol", false, "repair check vol"),
];

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
    let _ = fs::remove_file(directory.path("made"));
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

#[test]
fn damaged_files_are_refused_or_make_no_difference() {
    /// Seven for each subject take half a minute.
    const HERE: (u64, u64) = (49, 7);
    let by_hand = std::env::var("FLASHLAB_MUTANTS").ok();
    let (seed, count) = by_hand.map_or(HERE, |text| {
        let (seed, count) = text.split_once(',').expect("FLASHLAB_MUTANTS=SEED,COUNT");
        (seed.parse().unwrap(), count.parse().unwrap())
    });
    let directory = fixtures();
    let line = |io: u64| format!("{}, {}, 0, {}, 0, 0\n", io * 2, 100_000 + io % 7, 4096 << (2 * (io / 75)));
    directory.write("rr_lat.1.log", (0..300).map(line).collect::<String>());
    directory.write("edges", "0 1\n1 2\n2 3\n3 0\n1 3\n");
    directory.succeeds(&["sim", "precondition", "sim:./flash.toml", "--output", "state"]);
    directory.succeeds(&["sim", "run", "sim:./profile.toml", "--plan", "plan.toml", "--output", "recording"]);
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
