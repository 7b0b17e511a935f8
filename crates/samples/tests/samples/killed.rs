//! A process that is killed while it records.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use flashlab_base::{Bytes, Nanos, Sample, Seed};
use flashlab_samples::{FolderKind, Recording, RunFolder};

use crate::synthetic::{folder, random_reads, read, record};

const CHILD: &str = "FLASHLAB_TEST_RECORDS_INTO";
const SEED: Seed = Seed(8);

/// Samples whose times are the wall clock's, one every 50 us.
fn paced(sample: Sample, begin: Instant) -> Sample {
    let submitted = Nanos(begin.elapsed().as_nanos() as u64);
    while begin.elapsed().as_nanos() < u128::from(submitted.0) + 50_000 {
        std::thread::yield_now();
    }
    let completed = Nanos(begin.elapsed().as_nanos() as u64);
    Sample { intended: submitted, submitted, completed, ..sample }
}

/// Not a test itself: the next test runs it in a separate process, and kills it.
#[test]
fn records_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let folder = folder(path.as_ref());
    let mut recording = Recording::start(&folder);
    let mut lanes = recording.start_run(1, 1).unwrap();
    let begin = Instant::now();
    for sample in random_reads(Bytes::gib(64), u64::MAX, SEED) {
        let sample = paced(sample, begin);
        assert!(lanes[0].record(&sample).is_continue());
        if sample.position.is_multiple_of(200) {
            println!("recorded {} {}", sample.position, sample.completed.0);
            std::io::stdout().flush().unwrap();
        }
    }
}

#[test]
fn a_killed_process_leaves_all_but_its_last_second() {
    const SECONDS: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::records_until_it_is_killed", "--nocapture"])
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut recorded, mut at) = (0, 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((position, completed)) =
            line.strip_prefix("recorded ").and_then(|numbers| numbers.split_once(' '))
        else {
            continue;
        };
        (recorded, at) = (position.parse().unwrap(), completed.parse().unwrap());
        if at > SECONDS * 1_000_000_000 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(at > SECONDS * 1_000_000_000, "the child ended by itself after {recorded} samples");

    let (folder, _) = RunFolder::open::<String>(&path, FolderKind::ALL).unwrap();
    for aside in folder.set_aside().unwrap() {
        println!("set aside {}: {}", aside.path.display(), aside.reason);
    }
    let found = read(&folder, 1);
    for (sample, expected) in found.iter().zip(random_reads(Bytes::gib(64), u64::MAX, SEED)) {
        assert_eq!((sample.position, sample.offset), (expected.position, expected.offset));
    }
    let last = found.last().expect("four seconds leave something").completed.0;
    println!(
        "{} of {recorded} samples are there; the last {} ms are missing",
        found.len(),
        at.saturating_sub(last) / 1_000_000
    );
    // The limit is one second; a busy machine may make the writer wait for another two.
    assert!(last + 3_000_000_000 >= at, "{} ms are missing", (at - last) / 1_000_000);
}

#[test]
fn torn_segments_are_set_aside_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    record(&folder, 1, random_reads(Bytes::gib(1), 5000, Seed(1)));
    let whole = std::fs::read(&folder.segments(1)[0]).unwrap();
    let samples = folder.samples();
    record(&folder, 2, random_reads(Bytes::gib(1), 10, Seed(2)));
    record(&folder, 3, random_reads(Bytes::gib(1), 10, Seed(3)));
    let listed = |run: u32| folder.segments(run).remove(0);
    std::fs::write(listed(2), &whole[..whole.len() / 2]).unwrap();
    std::fs::remove_file(listed(3)).unwrap();
    std::fs::write(samples.join("run-00001-00001.part"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(samples.join("run-00001-00002.parquet"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(samples.join("run-00001-00003.parquet"), vec![0; whole.len()]).unwrap();
    std::fs::write(samples.join("run-00001-00004.parquet"), "").unwrap();

    let mut aside = folder.set_aside().unwrap();
    aside.sort_by(|a, b| a.path.cmp(&b.path));
    let names: Vec<_> = aside.iter().map(|aside| aside.path.file_name().unwrap().to_str().unwrap()).collect();
    let torn = (1..=4).map(|number| format!("run-00001-0000{number}.torn"));
    let others = ["run-00002-00000.torn", "run-00003-00000.parquet"].map(str::to_owned);
    assert_eq!(names, torn.chain(others).collect::<Vec<_>>());
    assert!(aside.iter().all(|aside| !aside.reason.is_empty()));
    assert_eq!(read(&folder, 1).len(), 5000, "the whole segment stays");
    assert!(folder.segments(2).is_empty() && folder.segments(3).is_empty());
    assert_eq!(folder.set_aside().unwrap(), []);
}
