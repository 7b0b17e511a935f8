//! What writing a device whole, randomly and after rests tells, on small simulated devices with jitter and outliers.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Finding, Parameter, Verdict};
use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Device, Operation};
use flashlab_infer::{InferenceSettings, Known, infer, nothing_known};
use flashlab_sim::Profile;

/// A device of which these are the sections.
fn profile(capacity: &str, sections: &str) -> Profile {
    let text = format!(
        "version = 2\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \
         \"{capacity}\"\n[noise]\nsigma = 0.05\noutlier_share = 0.01\noutlier = \"3ms\"\n{sections}"
    );
    Profile::parse(&text, "test.toml").unwrap()
}

/// All findings of such a device.
fn inferred(capacity: &str, sections: &str) -> Known {
    let mut device = profile(capacity, sections).device().unwrap();
    let settings = InferenceSettings {
        seed: Seed(7),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(36_000),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(&device, "test");
    infer(&mut device, &settings, &mut known, &mut ());
    known
}

fn finding(known: &Known, parameter: Parameter) -> &Finding {
    known.get(parameter).unwrap()
}

/// Asserts that a number was found within 3 %, or exactly where it is 0.
fn assert_close(known: &Known, parameter: Parameter, truth: f64) {
    let found = finding(known, parameter);
    let number = found.number().unwrap_or_else(|| panic!("{parameter}: {}", found.evidence));
    assert!((number - truth).abs() <= 0.03 * truth, "{parameter}: {number}, not {truth}: {}", found.evidence);
}

fn assert_not_identifiable(known: &Known, parameter: Parameter) {
    let found = finding(known, parameter);
    assert_eq!(found.verdict, Verdict::NotIdentifiable, "{parameter}: {}", found.evidence);
}

#[test]
fn a_page_map_without_buffers_shows_its_over_provisioning_and_nothing_else() {
    let known = inferred(
        "64MiB",
        "[flash]\npage = \"4KiB\"\npages_per_block = 48\ndies = 2\nover_provisioning = 0.2\n[controller]\nwrite_command = \
         \"40us\"\nwrite_bandwidth = \"100MB/s\"\n",
    );
    // 20 % beyond the capacity; each die keeps a block free and fills another one.
    let block: f64 = 48.0 * 4096.0;
    let spare = (1.2 * 64.0 * 1048576.0 / block).ceil() * block - 64.0 * 1048576.0 - 2.0 * block;
    assert_close(&known, Parameter::OverProvisioning, spare / (64.0 * 1048576.0));
    assert_close(&known, Parameter::PhysicalCapacity, spare + 64.0 * 1048576.0);
    assert_close(&known, Parameter::SlcCacheSize, 0.0);
    assert_not_identifiable(&known, Parameter::SlcCacheRefill);
    assert_close(&known, Parameter::WriteBufferSize, 0.0);
    assert_not_identifiable(&known, Parameter::WriteBufferFlush);
    assert_close(&known, Parameter::LingeringTime, 0.0);
}

#[test]
fn log_blocks_of_one_data_block_each_show_no_over_provisioning_but_their_backlog() {
    let known = inferred(
        "128MiB",
        "[flash]\npage = \"4KiB\"\npages_per_block = 64\n[controller.background]\nmax_backlog = 20\nidle_after = \"1ms\"\nslice = \
         \"300us\"\n[translation.log_blocks]\nlogs = 6\n",
    );
    assert_not_identifiable(&known, Parameter::OverProvisioning);
    assert_not_identifiable(&known, Parameter::PhysicalCapacity);
    assert_close(&known, Parameter::SlcCacheSize, 0.0);
}

#[test]
fn an_slc_cache_and_a_write_buffer_are_measured() {
    let known = inferred(
        "192MiB",
        "[flash]\npage = \"4KiB\"\npages_per_block = 64\ndies = 4\nover_provisioning = 0.2\nprogram = \
         \"800us\"\n[flash.slc_cache]\nsize = \"12MiB\"\nread = \"25us\"\nprogram = \"200us\"\nerase = \
         \"2ms\"\n[controller]\nwrite_command = \"20us\"\nwrite_bandwidth = \
         \"400MB/s\"\n[controller.background]\nidle_after = \"10ms\"\nmax_backlog = 0\nslice = \
         \"0ns\"\n",
    );
    assert_close(&known, Parameter::SlcCacheSize, 12.0 * 1048576.0);
    assert_close(&known, Parameter::SlcCacheRefill, 12.0 * 1048576.0);
    let known = inferred(
        "192MiB",
        "[flash]\npage = \"4KiB\"\npages_per_block = 64\ndies = 2\nover_provisioning = 0.2\nread = \
         \"60us\"\nprogram = \"600us\"\n[controller]\nwrite_command = \"8us\"\nread_command = \
         \"8us\"\nwrite_bandwidth = \"1GB/s\"\n[controller.write_buffer]\nsize = \"512KiB\"\n",
    );
    assert_close(&known, Parameter::WriteBufferSize, 512.0 * 1024.0);
    assert_eq!(finding(&known, Parameter::WriteBufferFlush).value, Some("immediately".into()));
}

#[test]
fn a_device_that_counts_what_it_writes_to_its_flash_tells_when_it_collects() {
    // Behind the slow link nobody sees a collection.
    let sections = "[flash]\npage = \"4KiB\"\npages_per_block = 64\ndies = 2\nover_provisioning = 0.16\n[controller]\n\
                    write_bandwidth = \"4MB/s\"\nwrite_buffer = { size = \"256KiB\" }\ncounts_media_writes = true\n";
    let known = inferred("256MiB", sections);
    // A twin, filled and then written randomly until it writes more to its flash than the host does.
    let mut twin = profile("256MiB", sections).device().unwrap();
    let (size, slots) = (Bytes::kib(16), 256 * 64);
    twin.conditioning()
        .unwrap()
        .condition(&mut (0..slots).map(|slot| (Operation::Write, size * slot, size)))
        .unwrap();
    let filled = twin.telemetry().unwrap().media_written().unwrap();
    let mut random = Prng::new(Seed(1));
    let mut spare = Bytes::ZERO;
    while twin.telemetry().unwrap().media_written().unwrap() - filled <= spare {
        spare += size;
        let anywhere = [(Operation::Write, size * random.below(slots), size)];
        twin.conditioning().unwrap().condition(&mut anywhere.into_iter()).unwrap();
    }
    assert_close(&known, Parameter::OverProvisioning, spare.0 as f64 / Bytes::mib(256).0 as f64);
    assert_close(&known, Parameter::PhysicalCapacity, (Bytes::mib(256) + spare).0 as f64);
}
