//! Families of translation layers whose merges are hidden or imitated by a write buffer, deferred work, or switches between segment probes.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::Device;
use flashlab_infer::{InferenceSettings, Known, PROBES, infer_probes, nothing_known};
use flashlab_sim::Profile;

/// What is found until the probes that ask for the family, of a device with these sections beside the usual ones.
fn inferred(controller: &str, sections: &str) -> Known {
    let text = format!(
        "version = 2\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \"96MiB\"\n\
         [flash]\npage = \"4KiB\"\npages_per_block = 64\ndies = 2\nchannels = 2\nover_provisioning = 0.15\nread = \"60us\"\n\
         program = \"400us\"\nerase = \"2ms\"\nchannel_bandwidth = \"100MB/s\"\n\
         [controller]\nread_command = \"20us\"\nwrite_command = \"25us\"\nread_bandwidth = \"400MB/s\"\n\
         write_bandwidth = \"300MB/s\"\n{controller}\n\
         [noise]\nsigma = 0.05\noutlier_share = 0.01\noutlier_factor = 10\n{sections}"
    );
    let mut device = Profile::parse(&text, "test.toml").unwrap().device().unwrap();
    let settings = InferenceSettings {
        seed: Seed(3),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(36_000),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(&device, "test");
    let last = PROBES.iter().position(|probe| probe.name == "open-blocks").unwrap();
    infer_probes(&mut device, &settings, &mut known, &mut (), &PROBES[..=last]);
    known
}

fn family(known: &Known) -> (&Finding, String) {
    let found = known.get(Parameter::TranslationFamily).unwrap();
    (found, format!("{} ({}): {}", found.value_in_words(), found.confidence, found.evidence))
}

/// Asserts that the family is this one.
fn assert_family(known: &Known, name: &str) {
    let (found, told) = family(known);
    assert_eq!(found.value, Some(name.into()), "{told}");
}

#[test]
fn logs_behind_a_large_buffer_are_seen_where_flushes_answer_many_writes_together() {
    let known = inferred(
        "write_buffer = { size = \"8MiB\", flush = \"when-full\" }",
        "[translation.log_blocks]\nlogs = 4\n",
    );
    assert_family(&known, "log-block");
    assert_eq!(known.get(Parameter::OpenBlocks).unwrap().value, Some(4u64.into()));
}

/// The backlog is longer than any probe fills it.
const BACKGROUND: &str = "background = { max_backlog = 1000, idle_after = \"1s\", slice = \"500us\" }";

#[test]
fn deferred_merges_are_no_page_map() {
    assert_family(&inferred(BACKGROUND, "[translation.log_blocks]\nlogs = 5\n"), "log-block");
}

#[test]
fn deferred_collection_is_no_merge() {
    assert_family(&inferred(BACKGROUND, "[translation.page_map]\n"), "page");
}

#[test]
fn logs_that_take_adjoining_pages_only_are_a_block_map() {
    assert_family(&inferred("", "[translation.log_blocks]\nlogs = 3\norder = \"adjoining\"\n"), "block");
}

#[test]
fn a_chunk_that_is_replaced_as_a_whole_is_no_page() {
    let known = inferred("", "[translation.log_blocks]\nlogs = 0\norder = \"next\"\nstripe_pages = 8\n");
    let page = known.get(Parameter::WritePageSize).unwrap();
    assert_eq!(page.value, Some(Bytes::kib(4).into()), "{}", page.evidence);
    assert_family(&known, "block");
}

#[test]
fn going_to_another_segment_group_is_no_merge() {
    let groups = "segment_groups = { count = 4, span = \"8MiB\", switch = \"1ms\", write_switch = \"10ms\" }";
    let known = inferred(groups, "[translation.demand_map]\n");
    let (found, told) = family(&known);
    assert!(found.value != Some("log-block".into()) || found.confidence <= 0.7, "{told}");
}
