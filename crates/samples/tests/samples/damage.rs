//! Damaged files: every reader returns the correct samples or an error.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flashlab_base::{Sample, Seed};
use flashlab_samples::{FolderKind, Manifest, RunFolder, SamplesError, for_each_batch};
use proptest::prelude::*;

use crate::synthetic::{folder, manifest, mixed_ios, record};

/// A real segment.
static SEGMENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    record(&folder, 1, mixed_ios(0, 3000, Seed(5)));
    std::fs::read(&folder.segments(1)[0]).unwrap()
});

/// Random bytes at some offsets. More of them are near the end, where a Parquet file describes its content.
#[derive(Clone, Debug)]
struct Damage {
    bytes: Vec<(f64, bool, u8)>,
    cut: Option<f64>,
}

impl Damage {
    fn done_to(&self, whole: &[u8]) -> Vec<u8> {
        const FOOTER: f64 = 2500.0;
        let mut damaged = whole.to_vec();
        for &(place, in_footer, byte) in &self.bytes {
            let span = if in_footer { FOOTER.min(whole.len() as f64) } else { whole.len() as f64 };
            damaged[whole.len() - 1 - (place * span) as usize] = byte;
        }
        damaged.truncate(self.cut.map_or(whole.len(), |cut| (cut * whole.len() as f64) as usize));
        damaged
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xFF), Just(0x80), Just(0x7F)];
    let bytes = prop::collection::vec((0.0..1.0, any::<bool>(), byte), 1..8);
    let cut = prop::option::weighted(0.1, 0.0..1.0);
    (bytes, cut).prop_map(|(bytes, cut)| Damage { bytes, cut })
}

/// Reads the bytes as a segment; an error must name the file.
fn read_segment(bytes: &[u8]) -> Result<usize, SamplesError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run-00001-00000.parquet");
    std::fs::write(&path, bytes).unwrap();
    let mut count = 0;
    let result = for_each_batch(&path, |columns| {
        (0..columns.len()).for_each(|index| _ = columns.sample(index));
        count += columns.len();
    });
    names_the_file(result.map(|()| count), &path)
}

#[test]
fn a_pipe_among_the_files_of_a_run_is_refused_and_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    record(&folder, 1, mixed_ios(0, 3000, Seed(5)));
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        made.is_ok_and(|status| status.success())
    };
    let path = folder.segments(1).remove(0);
    let whole = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    if !pipe(&path) {
        flashlab_skip::skip(flashlab_skip::Need::Programs, format_args!("no mkfifo here"));
        return;
    }
    let error = names_the_file(folder.each_sample(1, |_| {}), &path).unwrap_err().to_string();
    assert!(error.contains("is a pipe and not a file"), "{error}");
    // Resuming the run renames it.
    let aside = folder.set_aside().unwrap();
    assert_eq!(aside.len(), 1);
    assert!(aside[0].reason.contains("is a pipe and not a file"), "{}", aside[0].reason);
    folder.each_sample(1, |_| panic!("it has no samples any more")).unwrap();
    assert!(!whole.is_empty());

    let runs = folder.path().join("runs.jsonl");
    std::fs::remove_file(&runs).unwrap();
    assert!(names_the_file(folder.runs::<u32>(), &runs).unwrap_err().to_string().contains("is missing"));
    assert!(pipe(&runs));
    let error = names_the_file(folder.runs::<u32>(), &runs).unwrap_err().to_string();
    assert!(error.contains("is a pipe and not a file"), "{error}");
}

fn names_the_file<T>(result: Result<T, SamplesError>, path: &Path) -> Result<T, SamplesError> {
    if let Err(error) = &result {
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    result
}

fn cases(usual: u32) -> ProptestConfig {
    // PROPTEST_CASES asks for another number.
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(usual), failure_persistence: None, ..ProptestConfig::default() }
}

/// The samples of a segment.
fn samples(bytes: &[u8]) -> Result<Vec<Sample>, SamplesError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run-00001-00000.parquet");
    std::fs::write(&path, bytes).unwrap();
    let mut samples = Vec::new();
    for_each_batch(&path, |columns| samples.extend((0..columns.len()).map(|index| columns.sample(index))))?;
    Ok(samples)
}

#[test]
fn no_flipped_bit_changes_a_figure() {
    let whole = samples(&SEGMENT).unwrap();
    let footer = SEGMENT.len() - 2500;
    let flips = (0..footer).step_by(23).chain(footer..SEGMENT.len());
    let mut refused = 0;
    for place in flips {
        let mut damaged = SEGMENT.clone();
        damaged[place] ^= 1 << (place % 8);
        match samples(&damaged) {
            Ok(read) => assert!(read == whole, "byte {place} of {}", SEGMENT.len()),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn no_flipped_bit_changes_a_manifest_or_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let folder = folder(&path);
    (1..=3).for_each(|run| folder.add_run(&Manifest { prepared_bytes: run, ..manifest() }).unwrap());
    folder.make_directory("plans").unwrap();
    folder.write_plan("plans/plan.toml", "name = \"granularity\"\n").unwrap();
    folder.finish::<String>().unwrap();
    let read = || -> Result<_, SamplesError> {
        let (folder, manifest) = RunFolder::open::<String>(&path, FolderKind::ALL)?;
        let plan = folder.read_plan("plans/plan.toml")?;
        Ok((manifest, folder.runs::<Manifest<String>>()?, plan.lines().next().map(str::to_owned)))
    };
    let whole = read().unwrap();
    for name in ["manifest.json", "runs.jsonl", "files.jsonl", "plans/plan.toml"] {
        let file = path.join(name);
        let text = std::fs::read(&file).unwrap();
        let mut refused = 0;
        for (place, bit) in (0..text.len()).flat_map(|place| [(place, place % 8), (place, (place + 3) % 8)]) {
            let mut damaged = text.clone();
            damaged[place] ^= 1 << bit;
            std::fs::write(&file, &damaged).unwrap();
            match read() {
                Ok(read) => assert!(read == whole, "bit {bit} of byte {place} of {name}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > text.len(), "{name}: {refused} of {} bytes", text.len());
        std::fs::write(&file, text).unwrap();
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_damaged_segment_is_read_or_refused(damage in damage()) {
        let _ = read_segment(&damage.done_to(&SEGMENT));
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn any_bytes_are_no_segment(bytes: Vec<u8>, framed: bool) {
        let bytes = if framed { [b"PAR1", &bytes[..], b"PAR1"].concat() } else { bytes };
        prop_assert!(read_segment(&bytes).is_err());
    }

    #[test]
    fn a_damaged_manifest_is_read_or_refused(damage in damage()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        folder(&path);
        let file = path.join("manifest.json");
        let text = std::fs::read(&file).unwrap();
        std::fs::write(&file, damage.done_to(&text)).unwrap();
        let opened = RunFolder::open::<String>(&path, FolderKind::ALL).map(|(_, manifest): (_, Manifest<String>)| manifest);
        let _ = names_the_file(opened, &file);
    }

    #[test]
    fn damaged_lines_of_runs_are_read_or_refused(damage in damage()) {
        let directory = tempfile::tempdir().unwrap();
        let folder = folder(&directory.path().join("run"));
        (1..=3).for_each(|_| folder.add_run(&manifest()).unwrap());
        let file: PathBuf = folder.path().join("runs.jsonl");
        let text = std::fs::read(&file).unwrap();
        std::fs::write(&file, damage.done_to(&text)).unwrap();
        let _ = names_the_file(folder.runs::<Manifest<String>>(), &file);
        folder.add_run(&manifest()).unwrap();
        let _ = names_the_file(folder.runs::<Manifest<String>>(), &file);
    }
}

#[test]
fn undamaged_segments_are_read() {
    assert_eq!(read_segment(&SEGMENT).unwrap(), 3000);
}

#[test]
fn every_way_to_cut_a_segment_short_is_noticed() {
    for length in (0..SEGMENT.len()).step_by(7).chain(SEGMENT.len() - 20..SEGMENT.len()) {
        assert!(read_segment(&SEGMENT[..length]).is_err(), "cut at {length}");
    }
}
