//! Keys that version 2 of the profile format renamed.
//!
//! # Model
//! The sections accept an old key as an alias of the new one. This module looks for old keys in a profile's text: version 1
//! may have them, and each becomes a warning; in version 2 they are errors. Both name the new key.

use toml::{Table, Value};

/// Section, old key, new key. The last section is the one of version 1, as `flash.fast` is renamed itself.
const RENAMED: [(&[&str], &str, &str); 11] = [
    (&["flash"], "rows_wait", "gathers_multi_plane_pages"),
    (&["flash"], "keeps_row", "reuses_page_register"),
    (&["flash"], "fast", "slc_cache"),
    (&["flash", "fast"], "refill", "idle_reclaim"),
    (&["flash", "slc_cache"], "refill", "idle_reclaim"),
    (&["flash", "reliability"], "fast_endurance", "slc_endurance"),
    (&["controller", "write_buffer"], "together", "flush_group"),
    (&["controller", "write_buffer"], "on_the_way", "in_flight"),
    (&["controller", "background"], "pieces", "max_backlog"),
    (&["translation", "shared_logs"], "reclaimed_at_once", "reclaim_batch"),
    (&["startup"], "rest", "idle"),
];

/// An old key that a profile has.
pub(super) struct RenamedKey {
    /// The old key, with its section.
    pub(super) old: String,
    /// The new key alone.
    pub(super) new: &'static str,
}

/// The old keys of a profile's text.
pub(super) fn renamed_keys(text: &str) -> Vec<RenamedKey> {
    let Ok(profile) = toml::from_str::<Table>(text) else { return Vec::new() };
    let section = |path: &[&str]| {
        path.iter().try_fold(&profile, |table, name| table.get(*name).and_then(Value::as_table))
    };
    let used =
        |(path, old, _): &&(&[&str], &str, &str)| section(path).is_some_and(|table| table.contains_key(*old));
    RENAMED
        .iter()
        .filter(used)
        .map(|(path, old, new)| RenamedKey { old: format!("{}.{old}", path.join(".")), new })
        .collect()
}

/// A message of the reader of TOML, which ends with the keys that a section may have, without the old ones.
pub(super) fn without_old_keys(message: &str) -> String {
    let Some((start, keys)) = message.split_once("expected one of ") else { return message.to_owned() };
    let is_old = |key: &str| RENAMED.iter().any(|(_, old, _)| key.trim().trim_matches('`') == *old);
    let keys: Vec<&str> = keys.split(", ").filter(|key| !is_old(key)).collect();
    format!("{start}expected one of {}", keys.join(", "))
}
