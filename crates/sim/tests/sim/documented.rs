//! Somebody writes a profile with the help of docs/sim.md: the page has every key that the parser knows.

use flashlab_sim::Profile;

const PAGE: &str = include_str!("../../../../docs/sim.md");

const SECTIONS: [&str; 26] = [
    "noise",
    "throughput",
    "throughput.random_read",
    "startup",
    "oscillation",
    "lingering",
    "response_tree",
    "disk",
    "disk.seek",
    "flash",
    "flash.slc_cache",
    "flash.reliability",
    "flash.energy",
    "controller",
    "controller.pipeline",
    "controller.write_buffer",
    "controller.read_buffer",
    "controller.segment_groups",
    "controller.background",
    "controller.limit",
    "translation",
    "translation.page_map",
    "translation.demand_map",
    "translation.log_blocks",
    "translation.shared_logs",
    "translation.zones",
];

/// The keys of a section, as the parser lists them when it meets one that it does not know.
fn keys(section: &str) -> Vec<String> {
    let head = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
    let error = Profile::parse(&format!("{head}no_such_key = 1\n"), "").unwrap_err().to_string();
    let listed = error.split_once("expected").unwrap_or_else(|| panic!("{section}: {error}")).1;
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_key_that_a_profile_may_have_is_documented() {
    let mut missing = Vec::new();
    let mut known = 0;
    for section in SECTIONS.into_iter().chain([""]) {
        let keys = keys(section);
        assert!(!keys.is_empty(), "{section}");
        known += keys.len();
        let is_missing = |key: &String| {
            ![format!("`{key}`"), format!("[{key}"), format!(".{key}]")]
                .iter()
                .any(|text| PAGE.contains(text))
        };
        missing.extend(keys.into_iter().filter(is_missing).map(|key| format!("{section}.{key}")));
    }
    assert_eq!(missing, [""; 0]);
    assert!(known > 120, "{known}");
}
