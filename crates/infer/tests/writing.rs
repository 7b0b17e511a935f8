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
