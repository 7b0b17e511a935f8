//! A damaged run folder: rebuilding the findings returns the findings, or an error that names the file. It
//! never panics.

use std::fs;
use std::path::PathBuf;

use flashlab_base::{Prng, Seed};
use flashlab_bench::{BenchError, Purpose, compared_run, open_run_to_resume, rebuild};

use crate::lab::{Lab, Watch};
use crate::resume::comparable;

/// A finished run.
fn finished() -> Lab {
    let lab = Lab::quick("", &["order"]);
    lab.measure();
    lab
}

fn segments(lab: &Lab) -> Vec<PathBuf> {
    let mut segments: Vec<_> =
        fs::read_dir(lab.folder().samples()).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

fn error(lab: &Lab) -> String {
    rebuild(&lab.path()).unwrap_err().to_string()
}

#[test]
fn rebuilding_gives_the_same_findings_again() {
    let lab = finished();
    let (findings, traces) = rebuild(&lab.path()).unwrap();
    assert!((findings, traces) == rebuild(&lab.path()).unwrap());
}

#[test]
fn what_is_no_folder_of_a_run_is_named() {
    let directory = tempfile::tempdir().unwrap();
    for (name, tells) in [(".", "manifest.json"), ("nothing", "not there")] {
        let path = directory.path().join(name);
        let message = rebuild(&path).unwrap_err().to_string();
        assert!(message.contains(path.to_str().unwrap()) && message.contains(tells), "{message}");
    }
}

#[test]
fn a_damaged_manifest_is_an_error() {
    let lab = finished();
    let path = lab.path().join("manifest.json");
    let sealed = fs::read_to_string(&path).unwrap();
    fs::write(&path, sealed.replacen("\"repetitions\": 3", "\"repetitions\": 2", 1)).unwrap();
    assert!(error(&lab).contains("manifest.json: its checksum does not match"), "{}", error(&lab));
    // Without its checksum, as somebody may edit it.
    let text = format!("{}\n}}\n", &sealed[..sealed.rfind(",\n  \"crc32\"").unwrap()]);
    fs::write(&path, &text).unwrap();
    rebuild(&lab.path()).unwrap();
    let versions = text.replacen("\"version\": 2", "\"version\": 9", 1);
    let plans = text.replacen("vary", "wary", 1);
    for (damaged, tells) in
        [(&text[..text.len() / 2], "line"), ("", "manifest.json"), (&versions, "9"), (&plans, "wary")]
    {
        fs::write(&path, damaged).unwrap();
        let message = error(&lab);
        assert!(message.contains("manifest.json") && message.contains(tells), "{message}");
    }
}

#[test]
fn a_damaged_list_of_runs_is_an_error_with_its_line() {
    let lab = finished();
    let path = lab.path().join("runs.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut damaged = lines.clone();
    damaged[4] = &lines[4][..lines[4].len() / 2];
    fs::write(&path, damaged.join("\n") + "\n").unwrap();
    let message = error(&lab);
    assert!(message.contains("runs.jsonl") && message.contains("line 5"), "{message}");
}

#[test]
fn lost_lines_of_a_finished_run_are_an_error() {
    let lab = finished();
    let runs = lab.path().join("runs.jsonl");
    let text = fs::read_to_string(&runs).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let without = |lost: usize| [&lines[..lost], &lines[lost + 1..]].concat().concat();
    let torn = text[..text.len() - 10].to_owned();
    let appended = format!("{text}{}", &lines[0][..10]);
    for damaged in [&without(lines.len() - 1), &without(4), &without(0), &torn, &appended, &String::new()] {
        fs::write(&runs, damaged).unwrap();
        assert!(error(&lab).contains("runs.jsonl: "), "{}", error(&lab));
        let resumed = open_run_to_resume(&lab.path()).unwrap_err();
        assert!(resumed.to_string().contains("runs.jsonl: "), "{resumed}");
    }
    fs::remove_file(&runs).unwrap();
    assert!(error(&lab).contains("runs.jsonl: "), "{}", error(&lab));
}

#[test]
fn an_unfinished_run_may_have_a_torn_line() {
    let lab = Lab::quick("", &["order"]);
    let watch = Watch::interrupting(4);
    lab.measure_on(&mut lab.profile.device().unwrap(), &watch).unwrap_err();
    let runs = lab.path().join("runs.jsonl");
    let text = fs::read_to_string(&runs).unwrap();
    fs::write(&runs, &text[..text.len() - 10]).unwrap();
    rebuild(&lab.path()).unwrap();
    lab.measure();
}

#[test]
fn samples_that_are_missing_are_an_error_and_no_figure() {
    let lab = finished();
    for segment in &segments(&lab) {
        let run: u32 = segment.file_name().unwrap().to_str().unwrap()[4..9].parse().unwrap();
        let whole = fs::read(segment).unwrap();
        fs::remove_file(segment).unwrap();
        let message = error(&lab);
        assert!(message.contains(&format!("{}: is missing", segment.display())), "{run}: {message}");
        fs::write(segment, whole).unwrap();
    }
    rebuild(&lab.path()).unwrap();
}

#[test]
fn runs_whose_samples_are_missing_or_damaged_are_measured_again() {
    let lab = finished();
    let (whole, _) = rebuild(&lab.path()).unwrap();
    let records = lab.records();
    let of = |kind: fn(&Purpose) -> bool| {
        let run = records.iter().rfind(|record| kind(&record.purpose)).unwrap().run;
        lab.folder().segments(run).remove(0)
    };
    fs::remove_file(of(|purpose| matches!(purpose, Purpose::LingeringWrites))).unwrap();
    fs::remove_file(of(|purpose| *purpose == Purpose::Baseline { pattern: "RR".to_owned() })).unwrap();
    fs::write(of(|purpose| matches!(purpose, Purpose::Point { .. })), "damaged").unwrap();
    error(&lab);

    let again = lab.measure();
    let more: Vec<&Purpose> =
        again.records.iter().map(|record| &record.purpose).skip(records.len()).collect();
    // One line for each withdrawn run; the state and the whole lingering experiment; the two others.
    assert_eq!(more.len(), 3 + 1 + 3 + 2, "{more:?}");
    let mut findings = again.findings;
    let renamed = findings.warnings.extract_if(.., |warning| warning.kind == "torn_samples");
    assert_eq!(renamed.count(), 1, "the damaged file was renamed, and a warning names it");
    assert!(comparable(findings) == comparable(whole));

    // Once more, and nothing is left to do.
    let lines = again.records.len();
    assert!(lab.measure().records.len() <= lines + 1);
}

#[test]
fn no_flipped_bit_changes_findings_or_a_comparison() {
    let lab = finished();
    let path = lab.path();
    let of_the_folder = || Ok::<_, BenchError>((rebuild(&path)?, compared_run(&path)?.experiments.len()));
    let whole = of_the_folder().unwrap();
    let mut files = segments(&lab);
    let segment_count = files.len();
    // A third of the flips in each kind of file.
    files.extend(vec![path.join("manifest.json"); segment_count]);
    files.extend(vec![path.join("runs.jsonl"); segment_count]);
    let seed = Seed(20_261_125);
    let mut prng = Prng::new(seed);
    let mut refused = 0;
    for round in 0..120 {
        let file = &files[prng.below(files.len() as u64) as usize];
        let intact = fs::read(file).unwrap();
        let mut damaged = intact.clone();
        let (place, bit) = (prng.below(intact.len() as u64) as usize, prng.below(8));
        damaged[place] ^= 1 << bit;
        fs::write(file, &damaged).unwrap();
        match of_the_folder() {
            Ok(found) => {
                let name = file.display();
                assert!(found == whole, "bit {bit} of byte {place} of {name}, round {round} of {seed:?}");
            }
            Err(_) => refused += 1,
        }
        fs::write(file, intact).unwrap();
    }
    assert!(refused > 80, "{refused}");
}

#[test]
fn any_damage_to_any_file_is_an_answer_or_an_error() {
    let lab = finished();
    let mut files = segments(&lab);
    files.extend(["manifest.json", "runs.jsonl", "files.jsonl"].map(|name| lab.path().join(name)));
    let seed = Seed(20_261_121);
    let mut prng = Prng::new(seed);
    let mut errors = 0;
    for round in 0..100 {
        let file = &files[prng.below(files.len() as u64) as usize];
        let whole = fs::read(file).unwrap();
        let mut damaged = whole.clone();
        let at = prng.below(whole.len() as u64) as usize;
        match prng.below(3) {
            0 => damaged.truncate(at),
            1 => damaged[at] ^= 1 << prng.below(8),
            _ => {
                let end = (at + 64).min(damaged.len());
                damaged[at..end].fill(0xFF);
            }
        }
        fs::write(file, &damaged).unwrap();
        let path = lab.path();
        let result = std::panic::catch_unwind(|| rebuild(&path).map(drop));
        let context = format!("{} damaged at {at} in round {round} of {seed:?}", file.display());
        errors += u32::from(result.unwrap_or_else(|_| panic!("panic: {context}")).is_err());
        fs::write(file, &whole).unwrap();
    }
    assert!(errors > 20, "{errors}");
    rebuild(&lab.path()).unwrap();
}
