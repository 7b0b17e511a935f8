//! What writing shows, on the papers' drives and on page maps.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Inference, Parameter, Value};
use flashlab_base::{Bytes, Nanos, Operation, Seed};
use flashlab_device::Device;
use flashlab_infer::{Settings, infer, nothing_known};
use flashlab_sim::Profile;

/// A drive after it was written from its beginning to its end.
fn inferred(profile: &Profile) -> Inference {
    let mut device = profile.device().unwrap();
    let size = Bytes::kib(128);
    let mut ios = (0..profile.capacity.0 / size.0).map(|i| (Operation::Write, size * i, size));
    assert!(device.condition(&mut ios).unwrap());
    let interrupt = AtomicBool::new(false);
    let settings = Settings {
        seed: Seed(1),
        write_budget: Some(Settings::usual_budget(profile.capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(4 * 3600),
        interrupt: &interrupt,
    };
    let mut known = nothing_known(&device, "test");
    infer(&mut device, &settings, &mut known, &mut ());
    // A person sees what the estimator saw, of each that found a value.
    for finding in known.findings.iter().filter(|finding| finding.value.is_some()) {
        let picture = finding.picture.as_ref();
        let points =
            picture.map_or(0, |picture| picture.series.iter().map(|series| series.points.len()).sum());
        assert!(points > 0, "{} of {}: {}", finding.parameter, profile.name, finding.evidence);
    }
    known
}

/// The value that was found, if it was.
fn value(known: &Inference, parameter: Parameter) -> Option<Value> {
    known.get(parameter).and_then(|finding| finding.value.clone())
}

/// Table 3 of Sun and Zhang: the log block, in pages of 4 KiB, and the length of the log list.
fn shows_table_3(name: &str, log_block: u64, log_list: u64) {
    let drives = flashlab_sim::zoo();
    let known = inferred(drives.iter().find(|drive| drive.name == name).unwrap());
    assert_eq!(value(&known, Parameter::TranslationFamily), Some("log-block".into()));
    assert_eq!(value(&known, Parameter::EraseBlockSize), Some((Bytes::kib(4) * log_block).into()));
    assert_eq!(value(&known, Parameter::OpenBlocks), Some(log_list.into()));
    assert_eq!(value(&known, Parameter::MappingGranularity), Some((Bytes::kib(4) * log_block).into()));
}

#[test]
fn the_unknown_drive_of_sun_and_zhang() {
    shows_table_3("sun-zhang-unknown", 64, 3);
}

#[test]
fn the_kingston_drive_of_sun_and_zhang() {
    shows_table_3("sun-zhang-kingston", 128, 4);
}

#[test]
fn the_pny_drive_of_sun_and_zhang() {
    shows_table_3("sun-zhang-pny", 256, 4);
}

#[test]
fn flushes_tell_what_a_write_buffer_hides() {
    // In cache mode a chunk is read alike whatever its rows.
    let profile = |size: &str| {
        let toml = format!(
            "version = 1\nname = \"test\"\nfit = \"test\"\nsource = \"test\"\ntitle = \"test\"\ncapacity = \"{size}\"\n\
             block = \"512B\"\n[flash]\npage = \"4KiB\"\npages_per_block = 64\nplanes = 2\ndies = 4\nchannels = 1\n\
             over_provisioning = 0.2\nread = \"30us\"\nprogram = \"380us\"\nerase = \"2ms\"\n\
             channel_bandwidth = \"97MB/s\"\ncache_mode = true\n[controller]\nread_command = \"19us\"\n\
             write_command = \"30us\"\nread_bandwidth = \"390MB/s\"\nwrite_bandwidth = \"250MB/s\"\ndepth = 32\n\
             write_buffer = {{ size = \"256KiB\" }}\n[translation.log_blocks]\nstripe_pages = 4\nlogs = 4\n\
             [noise]\nsigma = 0.05\n"
        );
        Profile::parse(&toml, "test").unwrap()
    };
    let known = inferred(&profile("96MiB"));
    assert_eq!(value(&known, Parameter::PlanesReadAtOnce), Some(2u64.into()));
    assert_eq!(value(&known, Parameter::ParallelUnits), Some(4u64.into()));
}

#[test]
fn what_is_found_in_other_devices_has_pictures_as_well() {
    for (name, capacity) in
        [("emmc", Bytes::mib(512)), ("hama", Bytes::mib(512)), ("sdcard", Bytes::mib(256))]
    {
        let drive = flashlab_sim::zoo().into_iter().find(|drive| drive.name == name).unwrap();
        let known = inferred(&drive.resized(capacity).unwrap());
        assert!(known.findings.iter().any(|finding| finding.value.is_some()), "{name}");
    }
}
