//! Devices of which a figure looks like another one: logs that are merged in a batch look like a larger one, noise hides an SLC cache,
//! and a large buffer looks like one and takes sizes of writes that the flash does not.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Parameter, Value, Verdict};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_infer::{InferenceSettings, Known, infer, nothing_known};
use flashlab_sim::Profile;

/// What is found with the usual budget of a device with jitter and outliers, of which this is the capacity and what is its own.
fn inferred(capacity: &str, own: &str) -> Known {
    let toml = format!(
        "version = 2\nname = \"test\"\nfit = \"test\"\nsource = \"test\"\ntitle = \"test\"\ncapacity = \"{capacity}\"\n\
         block = \"512B\"\n{own}\n[noise]\nsigma = 0.03\noutlier_share = 0.005\noutlier_factor = 10\n"
    );
    let mut device = Profile::parse(&toml, "test").unwrap().device().unwrap();
    let mut known = nothing_known(&device, "test");
    let interrupt = AtomicBool::new(false);
    let settings = InferenceSettings {
        seed: Seed(1),
        write_budget: Some(InferenceSettings::usual_budget(known.capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(4 * 3600),
        interrupt: &interrupt,
    };
    infer(&mut device, &settings, &mut known, &mut ());
    known
}

/// Flash with so many pages in a block, dies, and the time of a program.
fn flash(pages: u32, dies: u32, program: &str) -> String {
    format!(
        "[flash]\npage = \"4KiB\"\npages_per_block = {pages}\ndies = {dies}\nchannels = {dies}\nover_provisioning = 0.25\n\
         read = \"60us\"\nprogram = \"{program}\"\nerase = \"2ms\"\nchannel_bandwidth = \"100MB/s\"\n"
    )
}

const LINK: &str = "[controller]\nread_command = \"20us\"\nwrite_command = \"25us\"\nread_bandwidth = \"400MB/s\"\n\
                    write_bandwidth = \"300MB/s\"\n";

fn value(known: &Known, parameter: Parameter) -> Option<Value> {
    known.get(parameter).and_then(|finding| finding.value.clone())
}

#[test]
fn logs_that_are_merged_in_a_batch_are_counted_as_one() {
    for (logs, at_once) in [(6, 3), (5, 1)] {
        let own = format!(
            "{}{LINK}[translation.shared_logs]\nlogs = {logs}\nreclaim_batch = {at_once}\n",
            flash(64, 2, "400us")
        );
        let known = inferred("64MiB", &own);
        let found =
            [Parameter::OpenBlocks, Parameter::EraseBlockSize].map(|parameter| value(&known, parameter));
        let size = Bytes::kib(512) * at_once;
        assert_eq!(
            found,
            [Some((logs / at_once).into()), Some(size.into())],
            "{logs} logs, {at_once} at once"
        );
        let evidence = &known.get(Parameter::OpenBlocks).unwrap().evidence;
        assert!(evidence.contains("if the device reclaims one at a time"), "{evidence}");
    }
}

#[test]
fn noise_hides_no_slc_cache() {
    let fast = "[flash.slc_cache]\nsize = \"12MiB\"\nread = \"25us\"\nprogram = \"150us\"\nerase = \"1ms\"\n";
    let known = inferred("96MiB", &format!("{}{fast}{LINK}[translation.page_map]\n", flash(64, 2, "900us")));
    let region = known.get(Parameter::SlcCacheSize).unwrap();
    let told = region.number().unwrap_or(0.0) / Bytes::mib(12).0 as f64;
    assert!((0.97..1.03).contains(&told), "{}: {}", region.value_in_words(), region.evidence);
}

#[test]
fn an_slc_cache_is_found_where_no_write_stalls_for_long() {
    // A block of 64 KiB is folded in less than 15 times what a write of 32 KiB takes.
    let fast = "[flash.slc_cache]\nsize = \"12MiB\"\nread = \"25us\"\nprogram = \"150us\"\nerase = \"1ms\"\n";
    let known = inferred("96MiB", &format!("{}{fast}{LINK}[translation.page_map]\n", flash(16, 1, "900us")));
    for parameter in [Parameter::SlcCacheSize, Parameter::SlcCacheRefill] {
        let finding = known.get(parameter).unwrap();
        let told = finding.number().unwrap_or(0.0) / Bytes::mib(12).0 as f64;
        assert!((0.97..1.03).contains(&told), "{}: {}", finding.value_in_words(), finding.evidence);
    }
}

#[test]
fn a_large_buffer_is_no_slc_cache_and_shows_no_size_of_writes() {
    let buffer = "[controller.write_buffer]\nsize = \"8MiB\"\nflush = \"when-full\"\n";
    let known =
        inferred("128MiB", &format!("{}{LINK}{buffer}[translation.page_map]\n", flash(64, 2, "400us")));
    let region = known.get(Parameter::SlcCacheSize).unwrap();
    assert_eq!(region.number().unwrap_or(0.0), 0.0, "{}", region.evidence);
    for parameter in [Parameter::WriteSaturationSize, Parameter::WriteCostPerIo] {
        let finding = known.get(parameter).unwrap();
        assert_eq!(
            finding.verdict,
            Verdict::Undetermined,
            "{}: {}",
            finding.value_in_words(),
            finding.evidence
        );
    }
}
