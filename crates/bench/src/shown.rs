//! Which regime a run of writes shows, from its response times alone.
//!
//! # Model
//! Plans that are run as they are written have no baselines, no lead-ins and no controls. But each run begins after a pause, so that what a
//! device buffers shows at its begin: [stages](pattern_stages) before what lasts.
//!
//! # Method
//! 1. If a run has stages, and what follows has settled, it shows both regimes: its begin is a burst, and the rest is sustained.
//! 2. If it has none, has settled, and is at least [`LOOKED_FOR`] long, it shows one rate.
//! 3. Otherwise its regime is unknown, with the reason and with what would settle it. So it is if another run shows that the device buffers
//!    more than half of what this one wrote.
//!
//! # Invariant
//! No figure is of both regimes, unless its regime is unknown.

use flashlab_analysis::findings::{Regime, Warning};
use flashlab_analysis::pattern_stages;
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Experiment, Time};

use crate::settings::Settings;

/// The bytes within which a run looks for a buffer: those that a full baseline has at least (16,384 IOs of 32 KiB). The largest write buffer of
/// the zoo has 64 MiB; with less, its drives would seem to write at the speed of their link. An SLC cache may be larger.
pub(crate) const LOOKED_FOR: Bytes = Bytes::mib(512);

/// A write of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenWrite {
    /// The position in its process.
    pub position: u64,
    /// Its response time.
    pub response_ns: u64,
    /// Its size.
    pub size: Bytes,
}

/// What a run shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    /// The regimes in it.
    pub regimes: ShownRegimes,
    /// The bytes that the run wrote.
    pub written: Bytes,
    /// The size of its writes.
    pub write_size: Bytes,
    /// One clause with the figures that decided.
    pub evidence: String,
}

/// The regimes that a run shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ShownRegimes {
    /// One rate from begin to end.
    One,
    /// A burst up to this position, and then what lasts.
    Two {
        /// The position in each process from which on writes are sustained.
        burst_end: u64,
        /// The bytes of the burst.
        buffered: Bytes,
    },
    /// It does not show which.
    Unknown {
        /// The bytes that the run should write.
        wanted: Bytes,
    },
}

/// Whether the regimes of an experiment's writes can be told: those of a pattern with pauses or a rate of its own depend on both.
pub(crate) fn shows_regimes(experiment: &Experiment, settings: &Settings) -> bool {
    let is_consecutive = experiment.runs(settings.choice()).all(|(_, pattern)| {
        let mut basics = pattern.basics();
        basics.all(|basic| basic.time == Time::Consecutive)
    });
    !settings.methodology && !settings.one_regime && is_consecutive
}

/// What a run with these writes shows, in the order of their submission. `None` if it has none.
pub(crate) fn shown(writes: &[SeenWrite]) -> Option<Shown> {
    let written: u64 = writes.iter().map(|write| write.size.0).sum();
    let each = written.checked_div(writes.len() as u64)?.max(1);
    let responses: Vec<u64> = writes.iter().map(|write| write.response_ns).collect();
    let found = pattern_stages("", &responses, each);
    let burst = (found.volatile_bytes / each) as usize;
    let (all, written) = (Bytes(found.volatile_bytes), Bytes(written));
    let mean = |ns: f64| Nanos(ns.round() as u64);
    let unknown = |wanted: Bytes, evidence: String| (ShownRegimes::Unknown { wanted }, evidence);
    let (regimes, evidence) = match (found.stages.as_slice(), found.sustained_ns_mean) {
        ([], Some(ns)) if found.is_settled && written >= LOOKED_FOR => (
            ShownRegimes::One,
            format!("one rate, {} each, over {written}: a larger buffer would not show", mean(ns)),
        ),
        ([], Some(ns)) => unknown(
            LOOKED_FOR.max(written * 2),
            format!("{} each over {written} only: a larger buffer would not show", mean(ns)),
        ),
        ([], None) => {
            unknown(LOOKED_FOR.max(written * 4), format!("the rate did not settle within {written}"))
        }
        ([.., _], Some(ns)) if found.is_settled => {
            let took: u64 = responses[..burst].iter().sum();
            (
                ShownRegimes::Two { burst_end: writes[burst].position, buffered: all },
                format!(
                    "{all} in {} each, then {} each, which lasts",
                    mean(took as f64 / burst as f64),
                    mean(ns)
                ),
            )
        }
        ([first, ..], _) => unknown(
            LOOKED_FOR.max(written * 4),
            format!(
                "{} in {} each, and what lasts after that did not settle within {written}",
                Bytes(first.bytes),
                mean(first.response_ns_mean)
            ),
        ),
    };
    Some(Shown { regimes, written, write_size: writes[0].size, evidence })
}

/// Withdraws that a run showed one rate, if another one shows that the device buffers as much as half of what it wrote.
pub(crate) fn with_each_other<'a>(all: impl Iterator<Item = &'a mut Shown>) {
    let mut all: Vec<&mut Shown> = all.collect();
    let buffered = all.iter().filter_map(|shown| match shown.regimes {
        ShownRegimes::Two { buffered, .. } => Some(buffered),
        ShownRegimes::One | ShownRegimes::Unknown { .. } => None,
    });
    let Some(largest) = buffered.max() else { return };
    let is_short = |shown: &Shown| shown.regimes == ShownRegimes::One && shown.written < largest * 2;
    for shown in all.iter_mut().filter(|shown| is_short(shown)) {
        shown.regimes = ShownRegimes::Unknown { wanted: largest * 4 };
        shown.evidence = format!("{}, and another run was buffered for {largest}", shown.evidence);
    }
}

/// Warns of experiments of which a run does not show the regime.
pub(crate) fn warning(undecided: &[(String, Shown)]) -> Option<Warning> {
    let (name, Shown { regimes, write_size, evidence, .. }) = undecided.first()?;
    let ShownRegimes::Unknown { wanted } = regimes else { return None };
    let more = match undecided.len() - 1 {
        0 => String::new(),
        others => format!(" ({others} more likewise)"),
    };
    Some(Warning {
        kind: "regime_unknown".to_owned(),
        run: None,
        message: format!(
            "{name}: whether its writes are a burst or what lasts cannot be told{more}: {evidence}; an `io_count` of {} or more ({wanted}) \
             settles it",
            wanted.0.div_ceil(write_size.0.max(1))
        ),
    })
}

/// The parts of a run in regimes, as positions from `io_ignore` on.
pub(crate) fn parts(shown: Option<&Shown>, io_ignore: u64) -> Vec<(Option<Regime>, std::ops::Range<u64>)> {
    let all = io_ignore..u64::MAX;
    match shown.map(|shown| shown.regimes) {
        None | Some(ShownRegimes::One) => vec![(None, all)],
        Some(ShownRegimes::Unknown { .. }) => vec![(Some(Regime::Unknown), all)],
        Some(ShownRegimes::Two { burst_end, .. }) => {
            let lasting = (Some(Regime::Sustained), io_ignore.max(burst_end)..u64::MAX);
            let burst = (io_ignore < burst_end).then_some((Some(Regime::Burst), io_ignore..burst_end));
            std::iter::once(lasting).chain(burst).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes of 32 KiB with these response times, each of them the third IO of a mix.
    fn writes(responses: impl Iterator<Item = u64>) -> Vec<SeenWrite> {
        let write =
            |(position, response_ns)| SeenWrite { position: 3 * position, response_ns, size: Bytes::kib(32) };
        (0u64..).zip(responses).map(write).collect()
    }

    /// A write buffer that takes `buffered` writes in 10 us each. After that most are as fast, and every eighth waits.
    fn behind_a_buffer(buffered: u64, all: u64) -> Vec<SeenWrite> {
        writes((0..all).map(move |io| if io >= buffered && io % 8 == 0 { 800_000 } else { 10_000 }))
    }

    #[test]
    fn a_run_beyond_the_buffer_shows_a_burst_and_what_lasts() {
        let found = shown(&behind_a_buffer(512, 16_384)).unwrap();
        let ShownRegimes::Two { burst_end, .. } = found.regimes else { panic!("{found:?}") };
        assert!((3 * 505..3 * 525).contains(&burst_end), "{burst_end}");
        assert!(found.evidence.contains("which lasts"), "{}", found.evidence);
        let shown_parts = parts(Some(&found), 100);
        assert_eq!(shown_parts[0], (Some(Regime::Sustained), burst_end..u64::MAX));
        assert_eq!(shown_parts[1], (Some(Regime::Burst), 100..burst_end));
        // What the plan ignores is in no figure.
        assert_eq!(parts(Some(&found), 9000), [(Some(Regime::Sustained), 9000..u64::MAX)]);
    }

    #[test]
    fn a_run_within_the_buffer_does_not_tell_and_says_what_would() {
        let found = shown(&behind_a_buffer(512, 256)).unwrap();
        assert_eq!(found.regimes, ShownRegimes::Unknown { wanted: LOOKED_FOR });
        let text = warning(&[("RW".to_owned(), found)]).unwrap().message;
        assert!(
            text.contains("10 us each over 8 MiB only") && text.contains("`io_count` of 16384 or more"),
            "{text}"
        );
    }

    #[test]
    fn one_rate_over_enough_bytes_is_one_regime() {
        let found = shown(&behind_a_buffer(0, 16_384)).unwrap();
        assert_eq!(found.regimes, ShownRegimes::One, "{}", found.evidence);
        assert_eq!(parts(Some(&found), 7), [(None, 7..u64::MAX)]);
    }

    #[test]
    fn one_rate_is_unknown_if_another_run_was_buffered_for_as_long() {
        let mut both =
            [behind_a_buffer(16_384, 131_072), behind_a_buffer(0, 16_384)].map(|run| shown(&run).unwrap());
        with_each_other(both.iter_mut());
        assert!(matches!(both[0].regimes, ShownRegimes::Two { .. }), "{}", both[0].evidence);
        assert!(matches!(both[1].regimes, ShownRegimes::Unknown { .. }), "{}", both[1].evidence);
        // A small buffer would have shown.
        let mut both =
            [behind_a_buffer(512, 16_384), behind_a_buffer(0, 16_384)].map(|run| shown(&run).unwrap());
        with_each_other(both.iter_mut());
        assert_eq!(both[1].regimes, ShownRegimes::One);
    }

    #[test]
    fn what_does_not_settle_is_unknown() {
        let slower = |io: u64| if io < 512 { 10_000 } else { 1000 * io };
        let found = shown(&writes((0..16_384).map(slower))).unwrap();
        assert!(
            matches!(found.regimes, ShownRegimes::Unknown { wanted } if wanted > LOOKED_FOR),
            "{found:?}"
        );
        assert_eq!(shown(&[]), None);
    }
}
