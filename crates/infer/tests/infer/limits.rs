//! A volume behind a limit of IOs or bytes a second is not taken for flash, whatever its name; a drive without a limit is.
//!
//! The profiles in the folder `limits` were written before the probe was, and nothing was tuned on them: eight volumes, two of which
//! save nothing for bursts, and eight drives. Two drives have a controller that is their limit, for reads and writes alike.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Finding, Inference, Parameter, Value, Verdict};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::Device;
use flashlab_infer::{InferenceEnd, InferenceSettings, PROBES, infer_probes, nothing_known};
use flashlab_sim::Profile;

/// What the probe of limits says, by itself and without writing.
fn looked_at(profile: &Profile, seed: u64) -> Inference {
    let index = PROBES.iter().position(|probe| probe.name == "rate-limit").unwrap();
    let mut device = profile.device().unwrap();
    let settings = InferenceSettings {
        seed: Seed(seed),
        write_budget: None,
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(&device, "limits");
    assert!(device.geometry().capacity > Bytes::ZERO);
    let end = infer_probes(&mut device, &settings, &mut known, &mut (), &PROBES[index..=index]);
    assert_eq!(end, InferenceEnd::Done, "{}", profile.name);
    known.document
}

fn limit(inference: &Inference) -> &Finding {
    inference.get(Parameter::RateLimit).unwrap()
}

/// Whether a limit was found; if not, the device still counts as flash.
fn has_limit(inference: &Inference) -> bool {
    let found = limit(inference);
    let word = |word: &str| found.value == Some(Value::Word(word.to_owned()));
    let has_limit = word("ios") || word("bytes");
    let reason = inference.not_flash.as_deref().unwrap_or_default();
    assert_eq!(reason.contains("behind a limit"), has_limit, "{reason}: {}", found.evidence);
    has_limit
}

/// The zoo's cloud volumes at a size and with a name that say nothing.
fn renamed() -> impl Iterator<Item = Profile> {
    let volumes = flashlab_sim::zoo().into_iter().filter(|profile| profile.controller.limit.is_some());
    volumes.map(|profile| Profile { title: "A disk".to_owned(), ..profile.resized(Bytes::gib(1)).unwrap() })
}

#[test]
fn volumes_of_the_zoo_are_seen_by_their_limit() {
    let mut count = 0;
    for profile in renamed() {
        for seed in 1..=5 {
            let inference = looked_at(&profile, seed);
            assert!(has_limit(&inference), "{} {seed}: {}", profile.name, limit(&inference).evidence);
            assert!(
                inference.not_flash.as_ref().unwrap().contains("IOs a second"),
                "{:?}",
                inference.not_flash
            );
        }
        count += 1;
    }
    assert!(count >= 2, "{count} volumes");
}

#[test]
fn no_device_without_a_limit_is_denied() {
    let unlimited = renamed().map(|mut profile| {
        profile.controller.limit = None;
        profile
    });
    let devices = flashlab_sim::zoo().into_iter().filter(|profile| profile.controller.limit.is_none());
    let (mut count, mut undecided) = (0, Vec::new());
    for profile in devices.chain(unlimited) {
        for seed in 1..=3 {
            let inference = looked_at(&profile, seed);
            assert!(!has_limit(&inference), "{} {seed}: {}", profile.name, limit(&inference).evidence);
            count += 1;
            if limit(&inference).verdict == Verdict::Undetermined {
                undecided.push(profile.name.clone());
            }
        }
    }
    assert!(count >= 100, "{count}");
    println!("undecided: {} of {count}: {undecided:?}", undecided.len());
}

/// What nothing was tuned on. A volume that saves nothing for bursts looks like the drives whose controller is their limit: all of
/// them count as flash, and it is said that a limit may hide it.
#[test]
fn held_out_volumes_and_drives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/infer/limits");
    let mut names = [Vec::new(), Vec::new(), Vec::new()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let profile = Profile::parse(&text, &path.display().to_string()).unwrap();
        let inference = looked_at(&profile, 1);
        let found = limit(&inference);
        let kind = match (has_limit(&inference), found.verdict) {
            (true, _) => 0,
            (false, Verdict::Undetermined) => 1,
            (false, _) => 2,
        };
        assert!(kind != 1 || found.evidence.contains("A limit may hide the flash"), "{}", found.evidence);
        names[kind].push(profile.name);
    }
    names.iter_mut().for_each(|names| names.sort());
    let [limits, undecided, none] = names.map(|names| names.join(" "));
    assert_eq!(limits, "volume-1 volume-3 volume-4 volume-5 volume-6 volume-8");
    assert!(undecided.ends_with("volume-2 volume-7") && !none.contains("volume"), "{undecided}; {none}");
}
