//! One flipped bit in any file of a run: the run is refused, or what is printed is the same.

use std::fs;

use flashlab_base::{Prng, Seed};

use crate::support::{Directory, SHORT_RUNS, SMALL_PROFILE, files_within};

/// Flips bits in each file of the folder `run`, one at a time, and shows the run with each command.
fn flip(directory: &Directory, flips_per_file: usize, seed: Seed, commands: &[&[&str]]) {
    let shown = || commands.iter().map(|arguments| directory.flashlab(arguments)).collect::<Vec<_>>();
    let whole = shown();
    assert!(whole.iter().all(|ran| ran.code == Some(0)), "{}", whole[0]);
    let mut prng = Prng::new(seed);
    let mut refused = 0;
    for file in files_within(&directory.path("run")) {
        let intact = fs::read(&file).unwrap();
        for _ in 0..flips_per_file {
            let mut damaged = intact.clone();
            let (place, bit) = (prng.below(intact.len() as u64) as usize, prng.below(8));
            damaged[place] ^= 1 << bit;
            fs::write(&file, &damaged).unwrap();
            for ((ran, before), arguments) in shown().into_iter().zip(&whole).zip(commands) {
                let context =
                    || format!("bit {bit} of byte {place} of {}: {arguments:?}\n{ran}", file.display());
                match ran.code {
                    Some(0) => assert!(ran.out == before.out, "{}", context()),
                    Some(2) => refused += 1,
                    _ => panic!("{}", context()),
                }
            }
            fs::write(&file, &intact).unwrap();
        }
    }
    assert!(refused >= 2 * flips_per_file - 1, "{refused} were refused");
}

#[test]
fn of_a_run() {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--quick", "--output", "run"]);
    directory.succeeds(&["run", "short.toml", "sim:zeus", "--quick", "--seed", "2", "--output", "other"]);
    flip(&directory, 4, Seed(23), &[&["report", "run", "--json"], &["compare", "run", "other", "--json"]]);
}

#[test]
fn of_an_inference() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    let only = ["--only", "read_cost_per_io,read_page_size"];
    directory.succeeds(&[&["infer", "sim:./small.toml", "--output", "run"][..], &only].concat());
    flip(&directory, 4, Seed(23), &[&["report", "run", "--json"]]);
    let replayed = || {
        let _ = fs::remove_dir_all(directory.path("again"));
        directory.flashlab(&["infer", "--replay", "run", "--output", "again", "--json"])
    };
    let before = replayed();
    assert_eq!(before.code, Some(0), "{before}");
    for file in files_within(&directory.path("run")) {
        let intact = fs::read(&file).unwrap();
        let mut damaged = intact.clone();
        damaged[intact.len() / 2] ^= 1;
        fs::write(&file, damaged).unwrap();
        let ran = replayed();
        // A file that is read in the middle of a replay ends it.
        let is_ended = ran.code == Some(1) && ran.err.contains(file.file_name().unwrap().to_str().unwrap());
        let is_refused = ran.code == Some(2) || is_ended;
        assert!(is_refused || (ran.code == Some(0) && ran.out == before.out), "{}: {ran}", file.display());
        fs::write(&file, intact).unwrap();
    }
}
