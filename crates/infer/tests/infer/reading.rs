//! Devices whose insides are known are only read, after having been written in order, and what is said of them is right.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Finding, Parameter, Verdict};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::{Device, Operation};
use flashlab_infer::{InferenceEnd, InferenceSettings, Known, infer, nothing_known};
use flashlab_sim::profile::Profile;

const NOISE: &str = "[noise]\nsigma = 0.05\noutlier_share = 0.01\noutlier_factor = 10.0\nseed = 7\n";

fn profile(capacity: &str, rest: &str) -> Profile {
    let head = format!(
        "version = 2\nname = \"known\"\ntitle = \"known\"\nsource = \"none\"\nfit = \"none\"\ncapacity = \"{capacity}\"\n"
    );
    Profile::parse(&format!("{head}{NOISE}{rest}"), "known.toml").unwrap()
}

fn read_only(profile: &Profile, filled: bool) -> Known {
    let mut device = profile.device().unwrap();
    if filled {
        let (capacity, size) = (device.geometry().capacity, Bytes::kib(128));
        let mut writes = (0..capacity.0 / size.0).map(|i| (Operation::Write, size * i, size));
        device.conditioning().unwrap().condition(&mut writes).unwrap();
    }
    let interrupt = AtomicBool::new(false);
    let settings = InferenceSettings {
        seed: Seed(3),
        write_budget: None,
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::ZERO,
        interrupt: &interrupt,
    };
    let mut known = nothing_known(&device, "known");
    assert_eq!(infer(&mut device, &settings, &mut known, &mut ()), InferenceEnd::Done);
    assert!(device.now() <= Nanos::from_secs(61), "{}", device.now());
    known
}

/// What was found, in words, with its confidence if that is below 0.95; or else why nothing was. Which confidence a rule has,
/// the generated table decides.
fn answer(known: &Known, parameter: Parameter) -> String {
    let finding = known.get(parameter).unwrap();
    match finding.verdict {
        Verdict::Found if finding.confidence >= 0.95 => finding.value_in_words(),
        Verdict::Found => format!("{} ({:.2})", finding.value_in_words(), finding.confidence),
        verdict => verdict.to_string(),
    }
}

#[test]
fn four_dies_in_stripes() {
    let known = read_only(
        &profile(
            "256MiB",
            "[flash]\npage = \"4KiB\"\npages_per_block = 64\ndies = 4\nover_provisioning = 0.2\nread = \"80us\"\n\
             [controller]\nread_command = \"20us\"\n[translation.log_blocks]\n",
        ),
        true,
    );
    let answer = |parameter| answer(&known, parameter);
    assert_eq!(answer(Parameter::StripeSize), "64 KiB");
    assert_eq!(answer(Parameter::ChunkSize), "16 KiB");
    assert_eq!(answer(Parameter::ParallelUnits), "4");
    assert_eq!(answer(Parameter::ReadPageSize), "4 KiB");
    assert_eq!(answer(Parameter::PlanesReadAtOnce), "1");
    // That no seek shows is capped: an inference that only reads does not know whether the device holds data.
    assert_eq!(answer(Parameter::SegmentGroups), "1 (0.90)");
}

#[test]
fn one_die_of_four_planes_with_a_buffer_and_segment_groups() {
    let known = read_only(
        &profile(
            "200MiB",
            "[flash]\npage = \"4KiB\"\npages_per_block = 256\nplanes = 4\nover_provisioning = 0.2\nread = \"80us\"\n\
             channel_bandwidth = \"100MB/s\"\n[controller]\nread_command = \"10us\"\n\
             read_buffer = { size = \"500KiB\", read_ahead = \"128KiB\" }\n\
             segment_groups = { count = 2, span = \"50MiB\", switch = \"60us\" }\n",
        ),
        true,
    );
    let answer = |parameter| answer(&known, parameter);
    assert_eq!(answer(Parameter::SegmentGroups), "2");
    assert_eq!(answer(Parameter::SegmentGroupSpan), "50 MiB");
    assert_eq!(answer(Parameter::ParallelUnits), "1");
    assert_eq!(answer(Parameter::StripeSize), "not identifiable");
    assert_eq!(answer(Parameter::ReadPageSize), "4 KiB");
    assert_eq!(answer(Parameter::PlanesReadAtOnce), "4");
    assert_eq!(answer(Parameter::ReadBufferSize), "500 KiB");
    assert_eq!(answer(Parameter::ReadAheadSize), "128 KiB");
}

#[test]
fn devices_without_noise_are_no_harder() {
    for (name, planes, dies, channels) in [("emmc", 8, 2, 1), ("qlc-sata", 8, 8, 4)] {
        let zoo = flashlab_sim::zoo();
        let profile = zoo.iter().find(|profile| profile.name == name).unwrap();
        let known = read_only(&profile.resized(Bytes::gib(1)).unwrap(), true);
        let number = |parameter| known.get(parameter).and_then(Finding::number);
        assert_eq!(number(Parameter::PlanesReadAtOnce), Some(f64::from(planes)), "{name}");
        assert_eq!(number(Parameter::ParallelUnits), Some(f64::from(dies)), "{name}");
        assert_eq!(number(Parameter::Channels), Some(f64::from(channels)), "{name}");
    }
}

#[test]
fn what_is_at_hand_of_the_map_is_no_read_buffer() {
    let flash = "[flash]\npage = \"4KiB\"\ndies = 4\nover_provisioning = 0.2\nread = \"50us\"\n[controller]\n\
                 read_command = \"10us\"\n";
    let map = "[translation.demand_map]\ncached_entries = 2000\n";
    let buffer = "read_buffer = { size = \"60KiB\", read_ahead = \"0\" }\n";
    for (buffer, found) in [("", "0 B"), (buffer, "60 KiB")] {
        let known = read_only(&profile("256MiB", &format!("{flash}{buffer}{map}")), true);
        assert_eq!(answer(&known, Parameter::ReadBufferSize), found);
    }
}

#[test]
fn of_an_empty_device_nothing_is_found_with_confidence() {
    let known = read_only(&profile("256MiB", "[flash]\ndies = 4\n"), false);
    for finding in known.findings.iter().filter(|finding| finding.verdict == Verdict::Found) {
        assert!(finding.confidence < 0.95, "{}: {}", finding.parameter, finding.evidence);
    }
}
