//! The folders that verbs make: loss in them is never other figures in silence.
//!
//! Each file of each kind of folder is removed, copied under the next name, truncated, and changed in one bit. Then each verb that
//! reads the folder refuses it with the name of a file, or prints what it prints for the whole folder.

use std::fs;
use std::path::{Path, PathBuf};

use flashlab_base::{Prng, Seed};
use flashlab_bench::Settings;
use flashlab_samples::seal::LINE;
use flashlab_samples::{FolderKind, RunFolder};

use crate::file_arguments::end_in_time;
use crate::support::{Directory, LONG_RUNS, Ran, SHORT_RUNS, SMALL_PROFILE, files_within, program};

/// Sweeps and fits of this profile end in a moment.
pub const FIT: &[&str] = &[
    "model",
    "fit",
    "sim:./small.toml",
    "--zones",
    "1",
    "--depth-max",
    "2",
    "--read-only",
    "--output",
    "fitted",
];
pub const INFER: &[&str] = &["infer", "sim:./small.toml", "--only", "read_cost_per_io,read_page_size"];

/// With a small profile and a plan of short runs.
pub fn directory() -> Directory {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    directory.write("short.toml", SHORT_RUNS);
    directory
}

/// Segments of a folder that are damaged.
const SEGMENTS: usize = 2;

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Doubled,
    Removed,
    Truncated,
    Flipped,
}

/// A name for a copy that a reader would take for one more file of the same kind; `None` if there is none.
fn next_name(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    let next = match name.strip_prefix("runs-") {
        Some(_) => "runs-90000-90001.parquet".to_owned(),
        None if name.ends_with(".parquet") => format!("{}-00077.parquet", name.rsplit_once('-')?.0),
        None if name.ends_with(".toml") => format!("99-{}", name.split_once('-')?.1),
        None => return None,
    };
    Some(file.with_file_name(next))
}

fn is_segment(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "parquet")
}

/// Damages each file of a folder in each way, and runs each verb that reads the folder. Pages and documents that are computed
/// from others are left out.
fn damage_each(directory: &Directory, folder: &str, seed: Seed, verbs: &[&[&str]]) {
    let ran = |verb: &[&str]| {
        let _ = fs::remove_dir_all(directory.path("made"));
        directory.flashlab(verb)
    };
    let whole: Vec<Ran> = verbs.iter().map(|verb| ran(verb)).collect();
    assert!(whole.iter().all(|ran| ran.code == Some(0)), "{}", whole[0]);
    let computed =
        ["summary.json", "traces.json", "report.html", "report.txt", "model.html", "em.json", "check.json"];
    let is_read = |file: &PathBuf| !computed.iter().any(|name| file.ends_with(name));
    let mut prng = Prng::new(seed);
    let mut refused = 0;
    // Segments are alike: some of them are enough.
    let (mut segments, mut damaged): (Vec<PathBuf>, Vec<PathBuf>) =
        files_within(&directory.path(folder)).into_iter().filter(is_read).partition(|file| is_segment(file));
    let place = prng.below((segments.len() - SEGMENTS.min(segments.len())) as u64 + 1) as usize;
    damaged.extend(segments.drain(..).skip(place).take(SEGMENTS));
    for file in damaged {
        let intact = fs::read(&file).unwrap();
        for damage in [Damage::Removed, Damage::Doubled, Damage::Truncated, Damage::Flipped] {
            let mut copy = None;
            match damage {
                Damage::Doubled => {
                    copy = next_name(&file);
                    let Some(copy) = &copy else { continue };
                    fs::write(copy, &intact).unwrap();
                }
                _ => damage_file(&file, damage, &mut prng),
            }
            let named = copy.as_deref().unwrap_or(&file).file_name().unwrap().to_str().unwrap().to_owned();
            for (verb, before) in verbs.iter().zip(&whole) {
                let ran = ran(verb);
                let context = || format!("{damage:?} {} {seed:?}: {verb:?}\n{ran}", file.display());
                match ran.code {
                    Some(0) => assert_eq!(ran.out, before.out, "{}", context()),
                    Some(1 | 2) => {
                        refused += 1;
                        assert!(ran.err.contains(&named), "{}", context());
                    }
                    _ => panic!("{}", context()),
                }
                assert!(!is_segment(&file) || ran.code == Some(2), "{}", context());
            }
            if let Some(copy) = copy {
                fs::remove_file(copy).unwrap();
            }
            fs::write(&file, &intact).unwrap();
        }
    }
    assert!(refused >= 8 * verbs.len(), "{refused} were refused");
}

/// Removes each segment, and copies it under the next name: a verb that takes long refuses both before it begins.
fn lose_segments(directory: &Directory, folder: &str, verb: &[&str]) {
    for segment in files_within(&directory.path(folder)).iter().filter(|file| is_segment(file)) {
        let aside = directory.path("aside");
        fs::rename(segment, &aside).unwrap();
        let missing = directory.flashlab(verb);
        fs::rename(&aside, segment).unwrap();
        let copy = next_name(segment).unwrap();
        fs::copy(segment, &copy).unwrap();
        let doubled = directory.flashlab(verb);
        fs::remove_file(&copy).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(missing.code == Some(2) && missing.err.contains(&name(segment)), "{missing}");
        assert!(doubled.code == Some(2) && doubled.err.contains(&name(&copy)), "{doubled}");
    }
}

#[test]
fn loss_in_a_run() {
    let directory = directory();
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--quick", "--output", "run"]);
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--quick", "--seed", "2", "--output", "other"]);
    damage_each(
        &directory,
        "run",
        Seed(1),
        &[
            &["report", "run", "--json"],
            &["compare", "run", "other", "--json"],
            &["sim", "run", "sim:zeus", "--trace", "run", "--json"],
            &["report", "run", "other", "--json"],
        ],
    );
    lose_segments(&directory, "run", &["model", "twin", "run", "--output", "twin.toml"]);
}

/// A copy that was interrupted mixes two folders. Each part of the other one is whole, with as many lines.
#[test]
fn parts_of_another_run() {
    let directory = directory();
    for (name, seed) in [("run", "1"), ("other", "2")] {
        directory.succeeds(&["run", "short.toml", "sim:zeus", "--quick", "--seed", seed, "--output", name]);
    }
    let of = |folder: &str, name: &str| directory.path(folder).join(name).to_str().unwrap().to_owned();
    for parts in [&["samples", "files.jsonl"][..], &["runs.jsonl"], &["manifest.json"]] {
        let _ = fs::remove_dir_all(directory.path("mixed"));
        program("cp", &["-r", &of("run", ""), &of("mixed", "")]).unwrap();
        for part in parts {
            program("rm", &["-r", &of("mixed", part)]).unwrap();
            program("cp", &["-r", &of("other", part), &of("mixed", part)]).unwrap();
        }
        for verb in [
            &["report", "mixed", "--json"][..],
            &["compare", "mixed", "other", "--json"],
            &["model", "twin", "mixed", "--output", "twin.toml"],
            &["model", "fit", "mixed", "--output", "made"],
            &["sim", "run", "sim:zeus", "--trace", "mixed", "--json"],
            &["resume", "mixed"],
        ] {
            let ran = directory.flashlab(verb);
            // With the manifest of the other run it is a copy of it, as far as a comparison sees.
            let is_told = ran.err.contains("of another folder") || ran.err.contains("is a copy of the other");
            assert!(ran.code == Some(2) && is_told, "{parts:?}: {verb:?}: {ran}");
        }
    }
}

#[test]
fn loss_in_a_fit_and_in_its_model() {
    let directory = directory();
    directory.succeeds(FIT);
    damage_each(
        &directory,
        "fitted",
        Seed(2),
        &[
            &["model", "fit", "fitted", "--json", "--output", "made"],
            &["model", "tune", "fitted", "--for", "postgresql"],
        ],
    );
    // The document alone.
    let document = directory.path("fitted/model.json");
    let intact = fs::read(&document).unwrap();
    let tune = ["model", "tune", "fitted/model.json", "--for", "postgresql"];
    let whole = directory.succeeds(&tune).out;
    let mut prng = Prng::new(Seed(3));
    let mut refused = 0;
    for _ in 0..60 {
        let mut flipped = intact.clone();
        let place = prng.below(intact.len() as u64) as usize;
        flipped[place] ^= 1 << prng.below(8);
        fs::write(&document, flipped).unwrap();
        let ran = directory.flashlab(&tune);
        refused += u32::from(ran.code == Some(2));
        assert!(ran.code == Some(2) || ran.out == whole, "byte {place}: {ran}");
    }
    assert!(refused > 50, "{refused}");
}

/// What was computed from the samples of another folder is whole, and still not of this one.
#[test]
fn documents_of_another_device_are_refused() {
    let directory = directory();
    directory.write("other.toml", SMALL_PROFILE.replace("b_us_per_kb = ", "b_us_per_kb = 1"));
    let infer = |profile, output| [&["infer", profile], &INFER[2..], &["--output", output]].concat();
    let fit = |profile, output| [&["model", "fit", profile], &FIT[3..FIT.len() - 1], &[output]].concat();
    for (profile, fitted, inferred) in
        [("sim:./small.toml", "fitted", "inferred"), ("sim:./other.toml", "fitted-2", "inferred-2")]
    {
        directory.succeeds(&fit(profile, fitted));
        directory.succeeds(&infer(profile, inferred));
    }
    let copy = |from: &str, to: &str| {
        fs::copy(directory.path(from), directory.path(to)).unwrap();
    };
    copy("fitted-2/model.json", "fitted/model.json");
    copy("inferred-2/inference.json", "inferred/inference.json");
    for verb in [
        &["model", "predict", "fitted", "--io-size", "4KiB"][..],
        &["model", "predict", "fitted/model.json", "--io-size", "4KiB"],
        &["model", "tune", "fitted", "--for", "postgresql"],
        &["model", "check", "fitted", "sim:./small.toml", "--output", "checked"],
        &["em", "predict", "scan", "fitted", "--elements", "1000"],
    ] {
        let ran = directory.flashlab(verb);
        let named =
            "fitted/model.json is not the model of this folder's samples: it was fitted to fitted-2, ";
        assert!(ran.code == Some(2) && ran.err.contains(named), "{verb:?}: {ran}");
    }
    for verb in [&["report", "inferred"][..], &["resume", "inferred"]] {
        let ran = directory.flashlab(verb);
        let named =
            "inferred/inference.json: is of sim:DIR/other.toml, and the folder of sim:DIR/small.toml: ";
        assert!(ran.code == Some(2) && ran.err.contains(named), "{verb:?}: {ran}");
    }
    let ran = directory.flashlab(&["model", "fit", "fitted", "--output", "fitted-2"]);
    assert!(ran.code == Some(2) && ran.err.contains("fitted-2 has another measurement"), "{ran}");
    // The samples are this device's: the model is made again. Alone, the other one is a model like any.
    directory.succeeds(&["model", "fit", "fitted"]);
    directory.succeeds(&["model", "predict", "fitted", "--io-size", "4KiB"]);
    copy("fitted-2/model.json", "model.json");
    directory.succeeds(&["model", "predict", "model.json", "--io-size", "4KiB"]);
}

#[test]
fn loss_in_an_inference() {
    let directory = directory();
    directory.succeeds(&[INFER, &["--output", "inferred"]].concat());
    damage_each(
        &directory,
        "inferred",
        Seed(4),
        &[
            &["report", "inferred", "--json"],
            &["resume", "inferred", "--json"],
            &["sim", "run", "sim:./small.toml", "--trace", "inferred", "--json"],
        ],
    );
    lose_segments(&directory, "inferred", &["infer", "--replay", "inferred", "--output", "made"]);
}

/// The points that a kill left whole are measured again if they are damaged since; a damaged manifest of the sweep is refused.
#[test]
fn loss_in_a_killed_sweep() {
    let directory = directory();
    directory.write("long.toml", LONG_RUNS.replace("400ms", "2s"));
    let sets = ["--set", "throughput.random_read.b_us_per_kb=1.0,2.0,3.0,4.0", "--plan", "long.toml"];
    let sweep = |output| [&["sweep", "sim:./small.toml", "--output", output, "--json"][..], &sets].concat();
    let straight = directory.succeeds(&sweep("straight"));
    directory.start(&sweep("sweep")).until("1 of 4 are done").signal("KILL");
    let mut prng = Prng::new(Seed(8));
    let left = directory.path("left");
    fs::rename(directory.path("sweep"), &left).unwrap();
    // Segments are alike: two of them are enough.
    // What the kill left empty has nothing to damage.
    let filled = files_within(&left).into_iter().filter(|file| file.metadata().unwrap().len() > 0);
    let (mut segments, mut damaged): (Vec<PathBuf>, Vec<PathBuf>) = filled.partition(|file| is_segment(file));
    segments.truncate(2);
    damaged.append(&mut segments);
    let (mut refused, mut continued) = (0, 0);
    for file in damaged.iter().map(|file| file.strip_prefix(&left).unwrap()) {
        for damage in [Damage::Removed, Damage::Truncated, Damage::Flipped] {
            let _ = fs::remove_dir_all(directory.path("sweep"));
            program("cp", &["-r", left.to_str().unwrap(), directory.path("sweep").to_str().unwrap()])
                .unwrap();
            damage_file(&directory.path("sweep").join(file), damage, &mut prng);
            let ran = directory.flashlab(&sweep("sweep"));
            match ran.code {
                Some(0) => {
                    assert_eq!(ran.out, straight.out, "{damage:?} {}: {ran}", file.display());
                    continued += 1;
                }
                _ => {
                    let is_named = ran.code == Some(2) && ran.err.contains("sweep");
                    assert!(is_named, "{damage:?} {}: {ran}", file.display());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused >= 2 && continued > 10, "{refused} refused, {continued} continued");
}

/// Damages a file in place.
fn damage_file(file: &Path, damage: Damage, prng: &mut Prng) {
    let intact = fs::read(file).unwrap();
    match damage {
        Damage::Removed => fs::remove_file(file).unwrap(),
        Damage::Doubled => unreachable!("that makes another file"),
        Damage::Truncated => fs::write(file, &intact[..prng.below(intact.len() as u64) as usize]).unwrap(),
        Damage::Flipped => {
            let mut flipped = intact;
            let place = prng.below(flipped.len() as u64) as usize;
            flipped[place] ^= 1 << prng.below(8);
            fs::write(file, flipped).unwrap();
        }
    }
}

#[test]
fn loss_in_recordings() {
    let directory = directory();
    directory.succeeds(&["sim", "run", "sim:./small.toml", "--plan", "short.toml", "--output", "recorded"]);
    let replayed: &[&str] = &["sim", "run", "sim:./small.toml", "--trace", "recorded", "--json"];
    damage_each(&directory, "recorded", Seed(5), &[&["report", "recorded", "--json"], replayed]);
    let machine = ["--memory", "1MiB", "--elements", "100000"];
    directory.succeeds(
        &[&["em", "run", "scan", "sim:./small.toml", "--output", "scanned"][..], &machine].concat(),
    );
    damage_each(&directory, "scanned", Seed(6), &[&["report", "scanned", "--json"]]);
}

/// A number in a file of samples is no length: a verb refuses it, and takes no memory for it.
#[test]
fn a_process_that_no_pattern_has() {
    let directory = directory();
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--quick", "--output", "run"]);
    let folder = directory.path("run");
    let (mut folder, _) = RunFolder::open::<Settings>(&folder, &[FolderKind::Bench]).unwrap();
    folder.lock().unwrap();
    let mut samples = Vec::new();
    folder.each_sample(1, |sample| samples.push(*sample)).unwrap();
    samples.last_mut().unwrap().process = i32::MAX as u32;
    folder.remove_samples(1).unwrap();
    folder.write_short_runs(&[(1, samples)]).unwrap();
    folder.finish::<Settings>().unwrap();
    drop(folder);
    for (verb, code) in [
        ("model twin run --output twin.toml", 2),
        ("model twin-check run run --output page.html", 2),
        ("model fit run --output made", 2),
        ("report run", 0),
        ("compare run run", 2),
        ("sim run sim:zeus --trace run", 0),
    ] {
        let words: Vec<String> = verb.split(' ').map(str::to_owned).collect();
        let ran = end_in_time(&directory, &words);
        assert_eq!(ran.code, Some(code), "{verb}: {ran}");
        assert!(!verb.contains("twin") || ran.err.contains("process 2147483647"), "{ran}");
    }
}

/// A list of files that names a file outside of its folder is refused, and that file stays.
#[test]
fn a_list_that_leads_out_of_the_folder() {
    let directory = directory();
    directory.write("long.toml", LONG_RUNS.replace("400ms", "2000s"));
    directory
        .start(&["run", "long.toml", "sim:./small.toml", "--output", "run"])
        .until_runs("run", 1)
        .signal("KILL");
    directory.write("precious", "precious");
    let list = directory.path("run/files.jsonl");
    let intact = fs::read_to_string(&list).unwrap();
    for named in ["../precious", "precious", "samples/../../precious", "", "samples", "manifest.json"] {
        let line = LINE.sealed(&format!(r#"{{"file":"{named}","bytes":1,"content_crc32":"00000000"}}"#));
        fs::write(&list, format!("{intact}{line}\n")).unwrap();
        let ran = directory.flashlab(&["resume", "run"]);
        assert!(ran.code == Some(2) && ran.err.contains("is no file of this folder"), "{named}: {ran}");
        assert_eq!(fs::read(directory.path("precious")).unwrap(), b"precious");
    }
}
