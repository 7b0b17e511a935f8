//! What each option of fio means for a measurement.
//!
//! # Model
//! The options of a job are those that fio writes into its JSON. An option that is not in [`HARMLESS`] or [`VALUES`] is not
//! understood, and its job is left out: it may change what was measured. The lists are those of fio 3.33 (`fio --cmdhelp=all`)
//! and of the source of 3.42 (options.c). A test compares them with the fio that is installed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Options that say where, how long, with which content, and what is printed. None changes which requests the device gets, how
/// many are in flight, or what a response time is.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "description", "name", "directory", "filename_format", "unique_filename", "opendir", "lockfile", "size", "io_size",
    "io_limit", "filesize", "offset", "offset_increment", "offset_align", "number_ios", "runtime", "timeout", "time_based",
    "ramp_time", "ramp_size", "loops", "thread", "group_reporting", "stats", "stonewall", "wait_for_previous", "new_group", "exitall",
    "exit_what", "exitall_on_error", "per_job_logs", "norandommap", "softrandommap", "randrepeat", "allrandrepeat",
    "allrandrepeat_seed", "randseed", "random_generator", "fallocate", "fadvise_hint", "fadvise", "invalidate",
    "create_serialize", "create_fsync", "create_on_open", "create_only", "allow_file_create", "allow_mounted_write",
    "pre_read", "unlink", "unlink_each_loop", "overwrite", "end_fsync", "end_syncfs", "fsync_on_close", "filetype", "comm", "write_hint", "cpumask",
    "cpus_allowed", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy", "nice", "mem", "iomem", "iomem_align",
    "mem_align", "hugepage-size", "lockmem", "clocksource", "uid", "gid", "exec_prerun", "exec_postrun", "ioscheduler",
    "disk_util", "refill_buffers", "scramble_buffers", "buffer_pattern", "buffer_compress_percentage",
    "buffer_compress_chunk", "dedupe_percentage", "dedupe_mode", "dedupe_working_set_percentage", "dedupe_global",
    "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog", "log_entries", "log_avg_msec",
    "log_window_value", "log_hist_msec", "log_hist_coarseness", "log_max_value", "log_offset", "log_prio", "log_issue_time",
    "log_compression", "log_compression_cpus", "log_store_compressed", "log_unix_epoch", "log_alternate_epoch",
    "log_alternate_epoch_clock_id", "job_start_clock_id", "bwavgtime", "iopsavgtime", "block_error_percentiles", "clat_percentiles",
    "lat_percentiles", "slat_percentiles", "percentile_list", "significant_figures", "unified_rw_reporting", "kb_base",
    "unit_base", "error_dump", "gtod_reduce", "gtod_cpu", "disable_lat", "disable_clat", "disable_slat", "disable_bw_measurement",
    "disable_bw", "cgroup_nodelete", "max_latency", "steadystate", "steadystate_duration", "steadystate_ramp_time",
    "steadystate_check_interval", "ss", "ss_dur", "ss_ramp", "ss_interval", "max_open_zones", "job_max_open_zones",
    "ignore_zone_limits", "read_beyond_wp", "write_zone_remainder", "file_append", "openfiles", "group",
    // Of engines: how requests are handed to the kernel.
    "hipri", "hipri_percentage", "fixedbufs", "registerfiles", "sqthread_poll", "sqthread_poll_cpu", "sqthread_poll_percentage",
    "nonvectored", "force_async", "userspace_reap", "nowait", "uncached", "cmd_type", "md_per_io_size",
    "pi_act", "pi_chk", "apptag", "apptag_mask",
    // These change how deep the queue is filled, which Little's law shows.
    "iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete_max", "iodepth_low", "serialize_overlap", "io_submit_mode",
    "fill_device", "fill_fs",
    // Read elsewhere, by `job` and `measurement`.
    "rw", "readwrite", "bs", "blocksize", "ioengine", "iodepth", "numjobs", "rwmixread", "rwmixwrite", "direct", "buffered",
    "filename", "ba", "blockalign", "nrfiles",
];

/// Options that change what is measured, except with these values; and how.
const VALUES: &[(&str, &[&str], &str)] = &[
    ("random_distribution", &["random"], "its offsets are not uniformly random"),
    ("percentage_random", &["100", "0", "100,100,100"], "a part of its IOs is sequential"),
    ("rw_sequencer", &["sequential"], "its offsets are not in order"),
    ("bsrange", &[""], "it has several sizes"),
    ("bssplit", &[""], "it has several sizes"),
    ("bs_unaligned", &["0"], "its offsets are no multiples of its size"),
    ("bs_is_seq_rand", &["0"], "its sizes depend on whether an IO is sequential"),
    ("verify", &["0", "none", "null"], "it reads what it wrote, to verify it"),
    ("do_verify", &["0", "1"], "it verifies"),
    ("verify_only", &["0"], "it verifies, and writes nothing"),
    ("experimental_verify", &["0"], "it verifies"),
    ("trim_percentage", &["0"], "it trims"),
    ("trim_verify_zero", &["0"], "it trims"),
    ("trim_backlog", &["0"], "it trims"),
    ("trim_backlog_batch", &["0"], "it trims"),
    ("latency_target", &["0"], "fio changes its queue depth while it runs"),
    ("latency_window", &["0"], "fio changes its queue depth while it runs"),
    ("latency_percentile", &["100", "100.000000"], "fio changes its queue depth while it runs"),
    ("latency_run", &["0"], "fio changes its queue depth while it runs"),
    ("thinktime", &["0"], "it waits between its IOs"),
    ("thinktime_spin", &["0"], "it waits between its IOs"),
    ("thinktime_blocks", &["1"], "it waits between its IOs"),
    ("thinktime_blocks_type", &["complete", "issue"], "it waits between its IOs"),
    ("thinktime_iotime", &["0"], "it waits between its IOs"),
    ("thinkcycles", &["0"], "it waits between its IOs"),
    ("iodepth_batch_complete", &["0", "1"], "it waits for several IOs before it sends others"),
    ("iodepth_batch_complete_min", &["0", "1"], "it waits for several IOs before it sends others"),
    ("rate", &["0", "0,0", "0,0,0"], "its rate is limited"),
    ("rate_iops", &["0", "0,0", "0,0,0"], "its rate is limited"),
    ("rate_min", &["0", "0,0", "0,0,0"], "it ends when its rate falls"),
    ("rate_iops_min", &["0", "0,0", "0,0,0"], "it ends when its rate falls"),
    ("rate_process", &["linear"], "its IOs arrive at random times"),
    ("rate_cycle", &["1000"], "its rate is limited"),
    ("rate_ignore_thinktime", &["0", "1"], "its rate is limited"),
    ("startdelay", &["0"], "its JSON does not say whether it ran alone"),
    ("wait_for", &[""], "its JSON does not say whether it ran alone"),
    ("flow", &["0"], "its rate depends on other jobs"),
    ("flow_id", &["0"], "its rate depends on other jobs"),
    ("flow_sleep", &["0"], "its rate depends on other jobs"),
    ("flow_watermark", &[""], "its rate depends on other jobs"),
    ("read_iolog", &[""], "it replays a trace"),
    ("read_iolog_chunked", &["0"], "it replays a trace"),
    ("merge_blktrace_file", &[""], "it replays a trace"),
    ("zonemode", &["none"], "it works in zones"),
    ("zonesize", &["0"], "it works in zones"),
    ("zonecapacity", &["0"], "it works in zones"),
    ("zonerange", &["0"], "it works in zones"),
    ("zoneskip", &["0"], "it works in zones"),
    ("zone_reset_threshold", &["0"], "it resets zones"),
    ("zone_reset_frequency", &["0"], "it resets zones"),
    ("readfua", &["0"], "its reads pass by the cache of the device"),
    ("file_service_type", &["roundrobin"], "its files are not used one after the other"),
    ("continue_on_error", &["none", "0"], "failed IOs are among its times"),
    ("ignore_error", &[""], "failed IOs are among its times"),
    ("cgroup", &[""], "its rate depends on a control group"),
    ("cgroup_weight", &["0"], "its rate depends on a control group"),
    ("prio", &["0"], "its IOs have a priority"),
    ("prioclass", &["0"], "its IOs have a priority"),
    ("priohint", &["0"], "its IOs have a priority"),
    ("cmdprio_percentage", &["0"], "a part of its IOs has a priority"),
    ("cmdprio_bssplit", &[""], "a part of its IOs has a priority"),
    ("cmdprio", &["0"], "a part of its IOs has a priority"),
    ("cmdprio_class", &["0"], "a part of its IOs has a priority"),
    ("profile", &[""], "its requests are those of a profile of fio"),
];

/// As [`VALUES`], and without a meaning for reads: fio flushes after writes only (`get_io_u` in io_u.c), and Linux ignores `O_SYNC` in a
/// read.
const VALUES_OF_WRITES: &[(&str, &[&str], &str)] = &[
    ("fsync", &["0"], "it waits for flushes"),
    ("fdatasync", &["0"], "it waits for flushes"),
    ("sync_file_range", &[""], "it waits for flushes"),
    ("write_barrier", &["0"], "its writes are ordered by barriers"),
    ("sync", &["0", "none"], "each of its writes waits until it is durable"),
    ("writefua", &["0"], "each of its writes waits until it is durable"),
    ("atomic", &["0"], "its writes are atomic"),
    ("zero_buffers", &["0"], "it writes zeroes only, which a device may not store"),
    ("write_mode", &["write"], "its writes are other commands"),
    ("sprandom", &["0"], "it writes a part of its offsets twice"),
    ("fdp", &["0"], "its writes are placed by it"),
    ("dataplacement", &["none"], "its writes are placed by it"),
];

/// How the names of options begin that say something only where another one does: `verify`, `read_iolog`, `dataplacement`.
const OF_OTHERS: [&str; 8] =
    ["verify_", "verifysort", "replay_", "merge_blktrace_", "spr_", "plid", "fdp_pli", "dp_scheme"];

/// Other names of options in job files; the JSON has the first one in most versions.
const ALIASES: [(&str, &str); 3] = [("rw", "readwrite"), ("bs", "blocksize"), ("ba", "blockalign")];

/// The options of a job: its own, and the global ones that it does not have.
pub(super) struct Options<'a>(BTreeMap<&'a str, String>);

impl<'a> Options<'a> {
    pub(super) fn of(global: &'a Map<String, Value>, own: &'a Map<String, Value>) -> Options<'a> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let all = global.iter().chain(own);
        Options(all.map(|(key, value)| (key.as_str(), text(value))).collect())
    }

    /// The value of an option, by its name or its alias.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let alias = ALIASES.iter().find(|(known, _)| *known == name).map(|(_, alias)| *alias);
        self.0.get(name).or_else(|| self.0.get(alias?)).map(|value| value.trim())
    }

    /// A whole number above 0.
    pub(super) fn number(&self, name: &str, usual: u32) -> Result<u32, String> {
        match self.get(name) {
            None => Ok(usual),
            Some(text) => text
                .parse::<u32>()
                .ok()
                .filter(|&number| number > 0)
                .ok_or_else(|| format!("{name}={text} is no number above 0")),
        }
    }

    /// Whether a switch is on, which may have no value.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0")
    }

    /// Why these options are none of a measurement of one kind of request; `None` if they are.
    pub(super) fn refusal(&self) -> Option<String> {
        let only_reads = matches!(self.get("rw"), None | Some("read" | "randread"));
        let counts = |name: &str| !only_reads || VALUES_OF_WRITES.iter().all(|(known, ..)| *known != name);
        let mut counted = self.0.iter().filter(|(name, _)| counts(name));
        counted.find_map(|(&name, value)| refusal_of(name, value.trim()))
    }
}

fn refusal_of(name: &str, value: &str) -> Option<String> {
    if HARMLESS.contains(&name) {
        return None;
    }
    let mut values = VALUES.iter().chain(VALUES_OF_WRITES);
    if let Some((_, neutral, reason)) = values.find(|(known, ..)| *known == name) {
        return (!neutral.contains(&value)).then(|| format!("{name}={value}: {reason}"));
    }
    match OF_OTHERS.iter().any(|prefix| name.starts_with(prefix)) {
        true => None,
        false => {
            Some(format!("flashlab does not know what {name}={value} changes: repeat the job without it"))
        }
    }
}

/// A size as fio has it. `k`, `kb`, `kB` are 1024 and `KiB` is 1000 with its default `kb_base=1024`, and the other way round
/// with `kb_base=1000` (fio's manual, "Parameter types"). A list counts if it has one size.
pub(super) fn size(text: &str, kb_base: Option<&str>) -> Result<u64, String> {
    let wrong = || format!("bs={text} is no single size");
    let mut parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let first = parts.next().ok_or_else(wrong)?;
    if parts.any(|other| other != first) {
        return Err(wrong());
    }
    let digits = first.chars().take_while(|c| c.is_ascii_digit() || *c == '.').count();
    let (number, unit) =
        (first[..digits].parse::<f64>().map_err(|_| wrong())?, first[digits..].to_ascii_lowercase());
    let is_iec = unit.contains('i');
    let base: f64 = if is_iec == (kb_base == Some("1000")) { 1024.0 } else { 1000.0 };
    let power = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        _ => return Err(wrong()),
    };
    let size = number * base.powi(power);
    if (1.0..1e15).contains(&size) { Ok(size as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_fio() {
        for (text, base, bytes) in [
            ("4k", None, 4096),
            ("4kB", None, 4096),
            ("4K", Some("1024"), 4096),
            ("64KiB", None, 64_000),
            ("64KiB", Some("1000"), 65_536),
            ("64k", Some("1000"), 64_000),
            ("1M", None, 1 << 20),
            ("4096", None, 4096),
            ("4096B", None, 4096),
            ("8k,8k,8k", None, 8192),
            ("8k,", None, 8192),
        ] {
            assert_eq!(size(text, base), Ok(bytes), "{text} {base:?}");
        }
        for text in ["", "4k,8k", "x", "4q", "-1", "0"] {
            assert!(size(text, None).is_err(), "{text}");
        }
    }

    /// Every option of the fio that is installed is in one of the lists.
    #[test]
    fn every_option_of_fio_is_understood() {
        let help = std::process::Command::new("fio").arg("--cmdhelp=all").output();
        let Ok(help) = help else {
            return flashlab_skip::skip(flashlab_skip::Need::Programs, "fio is not installed");
        };
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        // A name that is wider than its column is followed by a colon.
        let names =
            help.lines().filter_map(|line| line.split([' ', ':']).next()).filter(|name| !name.is_empty());
        let mut count = 0;
        for name in names
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)))
        {
            count += 1;
            let refusal = refusal_of(name, "x").unwrap_or_default();
            assert!(!refusal.contains("does not know"), "{refusal}");
        }
        assert!(count > 100, "fio --cmdhelp=all names {count} options:\n{help}");
        let unknown = refusal_of("colour", "blue").unwrap();
        assert_eq!(unknown, "flashlab does not know what colour=blue changes: repeat the job without it");
        assert_eq!(
            refusal_of("verify", "crc32c").unwrap(),
            "verify=crc32c: it reads what it wrote, to verify it"
        );
        assert_eq!(refusal_of("thinktime", "0"), None);
    }
}
