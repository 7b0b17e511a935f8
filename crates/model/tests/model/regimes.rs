//! A device with a write buffer gets a model for bursts and one for what lasts.

use flashlab_analysis::findings::Regime;
use flashlab_base::Bytes;
use flashlab_model::{DeviceModel, MODEL_VERSION, ModelDocument, ModelSource, WorkloadRequest, read_model};
use flashlab_plan::Plan;
use flashlab_samples::FolderKind;
use flashlab_sim::Profile;
use flashlab_sim::profile::ThroughputClass;

use crate::devices::measured_as;

const BUFFERED: &str = r#"
version = 2
name = "small"
title = "A small drive with a write buffer"
source = "a test"
fit = "none"
capacity = "1GiB"

[flash]
page = "4KiB"
pages_per_block = 64
planes = 2
dies = 16
channels = 16
over_provisioning = 0.28
read = "50us"
program = "660us"
erase = "5ms"
channel_bandwidth = "400MB/s"

[controller]
read_command = "1us"
write_command = "2us"
read_bandwidth = "4000MB/s"
write_bandwidth = "4000MB/s"
write_buffer = { size = "16MiB" }
"#;

/// Sequential writes of these sizes, each with this end.
fn fitted(end: &str) -> DeviceModel {
    let sizes = "[\"16KiB\", \"32KiB\", \"64KiB\", \"128KiB\", \"256KiB\"]";
    let values = format!("vary = \"IOSize\"\nvalues = {sizes}\nquick_values = {sizes}\n");
    let text = format!("version = 1\nname = \"sizes\"\npattern = \"SW\"\n{values}{end}");
    let profile = Profile::parse(BUFFERED, "the test").unwrap();
    let mut device = profile.device().unwrap();
    let points = measured_as(FolderKind::Bench, &mut device, &[Plan::parse(&text, "the test").unwrap()]);
    let source = ModelSource {
        version: MODEL_VERSION,
        flashlab: "test".to_owned(),
        identity: profile.identity(),
        source: "test".to_owned(),
        files_crc32: None,
        points,
        bursts: Vec::new(),
    };
    DeviceModel::fit(source).unwrap()
}

fn request(regime: Option<Regime>, depth: u32) -> WorkloadRequest {
    let class = ThroughputClass::SequentialWrite;
    WorkloadRequest { regime, ..WorkloadRequest::of_class(class, Bytes::kib(48), depth) }
}

#[test]
fn each_regime_has_a_model_and_predictions_name_theirs() {
    let model = fitted("");
    let rate = |regime| model.predict(request(regime, 1)).unwrap().bytes_per_s.estimate;
    let (burst, sustained) = (rate(Some(Regime::Burst)), rate(Some(Regime::Sustained)));
    // 2 us and 48 KiB over the link; then 32 planes program a page in 660 us.
    let (link, flash) = (49152.0 / 14.288e-6, 32.0 * 4096.0 / 660e-6);
    assert!((burst / link - 1.0).abs() < 0.15, "{burst} {link}");
    assert!((sustained / flash - 1.0).abs() < 0.1, "{sustained} {flash}");
    assert_eq!(rate(None), sustained, "what lasts, if nothing is said");
    assert!(model.predict(request(Some(Regime::Burst), 2)).is_err());
    assert!(model.regime_sentence().unwrap().starts_with("All figures of writes are sustained"));
    let document = ModelDocument::of(&model);
    assert_eq!(document.sw.regime, Some(Regime::Sustained));
    assert_eq!(document.burst["sw"].regime, Some(Regime::Burst));
    // Who reads the document gets the same models.
    let again = read_model(&serde_json::to_string(&document).unwrap(), "test").unwrap();
    assert_eq!(again.predict(request(Some(Regime::Burst), 1)).unwrap().bytes_per_s.estimate, burst);
}

#[test]
fn runs_within_the_buffer_are_of_an_unknown_regime() {
    let model = fitted("io_count = 64\n");
    assert_eq!(model.fitted_to.regime(ThroughputClass::SequentialWrite), Some(Regime::Unknown));
    assert!(model.predict(request(None, 1)).is_ok());
    let refused = model.predict(request(Some(Regime::Sustained), 1)).unwrap_err().to_string();
    assert!(refused.contains("do not show whether they are bursts"), "{refused}");
    assert!(model.regime_sentence().unwrap().contains("do not show"));
}
