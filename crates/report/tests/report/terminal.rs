//! The summary in a terminal.

use flashlab_analysis::findings::{Characteristics, HintVerdict, Warning};
use flashlab_base::Seed;
use flashlab_report::{Layout, terminal};

use crate::synthetic::findings;

#[test]
fn the_summary_of_a_full_run() {
    let (findings, _) = findings(Seed(1));
    let layout = Layout { report: Some("runs/synthetic/report.html".to_owned()), ..Layout::default() };
    insta::assert_snapshot!(terminal(&findings, &layout), @r"
    Synthetic SSD 64 (block device, 64 GB)
    2025-11-21 04:08 UTC, full run, state random, 32 KiB IOs, seed 1
    The device was written randomly, its capacity once. It is not known whether the
    device was steady: random writes of a device that maps pages may become several
    times slower after more of them. `--state steady` measures the steady state.

    A random write takes 9.34 ms, 20 times as long as a sequential one (463 us).
    Within an area of 8 MB they cost at most 2.10× a sequential write. A random read
    takes 419 us, 1.1 times as long as a sequential one. Writing sequentially to 4
    partitions at once costs 1.50× as much as to one. Of uFLIP's seven design hints
    5 hold here and 1 does not; 1 could not be decided.

    SR seq. read      RR rand. read     SW seq. write     RW rand. write
    368 us            419 us            463 us            9.34 ms

    Pause      12.8 ms, then a random write costs as a sequential one
    Locality   8 MB, 2.10× a sequential write at most
    Partitions 4, 1.50× one partition
    Reverse    1.02× a sequential write
    In place   0.80× a sequential write
    Large gaps 2.00× a random write

    uFLIP's design hints, decided for this device
    ✓ 1 Use IOs of at least 64 KiB wherever you can: the latency is a quarter of a
      32 KiB read.
    ✗ 2 Use blocks of 64 KiB on this device.
    ✓ 3 Align blocks to 16 KiB.
    ✓ 4 Keep random writes within 8 MB.
    ✓ 5 Write to at most 4 partitions at once.
    ✓ 6 Mix patterns freely: a mix costs the weighted mean of its parts.
    ? 7 Measure parallelism to decide this.

    ! The measuring thread waited 41 ms for a CPU; small response times are
      doubtful.
    · Single points only: 1 point whose repetitions differ.

    Report: runs/synthetic/report.html
    ");
}

#[test]
fn a_disturbed_run_has_figures_and_no_verdict() {
    let (mut findings, _) = findings(Seed(1));
    findings.disturbance.disturbed_runs = findings.disturbance.runs * 3 / 4;
    let text = terminal(&findings, &Layout::default());
    let sentences = text.split("\n\n").nth(1).unwrap();
    insta::assert_snapshot!(sentences, @r"
    Too disturbed for a verdict: 75 % of 844 runs were flagged as disturbed. The
    figures may show the disturbance and not the device: measure again on an idle
    machine.
    ");
    assert!(text.contains("9.34 ms"), "{text}");
}

#[test]
fn costs_are_about_the_same_only_when_they_are() {
    let (mut findings, _) = findings(Seed(1));
    let mut said = |sequential: f64, random: f64| {
        let row = &mut findings.characteristics;
        (row.sw_ms, row.rw_ms, row.sr_ms, row.rr_ms) =
            (Some(sequential), Some(random), Some(sequential), Some(random));
        let text = terminal(&findings, &Layout { width: 1000, ..Layout::default() });
        text.split("\n\n").nth(1).unwrap().split(" Writing sequentially").next().unwrap().to_owned()
    };
    insta::assert_snapshot!(said(1.0, 1.05), @"Random and sequential writes cost about the same: 1.05 ms and 1.00 ms. A random read takes 1.05 ms, about as long as a sequential one.");
    insta::assert_snapshot!(said(1.0, 1.3), @"A random write takes 1.30 ms, 1.3 times as long as a sequential one (1.00 ms). A random read takes 1.30 ms, 1.3 times as long as a sequential one.");
    insta::assert_snapshot!(said(1.0, 0.8), @"Random writes (800 us) are faster than sequential ones (1.00 ms). A random read takes 800 us, less than a sequential one (1.00 ms).");
}

#[test]
fn what_a_hint_leaves_open_is_in_no_sentence() {
    let (mut findings, _) = findings(Seed(1));
    for hint in &mut findings.hints {
        hint.verdict = HintVerdict::NotSupportedByThisMeasurement;
    }
    let text = terminal(&findings, &Layout::default());
    assert!(!text.contains("Within an area") && !text.contains("partitions at once costs"), "{text}");
}

#[test]
fn what_was_not_measured_is_said_to_be_so() {
    let (mut findings, _) = findings(Seed(1));
    findings.characteristics = Characteristics { device: "bare".to_owned(), ..Characteristics::default() };
    findings.micro_benchmarks.clear();
    findings.hints.clear();
    findings.warnings.clear();
    insta::assert_snapshot!(terminal(&findings, &Layout::default()), @r"
    bare
    2025-11-21 04:08 UTC, full run, state random, 32 KiB IOs, seed 1
    The device was written randomly, its capacity once. It is not known whether the
    device was steady: random writes of a device that maps pages may become several
    times slower after more of them. `--state steady` measures the steady state.

    SR seq. read      RR rand. read     SW seq. write     RW rand. write
    –                 –                 –                 –

    Pause      not measured
    Locality   not measured
    Partitions not measured
    Reverse    not measured
    In place   not measured
    Large gaps not measured
    ");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let (findings, _) = findings(Seed(2));
    for width in [0, 40, 60, 80, 120] {
        let text = terminal(&findings, &Layout { width, ..Layout::default() });
        for line in text.lines() {
            assert!(line.chars().count() <= width.max(40), "{width}: {line}");
        }
    }
}

#[test]
fn colours_are_there_only_if_asked_for_and_change_nothing_else() {
    let (findings, _) = findings(Seed(3));
    let plain = terminal(&findings, &Layout::default());
    let coloured = terminal(&findings, &Layout { colour: true, ..Layout::default() });
    assert!(!plain.contains('\u{1b}'));
    let mut stripped = String::new();
    for (index, piece) in coloured.split('\u{1b}').enumerate() {
        stripped.push_str(if index == 0 { piece } else { piece.split_once('m').unwrap().1 });
    }
    assert_eq!(stripped, plain);
    assert!(coloured.contains("\u{1b}[32m✓"));
}

#[test]
fn a_device_cannot_command_the_terminal() {
    let (mut findings, _) = findings(Seed(4));
    findings.characteristics.device = "\u{1b}]0;owned\u{7}disk\r\n\u{202e}".to_owned();
    findings.warnings =
        vec![Warning { kind: "x".to_owned(), run: None, message: "\u{1b}[2J\u{9b}5m".to_owned() }];
    let text = terminal(&findings, &Layout::default());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(!text.contains('\u{202e}'));
}
