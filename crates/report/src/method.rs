//! The sections about the method: how and what was measured, and what the figures mean.

use flashlab_analysis::findings::{Baseline, Findings};
use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_plan::Plan;
use maud::{Markup, html};

use crate::page::{Section, facts};
use crate::points::is_own_plan;
use crate::table3;
use crate::units::{self, grouped};
use crate::words::date;

/// Method and identity.
pub fn sections(findings: &Findings) -> Vec<Section> {
    vec![
        Section {
            id: "method",
            short: "Method",
            heading: "How it was measured",
            body: method_html(findings),
        },
        Section {
            id: "device",
            short: "Device",
            heading: "What was measured",
            body: facts(identity(&findings.identity)),
        },
    ]
}

fn method_html(findings: &Findings) -> Markup {
    html! {
        (facts(method(findings)))
        (baselines_html(&findings.baselines))
        p {
            "To repeat it with the same IOs"
            @if is_own_plan(findings) { " (the plan is in the run's manifest.json)" }
            ":"
        }
        pre.command { code { (repeat_command(findings)) } }
    }
}

fn method(findings: &Findings) -> Vec<(&'static str, Option<String>)> {
    let method = &findings.method;
    let mut rows = vec![
        ("Started", Some(date(&findings.started))),
        ("Took", Some(duration(method.elapsed))),
        ("Thoroughness", Some(method.thoroughness.clone())),
        ("Device state at the start", Some(method.state.clone())),
        ("Baseline IOSize", Some(method.io_size.to_string())),
        ("Part of the device used", Some(method.target_size.to_string())),
        ("Pause between runs", Some(duration(method.pause))),
        ("Repetitions of each run", Some(method.repetitions.to_string())),
        (
            "Precision aimed at",
            Some(format!("± {} of the mean (95 %)", units::percent(method.precision_goal))),
        ),
        ("Cost of measuring, per IO", method.overhead_ns_per_io.map(units::time)),
        ("One reading of the clock", method.clock_ns_per_reading.map(units::time)),
        ("Written in all", Some(method.bytes_written.to_string())),
        ("Part of the rated endurance", method.endurance_share.map(units::percent)),
        ("Seed", Some(method.seed.to_string())),
    ];
    if is_own_plan(findings) {
        // Its IOs have the sizes of the plan. All values are run, unless the method says otherwise.
        let is_quick = method.thoroughness == "quick";
        rows.retain(|(name, _)| *name != "Baseline IOSize" && (is_quick || *name != "Thoroughness"));
    }
    rows
}

fn duration(nanos: Nanos) -> String {
    units::time(nanos.get() as f64)
}

/// The words of a command that name the target of an earlier one.
pub(crate) fn target_words(target: &str) -> Vec<String> {
    match target.strip_prefix("scratch file in ") {
        Some(directory) => vec!["--directory".to_owned(), shell_word(directory)],
        None => vec![shell_word(target)],
    }
}

/// The command that repeats the run, without consent to overwrite a device or a file: the user has to consent
/// again.
fn repeat_command(findings: &Findings) -> String {
    let Findings { method, identity, .. } = findings;
    let own_plan = is_own_plan(findings);
    let mut words = vec!["flashlab".to_owned()];
    words.push(if own_plan { "run" } else { "bench" }.to_owned());
    if own_plan {
        words.extend(findings.micro_benchmarks.iter().take(1).map(|plan| plan_word(&plan.name)));
    }
    words.extend(target_words(&identity.target));
    if method.target_size != identity.capacity || identity.target.starts_with("scratch file in ") {
        words.extend(["--size".to_owned(), method.target_size.exact()]);
    }
    if !own_plan || method.thoroughness == "quick" {
        words.push(format!("--{}", method.thoroughness));
    }
    let measured: Vec<&str> = findings.micro_benchmarks.iter().map(|micro| micro.name.as_str()).collect();
    if !own_plan && !measured.is_empty() && measured.len() < Plan::MICRO_BENCHMARKS.len() {
        words.extend(["--only".to_owned(), measured.join(",")]);
    }
    let state = match (&method.steady, &method.saved) {
        (Some(_), _) => "steady",
        (None, Some(_)) => "none",
        (None, None) => method.state.split(' ').next().unwrap_or_default(),
    };
    let usual = match (own_plan, method.thoroughness.as_str()) {
        (true, _) => "none",
        (false, "full") => "steady",
        (false, _) => "random",
    };
    if state != usual {
        words.extend(["--state".to_owned(), state.to_owned()]);
    }
    let engine = identity.engine.as_deref().unwrap_or_default();
    if engine.starts_with("io_uring") {
        words.extend(["--engine".to_owned(), "io-uring".to_owned()]);
    }
    if engine.contains("buffered") {
        words.push("--buffered".to_owned());
    }
    words.push(format!("--repetitions {} --seed {}", method.repetitions, method.seed));
    words.join(" ")
}

/// The name of a shipped plan, or a file name that the user's plan may have.
fn plan_word(name: &str) -> String {
    if Plan::MICRO_BENCHMARKS.contains(&name) { name.to_owned() } else { shell_word(&format!("{name}.toml")) }
}

/// `word`, quoted for a shell.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn baselines_html(baselines: &[Baseline]) -> Markup {
    const HEADINGS: [&str; 7] =
        ["Pattern", "Start-up", "Mean in it", "Mean after it", "Period", "IOIgnore", "Smallest IOCount"];
    html! {
        @if !baselines.is_empty() {
            div.scroll {
                table.figures {
                    caption { "The two phases of the baselines (uFLIP section 4.2)" }
                    thead { tr { @for heading in HEADINGS { th { (heading) } } } }
                    tbody { @for baseline in baselines { (baseline_row(baseline)) } }
                }
            }
        }
    }
}

fn baseline_row(baseline: &Baseline) -> Markup {
    let phases = &baseline.phases;
    let ios = |count: Option<u64>| count.map_or("none".to_owned(), |count| format!("{} IOs", grouped(count)));
    html! {
        tr {
            th scope="row" { (baseline.pattern) }
            td { (ios(Some(phases.startup_ios).filter(|&count| count > 0))) }
            td { (phases.startup_ns_mean.map_or(units::UNKNOWN.to_owned(), units::time)) }
            td { (units::time(phases.running_ns_mean)) }
            td { (ios(phases.period_ios)) }
            td { (grouped(baseline.io_ignore)) }
            td { (grouped(baseline.io_count_min)) }
        }
    }
}

fn identity(identity: &Identity) -> Vec<(&str, Option<String>)> {
    let size = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_string());
    let yes_no = |answer: Option<bool>| answer.map(|yes| if yes { "yes" } else { "no" }.to_owned());
    let mut rows = vec![
        ("Target", Some(identity.target.clone())),
        ("Kind", Some(identity.kind.clone())),
        ("Device beneath it", identity.backing_device.clone()),
        ("File system", identity.file_system.clone()),
        ("Model", identity.model.clone()),
        ("Serial number", identity.serial.clone()),
        ("Firmware", identity.firmware.clone()),
        ("Transport", identity.transport.clone()),
        ("Capacity", Some(format!("{} ({} bytes)", identity.capacity, grouped(identity.capacity.get())))),
        ("Logical block", size(identity.logical_block)),
        ("Physical block", size(identity.physical_block)),
        ("Rotational", yes_no(identity.rotational)),
        ("Write cache", identity.write_cache.clone()),
        ("Scheduler", identity.scheduler.clone()),
        ("Discard granularity", size(identity.discard_granularity)),
        ("Longest discard", size(identity.discard_max)),
        ("Largest request", size(identity.largest_request)),
        ("Rated endurance", size(identity.rated_endurance)),
        ("IO engine", identity.engine.clone()),
        ("Kernel", identity.kernel.clone()),
        ("Processor", identity.processor.clone()),
        ("Processors usable", identity.processors.map(|count| count.to_string())),
        ("Virtual machine", identity.virtual_machine.clone()),
    ];
    match &identity.health {
        Some(health) => rows.extend(health.iter().map(|(name, value)| (name.as_str(), Some(value.clone())))),
        None => rows.push(("Health log", None)),
    }
    rows
}

/// The last section: how each figure is defined.
pub fn definitions(findings: &Findings) -> Section {
    const TERMS: [(&str, &str); 10] = [
        ("Response time", "From the intended start of an IO to its completion, as the program sees it."),
        (
            "SR, RR, SW, RW",
            "Sequential reads, random reads, sequential writes, random writes of the baseline IOSize, one after the other.",
        ),
        (
            "Mean, p50, p99, ...",
            "Over the IOs of a run after its first IOIgnore ones. Half of the IOs are no slower than p50, 99 % no slower than p99.",
        ),
        (
            "Start-up phase",
            "The first IOs of a pattern, where their cost differs from what the device sustains. IOIgnore covers it.",
        ),
        (
            "Period",
            "The length of one oscillation of the running phase, in IOs: IOCount covers several of them.",
        ),
        (
            "Spread",
            "(largest − smallest) ÷ mean of the repetitions' means. The bands in the plots reach from the smallest to the largest.",
        ),
        (
            "Precision",
            "Half the width of the mean's 95 % confidence interval, relative to the mean, valid for IOs that depend on each other.",
        ),
        ("Throughput, IOs a second", "From the start of the first counted IO to the end of the last one."),
        (
            "Hints",
            "A hint is not decided where the run did not measure what would decide it, or where noise is larger than the effect.",
        ),
        ("Units", "1 KiB = 1024 bytes, 1 MB/s = 1 000 000 bytes a second, 1 us = 1000 ns."),
    ];
    let columns = table3::columns(findings);
    let terms = TERMS.into_iter().chain(columns.iter().map(|column| (column.title, column.meaning)));
    Section {
        id: "definitions",
        short: "Definitions",
        heading: "How the figures are defined",
        body: html! {
            dl.definitions { @for (name, meaning) in terms { dt { (name) } dd { (meaning) } "\n" } }
            p.source {
                "L. Bouganim, B. Þ. Jónsson, P. Bonnet: "
                cite { "uFLIP: Understanding Flash IO Patterns" } ", CIDR 2009."
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_reads_words_back() {
        assert_eq!(shell_word("/dev/disk/by-id/nvme-X_1"), "/dev/disk/by-id/nvme-X_1");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's;rm"), r"'it'\''s;rm'");
        assert_eq!(shell_word(""), "''");
    }
}
