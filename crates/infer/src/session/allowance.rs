//! What a probe may do, what it did, and what makes its findings doubtful.

use flashlab_analysis::disturbance::{interference, starvation};
use flashlab_analysis::inference::Finding;
use flashlab_base::{Bytes, Nanos};
use flashlab_engine::RunOutcome;

use crate::caps;
use crate::halt::Halt;

/// One IO in this number may fail, besides the first one. Unit: IOs. Source: choice: medians bear 2 %. Too
/// high: a few bad blocks end a probe; too low: a failing device is measured.
const IOS_PER_FAILURE: u64 = 50;
/// The most failed IOs of one pattern. Unit: IOs. Source: choice. Too high: a failing device takes minutes;
/// too low: long patterns end at a few bad blocks.
const FAILURES_MAX: u64 = 300;

/// The limits of a probe, and the counts of what it did.
#[derive(Default)]
pub(crate) struct Allowance {
    /// The label of its random numbers.
    pub(crate) seed_label: &'static str,
    /// What it may still write.
    pub(crate) writes: Bytes,
    /// Until when it may submit IOs.
    pub(crate) deadline: Nanos,
    /// What was written since it concluded a parameter.
    pub(crate) written: Bytes,
    /// The IOs that it did.
    pub(crate) ios: u64,
    /// Of these, the ones that failed.
    pub(crate) failed: u64,
    /// What they moved, and what others moved on the disk meanwhile.
    pub(crate) moved: Bytes,
    pub(crate) moved_by_others: Bytes,
    /// How long they took, and how long of that the program waited for a CPU.
    pub(crate) took: Nanos,
    pub(crate) waited: Nanos,
    /// Whether it ran one of them to its end.
    pub(crate) has_run: bool,
    /// Why it could not do the first of those that it could not do, if for want of time or budget.
    pub(crate) short: Option<Halt>,
    /// The patterns that it ran: makes each run's seed its own.
    pub(crate) runs: u64,
    /// Whether the device was full of data when it began.
    pub(crate) on_data: bool,
    /// The idle times that it gave the device, and how long they were in all.
    pub(crate) idle_times: u64,
    pub(crate) idle: Nanos,
    /// Whether each of its writes is flushed.
    pub(crate) through: bool,
}

impl Allowance {
    /// How many of the next IOs may fail.
    pub(crate) fn failures(&self, ios: u64) -> u64 {
        (1 + (self.ios + ios) / IOS_PER_FAILURE).saturating_sub(self.failed).min(FAILURES_MAX)
    }

    /// Counts the IOs of a run.
    pub(crate) fn count(&mut self, outcome: &RunOutcome) {
        self.writes = Bytes(self.writes.0.saturating_sub(outcome.written.0));
        self.written += outcome.written;
        self.ios += outcome.ios;
        self.failed += outcome.failed;
    }

    /// Notes what other programs did on the disk and with the CPU. Flushed writes make a file system write its journal: with
    /// `own_journal` that is nobody else's.
    pub(crate) fn note_others(&mut self, outcome: &RunOutcome, own_journal: bool) {
        let own = outcome.read + outcome.written;
        let traffic = outcome.disturbance.device_traffic.unwrap_or_default();
        self.moved += own;
        if !own_journal {
            self.moved_by_others += Bytes(traffic.0.saturating_sub(own.0));
        }
        self.took += outcome.end.since(outcome.begin);
        self.waited += outcome.disturbance.cpu_wait.unwrap_or_default();
    }

    /// The finding, with a cap where IOs of the probe failed, or where other programs used the disk or the CPU meanwhile.
    pub(crate) fn doubt(&self, finding: Finding) -> Finding {
        self.with_disturbance(self.with_failures(finding))
    }

    /// The finding, with a cap where IOs of the probe failed.
    fn with_failures(&self, mut finding: Finding) -> Finding {
        let Allowance { ios, failed, .. } = *self;
        if failed > 0 {
            let reason = format!(" {failed} of {ios} IOs failed, which limits the confidence.");
            finding = caps::cap(finding, caps::WITH_FAILURES, &reason);
        }
        finding
    }

    /// The finding, with a cap where other programs used the disk or the CPU while the probe ran.
    fn with_disturbance(&self, mut finding: Finding) -> Finding {
        let Allowance { moved, moved_by_others, took, waited, .. } = *self;
        let interfered = interference(moved_by_others, moved).map(|_| {
            format!(
                " Meanwhile other programs moved {moved_by_others} on the disk, and these probes {moved}."
            )
        });
        let starved =
            starvation(waited, took).map(|_| format!(" The program waited {waited} of {took} for a CPU."));
        for disturbed in [interfered, starved].into_iter().flatten() {
            finding = caps::cap(finding, caps::DISTURBED, &disturbed);
        }
        finding
    }
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::inference::Parameter;

    use super::*;

    #[test]
    fn what_others_do_meanwhile_caps_the_confidence() {
        let doubted = |allowance: Allowance| {
            allowance.doubt(Finding::found(Parameter::ReadPageSize, 4096, 0.98, "Seen.".to_owned()))
        };
        let quiet =
            || Allowance { moved: Bytes::mib(100), took: Nanos::from_secs(10), ..Allowance::default() };
        let little = Allowance { moved_by_others: Bytes::mib(4), waited: Nanos::from_micros(9), ..quiet() };
        assert_eq!(doubted(little).confidence, 0.98);
        let beside = doubted(Allowance { moved_by_others: Bytes::mib(30), ..quiet() });
        assert_eq!(
            (beside.confidence, beside.evidence.as_str()),
            (0.8, "Seen. Meanwhile other programs moved 30 MiB on the disk, and these probes 100 MiB.")
        );
        let starved = doubted(Allowance { waited: Nanos::from_secs(1), ..quiet() });
        assert_eq!(
            (starved.confidence, starved.evidence.as_str()),
            (0.8, "Seen. The program waited 1 s of 10 s for a CPU.")
        );
    }
}
