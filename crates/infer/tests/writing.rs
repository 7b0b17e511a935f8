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
        target: "test".to_owned(),
        seed: Seed(1),
        write_budget: Some(Settings::usual_budget(profile.capacity)),
        reading_time: Nanos::from_secs(60),
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

#[test]
fn the_unknown_drive_of_sun_and_zhang() {
    let drives = flashlab_sim::zoo();
    let known = inferred(drives.iter().find(|drive| drive.name == "sun-zhang-unknown").unwrap());
    assert_eq!(value(&known, Parameter::TranslationFamily), Some("log-block".into()));
    // Table 3: 64 pages of 4 KiB; a log list of 3.
    assert_eq!(value(&known, Parameter::EraseBlockSize), Some(Bytes::kib(256).into()));
    assert_eq!(value(&known, Parameter::OpenBlocks), Some(3u64.into()));
}
