//! What a probe is: its name, what it answers, and its share of the write budget. This file knows no probe.

use flashlab_analysis::inference::Parameter;

/// A probe answers a few parameters, which one signal shows.
pub struct Probe {
    /// As in the names of its plan and its lines: `large-reads`.
    pub name: &'static str,
    /// What it looks for and by which signal, in a sentence.
    pub about: &'static str,
    /// What it answers.
    pub parameters: &'static [Parameter],
    /// Parameters that a later probe answers, but of which this one makes a provisional finding, even if only that it is
    /// undetermined. It may make more.
    pub hands_in: &'static [Parameter],
    /// The share of the write budget that it may use, in addition to what the probes before it leave; 0: it only reads.
    pub write_share: f64,
}

impl Probe {
    /// The label of its random numbers. Three probes were renamed; each keeps the random numbers with which the figures of
    /// docs/infer-score.md were measured.
    pub(crate) fn seed_label(&self) -> &'static str {
        match self.name {
            "over-provisioning" => "spare-space",
            "read-cache" => "rereads",
            "buffered-writes" => "absorbed-writes",
            name => name,
        }
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.write_share > 0.0
    }
}
