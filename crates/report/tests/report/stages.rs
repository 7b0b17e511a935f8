//! The sentences and the picture of the stages of writes.

use flashlab_analysis::findings::{BufferRecovery, Findings, PatternStages, WriteStage, WriteStages};
use flashlab_base::{Nanos, Seed};
use flashlab_report::{Layout, html, terminal};

use crate::synthetic::findings;

/// A write buffer of 64 MiB, and what lasts if it is known.
fn with_stages(sustained_ns_mean: Option<f64>) -> Findings {
    let random = PatternStages {
        pattern: "RW".to_owned(),
        stages: vec![WriteStage { bytes: 64 << 20, bytes_per_s: 3.39e9, response_ns_mean: 9670.0 }],
        volatile_bytes: 64 << 20,
        sustained_ns_mean,
        sustained_bytes_per_s: sustained_ns_mean.map(|ns| 32768e9 / ns),
        cycle_bytes: Some(256 << 20),
        window_bytes: 256 << 20,
        window_scatter: Some(0.1),
        is_settled: sustained_ns_mean.is_some(),
        confidence: 0.999,
        evidence: "what follows is known to 30 % (at most 20 %)".to_owned(),
        curve: (1..100).map(|i| (i << 20, if i <= 64 { 9670.0 } else { 35_600.0 })).collect(),
    };
    let recovery = vec![BufferRecovery {
        run: 1,
        idle: Nanos::from_millis(100),
        bytes: 64 << 20,
        response_ns_mean: Some(9670.0),
        ..BufferRecovery::default()
    }];
    let (mut found, _) = findings(Seed(1));
    found.stages = Some(WriteStages { patterns: vec![random], recovery });
    found
}

fn text(findings: &Findings) -> String {
    terminal(findings, &Layout::default()).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_first_sentence_says_what_a_burst_sees_and_what_lasts() {
    let found = with_stages(Some(35_600.0));
    let text = text(&found);
    let sentence = "This drive buffers 64 MiB at 3.39 GB/s; after that random writes of 32 KiB take 35.6 us. What lasts alternates \
                    with a cycle of 256 MiB: the figure is the mean of whole cycles. An idle time of 100 ms brings all of it back.";
    assert!(text.contains(sentence), "{text}");
    assert!(html(&found, &findings(Seed(1)).1).contains("Writes after an idle time"));
}

#[test]
fn what_did_not_settle_is_withheld_and_has_no_figure() {
    let found = with_stages(None);
    let text = text(&found);
    assert!(text.contains("how long random writes take after that is not known."), "{text}");
    assert!(
        text.contains("are withheld, because they did not settle: what follows is known to 30 %"),
        "{text}"
    );
    assert!(!text.contains("35.6 us"), "{text}");
}
