//! `flashlab em sort` against GNU sort and DuckDB: `cargo bench -p flashlab --bench em_sort [-- MIB [MEMORY_MIB [ROUNDS]]]`.
//!
//! # Method
//! 1. A file of records of 16 bytes is made: 15 random letters and digits and a line feed, so that all three can sort it.
//! 2. In each round every program sorts it with the same memory and two threads, one after the other, into a new file
//!    that is removed; files are written back before the next one begins.
//! 3. The medians are compared. flashlab's time includes reading the output back, which the others do not do.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use flashlab_base::{Prng, Seed};

const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<u64>().ok());
    let mut next = |default| numbers.next().unwrap_or(default);
    let (size, memory, rounds) = (next(2048), next(256), next(3));
    let directory = std::env::current_dir()?.join(format!("em-sort-bench-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let result = compare(&directory, size, memory, rounds);
    fs::remove_dir_all(&directory)?;
    result
}

fn compare(directory: &Path, size: u64, memory: u64, rounds: u64) -> Result<(), Box<dyn Error>> {
    generate(&directory.join("in"), (size << 20) / 16)?;
    let duckdb = format!(
        "import duckdb; c = duckdb.connect('duck.db'); c.execute(\"SET memory_limit='{memory}MiB'; SET threads=2; \
         SET preserve_insertion_order=false; SET temp_directory='tmp'\"); c.execute(\"COPY (SELECT k FROM read_csv('in', \
         columns={{'k': 'VARCHAR'}}, header=false, delim='\\t') ORDER BY k) TO 'out' (HEADER false)\")"
    );
    let flashlab = env!("CARGO_BIN_EXE_flashlab");
    let memory = memory.to_string();
    let (gnu, ours) = (format!("{memory}M"), format!("{memory}MiB"));
    let sort = [
        flashlab, "em", "sort", "in", "out", "--record", "16B", "--key", "0..15", "--memory", &ours, "--json",
    ];
    let programs: [(&str, Vec<&str>); 3] = [
        ("flashlab", sort.to_vec()),
        ("GNU sort", vec!["sort", "--parallel=2", "-S", &gnu, "-T", ".", "-o", "out", "in"]),
        ("DuckDB", vec!["python3", "-c", &duckdb]),
    ];
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds {
        for ((name, command), times) in programs.iter().zip(&mut times) {
            if round == 0 {
                println!("{name}: {}", command.join(" "));
            }
            match time(directory, command)? {
                Some(seconds) => times.push(seconds),
                None => println!("{name} failed, or is not installed"),
            }
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    let medians = times.each_mut().map(median);
    for ((name, _), seconds) in programs.iter().zip(medians) {
        let (Some(seconds), Some(ours)) = (seconds, medians[0]) else { continue };
        println!("{name}: {seconds:.2} s, {:.2} times the time of flashlab", seconds / ours);
    }
    Ok(())
}

/// The seconds that a command takes, until what it wrote is on the disk.
fn time(directory: &Path, command: &[&str]) -> Result<Option<f64>, Box<dyn Error>> {
    let begin = Instant::now();
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).current_dir(directory).env("LC_ALL", "C");
    let status = process.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let output = directory.join("out");
    let seconds = match status {
        Ok(status) if status.success() => {
            File::open(&output)?.sync_all()?;
            Some(begin.elapsed().as_secs_f64())
        }
        _ => None,
    };
    for left in ["out", "duck.db"] {
        let _ = fs::remove_file(directory.join(left));
    }
    Ok(seconds)
}

fn generate(path: &Path, records: u64) -> Result<(), Box<dyn Error>> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut prng = Prng::new(Seed(26));
    let mut record = [b'\n'; 16];
    for _ in 0..records {
        let (mut bits, more) = (prng.next_u64(), prng.next_u64());
        for (at, byte) in record[..15].iter_mut().enumerate() {
            bits = if at == 10 { more } else { bits };
            *byte = LETTERS[(bits & 63) as usize];
            bits >>= 6;
        }
        file.write_all(&record)?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}
