//! The report of a user's own plan without the methodology, and the command that repeats a run.

use flashlab_analysis::findings::{Characteristics, Findings, Traces};
use flashlab_base::{Bytes, Seed};
use flashlab_report::{Layout, html, terminal};

use crate::synthetic::findings;

/// What `flashlab run` finds: one plan, no baselines, nothing of Table 3 but the device.
fn own_plan() -> Findings {
    let (mut findings, _) = findings(Seed(1));
    findings.baselines.clear();
    findings.lingering = None;
    findings.hints.clear();
    findings.warnings.truncate(1);
    findings.micro_benchmarks.retain(|micro| micro.name == "parallelism");
    let plan = &mut findings.micro_benchmarks[0];
    plan.name = "threads".to_owned();
    plan.experiments.truncate(1);
    plan.experiments[0].pattern = "reads of a very long name".to_owned();
    findings.method.state = "none".to_owned();
    let device = findings.characteristics.device.clone();
    findings.characteristics = Characteristics { device, ..Characteristics::default() };
    findings
}

#[test]
fn the_terminal_shows_what_each_run_gave() {
    insta::assert_snapshot!(terminal(&own_plan(), &Layout::default()), @r"
    Synthetic SSD 64
    2025-11-21 04:08 UTC, state none, seed 1
    The device was measured as it was found. It is not known whether the device was
    steady: random writes of a device that maps pages may become several times
    slower after more of them. `--state steady` measures the steady state.

    threads: ParallelDeg…    mean     p50     p99   p99.9     max    IO/s   bytes/s
    1              writes  368 us  267 us  806 us  854 us  854 us    2720 89.1 MB/s
    2              writes  730 us  521 us 1.70 ms 1.85 ms 1.85 ms    1370 44.9 MB/s
    4              writes 1.45 ms 1.09 ms 3.10 ms 3.30 ms 3.30 ms     688 22.5 MB/s
    8              writes 2.99 ms 2.19 ms 6.67 ms 6.94 ms 6.94 ms     335 11.0 MB/s
    16             writes 5.81 ms 4.27 ms 13.5 ms 13.9 ms 13.9 ms     172 5.64 MB/s
    write amplification 1.50

    · Single points only: 1 point whose repetitions differ.
    ");
    let narrow = terminal(&own_plan(), &Layout { width: 40, ..Layout::default() });
    insta::assert_snapshot!(narrow, @r"
    Synthetic SSD 64
    2025-11-21 04:08 UTC, state none, seed 1
    The device was measured as it was found.
    It is not known whether the device was
    steady: random writes of a device that
    maps pages may become several times
    slower after more of them. `--state
    steady` measures the steady state.

    threads: ParallelD…     mean      p99
    1            writes   368 us   806 us
    2            writes   730 us  1.70 ms
    4            writes  1.45 ms  3.10 ms
    8            writes  2.99 ms  6.67 ms
    16           writes  5.81 ms  13.5 ms
    write amplification 1.50

    · Single points only: 1 point whose
      repetitions differ.
    ");
    assert!(narrow.lines().all(|line| line.chars().count() <= 40));
}

#[test]
fn the_page_has_the_plots_and_says_nothing_of_hints() {
    let page = html(&own_plan(), &Traces::default());
    assert!(page.contains("What was run") && page.contains("All runs"));
    assert!(!page.contains("Table 3</h2>") && !page.contains("not measured"), "it was not asked for");
}

#[test]
fn an_experiment_that_varies_nothing_is_a_line_and_no_curve() {
    let mut findings = own_plan();
    let mut single = findings.micro_benchmarks[0].clone();
    single.parameter.clear();
    single.experiments[0].pattern = "only once".to_owned();
    single.experiments[0].points.truncate(1);
    findings.micro_benchmarks.push(single);
    let page = html(&findings, &Traces::default());
    assert!(page.contains("only once") && page.contains("writes: mean 368 us, p50 267 us"), "{page}");
    assert!(!page.contains("response time over <") && page.contains("response time over ParallelDegree"));
    assert!(!page.contains("Baseline IOSize") && !page.contains("Thoroughness"), "it has its own IOSize");
}

/// The command on a page that repeats the run.
fn command(findings: &Findings) -> String {
    let page = html(findings, &Traces::default());
    let (_, rest) = page.split_once("<pre class=\"command\"><code>").unwrap();
    rest.split_once("</code>").unwrap().0.replace("&#39;", "'")
}

#[test]
fn the_command_repeats_what_was_done() {
    let (mut full, _) = findings(Seed(7));
    full.method.target_size = full.identity.capacity;
    insta::assert_snapshot!(command(&full), @"flashlab bench /dev/synthetic --full --state random --repetitions 3 --seed 7");

    let mut part = full.clone();
    part.method.target_size = Bytes::gib(4);
    part.method.state = "sequential (in part)".to_owned();
    part.method.thoroughness = "quick".to_owned();
    part.micro_benchmarks.truncate(2);
    part.identity.engine = Some("io_uring buffered (page cache)".to_owned());
    insta::assert_snapshot!(command(&part), @"flashlab bench /dev/synthetic --size 4GiB --quick --only granularity,alignment --state sequential --engine io-uring --buffered --repetitions 3 --seed 7");

    let mut scratch = full.clone();
    scratch.identity.target = "scratch file in /mnt/a disk".to_owned();
    insta::assert_snapshot!(command(&scratch), @"flashlab bench --directory '/mnt/a disk' --size 62500000KiB --full --state random --repetitions 3 --seed 7");

    let mut plan = own_plan();
    plan.method.target_size = plan.identity.capacity;
    insta::assert_snapshot!(command(&plan), @"flashlab run threads.toml /dev/synthetic --repetitions 3 --seed 1");
    plan.micro_benchmarks[0].name = "mix".to_owned();
    plan.method.thoroughness = "quick".to_owned();
    insta::assert_snapshot!(command(&plan), @"flashlab run mix /dev/synthetic --quick --repetitions 3 --seed 1");
}
