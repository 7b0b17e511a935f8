//! Targets at the limits: too small, the smallest, with large blocks, and a part of a device.

use flashlab_base::Bytes;
use flashlab_bench::{BenchError, Thoroughness, most_written};
use flashlab_plan::Plan;
use flashlab_sim::Profile;

use crate::lab::{Lab, Watch, zeus, zeus_us};

#[test]
fn a_target_that_is_too_small_is_refused_before_the_first_io() {
    let lab = Lab::new(zeus(Bytes::mib(15), ""), Thoroughness::Quick, &["order"]);
    let error = lab.measure_on(&mut lab.profile.device().unwrap(), &Watch::new()).unwrap_err();
    assert!(matches!(error, BenchError::Target(_)));
    assert_eq!(
        error.to_string(),
        "15 MiB of sim:zeus are too little for the methodology: it needs 16 MiB or more"
    );
    assert!(lab.records().is_empty());

    let mut lab = Lab::quick("", &["order"]);
    lab.manifest.settings.target_size = Bytes::gib(1);
    let error = lab.measure_on(&mut lab.profile.device().unwrap(), &Watch::new()).unwrap_err();
    assert_eq!(error.to_string(), "sim:zeus has 256 MiB; the measurement needs 1 GiB");
}

#[test]
fn the_smallest_target_takes_all_nine_micro_benchmarks() {
    let more = "[startup]\nios = 125\nfactor = 0.1\nidle = \"2s\"\n";
    for capacity in [Bytes::mib(16), Bytes(Bytes::mib(17).0 + 512)] {
        let lab = Lab::new(zeus(capacity, more), Thoroughness::Quick, &Plan::MICRO_BENCHMARKS);
        let measured = lab.measure();
        assert_eq!(measured.findings.micro_benchmarks.len(), 9);
        for found in &measured.findings.micro_benchmarks {
            for point in found.experiments.iter().flat_map(|experiment| &experiment.points) {
                for run in &point.runs {
                    assert!(run.response.count >= 24, "{} {}: {run:?}", found.name, point.label);
                    assert!(run.response.mean_ns > 0.0 && run.throughput_bytes_per_s > 0.0);
                }
            }
        }
        let plans: Vec<_> = lab.manifest.plans.iter().map(|text| Plan::parse(text, "x").unwrap()).collect();
        let most = most_written(&plans, &lab.manifest.settings, lab.profile.block).unwrap();
        assert!(measured.findings.method.bytes_written <= most);
    }
}

#[test]
fn what_is_finer_than_a_block_is_left_out_with_the_reason() {
    let text = zeus(Bytes::mib(256), "").to_toml().replace("block = \"512B\"", "block = \"4KiB\"");
    let profile = Profile::parse(&text, "large blocks").unwrap();
    assert_eq!(profile.block, Bytes::kib(4));
    let lab = Lab::new(profile, Thoroughness::Full, &["granularity", "alignment"]);
    let measured = lab.measure();
    let warnings = &measured.findings.warnings;
    let left_out: Vec<_> = warnings.iter().filter(|warning| warning.kind == "left_out").collect();
    // 512 B, 1 KiB, 1536 B and 2 KiB of granularity, 512 B to 2 KiB of alignment, for four patterns.
    assert_eq!(left_out.len(), 4 * 4 + 3 * 4);
    assert!(
        left_out.iter().all(|warning| warning.message.contains("multiple of the device's block of 4KiB"))
    );
    for class in ["SR", "RR", "SW", "RW"] {
        let points = measured.points("granularity", class);
        assert_eq!(points[0].label, "4KiB");
        assert!((points[0].response_ns_mean / 1e3 / zeus_us(class, 4.0) - 1.0).abs() < 0.01);
        assert_eq!(measured.points("alignment", class).len(), 5);
    }
    // The state has IOs of whole blocks too.
    let state = lab.samples(1);
    assert!(state.iter().all(|sample| sample.size.is_multiple_of(Bytes::kib(4))));
    assert!(state.iter().all(|sample| sample.errno == 0));
}

#[test]
fn a_part_of_a_device_is_all_that_is_touched() {
    let mut lab = Lab::quick("", &Plan::MICRO_BENCHMARKS);
    lab.manifest.settings.target_size = Bytes::mib(64);
    let measured = lab.measure();
    for record in &measured.records {
        let end = lab.samples(record.run).iter().map(|sample| sample.offset + sample.size).max().unwrap();
        assert!(end <= Bytes::mib(64), "run {} goes to {end}", record.run);
    }
    assert_eq!(measured.findings.method.target_size, Bytes::mib(64));
}
