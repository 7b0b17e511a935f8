//! Bugs that the crash harness has to find. They exist in tests and in builds with the feature `canary` only.

use std::fmt;
use std::str::FromStr;

/// A way of losing data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// A flush is acknowledged before the device has flushed.
    FlushDoesNothing,
    /// A packed segment is reused before the copies of its pages are durable.
    EarlyReuse,
    /// A mount keeps the epoch of the one before, so that records of the earlier life are replayed.
    EpochStays,
    /// An older version in a record that is written late wins over a newer one.
    CopyOverNewerWrite,
    /// The records of several logs are committed one by one.
    LogsCommitAlone,
    /// Recovery replays records whose pages are torn.
    TornRecordsCount,
    /// Discards are not recorded.
    ForgottenDiscard,
    /// The size of a file is recorded before the data that it covers is written.
    SizeBeforeData,
    /// Resizing names the new image of the map before it is durable.
    EarlyImage,
    /// Recovery takes a record that cannot be read for the end of the log.
    ReadErrorEndsLog,
    /// Recovery takes a segment without a record for the end of the log, although another log's records lie behind it.
    GapEndsLog,
    /// Recovery takes a checkpoint that is missing for the end of the chain, although something later shows that it was durable.
    MissingCheckpointEndsChain,
    /// Recovery does not look for records behind a damaged header.
    DamagedHeaderEndsLog,
}

impl SeededBug {
    /// All of them.
    pub const ALL: [SeededBug; 13] = [
        SeededBug::FlushDoesNothing,
        SeededBug::EarlyReuse,
        SeededBug::EpochStays,
        SeededBug::CopyOverNewerWrite,
        SeededBug::LogsCommitAlone,
        SeededBug::TornRecordsCount,
        SeededBug::ForgottenDiscard,
        SeededBug::SizeBeforeData,
        SeededBug::EarlyImage,
        SeededBug::ReadErrorEndsLog,
        SeededBug::GapEndsLog,
        SeededBug::MissingCheckpointEndsChain,
        SeededBug::DamagedHeaderEndsLog,
    ];

    /// Whether `bug` is this one; false in builds without bugs.
    #[inline]
    pub(crate) fn is(bug: Option<SeededBug>, this: SeededBug) -> bool {
        cfg!(any(test, feature = "canary")) && bug == Some(this)
    }
}

impl fmt::Display for SeededBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SeededBug::FlushDoesNothing => "flush-does-nothing",
            SeededBug::EarlyReuse => "early-reuse",
            SeededBug::EpochStays => "epoch-stays",
            SeededBug::CopyOverNewerWrite => "copy-over-newer-write",
            SeededBug::LogsCommitAlone => "logs-commit-alone",
            SeededBug::TornRecordsCount => "torn-records-count",
            SeededBug::ForgottenDiscard => "forgotten-discard",
            SeededBug::SizeBeforeData => "size-before-data",
            SeededBug::EarlyImage => "early-image",
            SeededBug::ReadErrorEndsLog => "read-error-ends-log",
            SeededBug::GapEndsLog => "gap-ends-log",
            SeededBug::MissingCheckpointEndsChain => "missing-checkpoint-ends-chain",
            SeededBug::DamagedHeaderEndsLog => "damaged-header-ends-log",
        })
    }
}

impl FromStr for SeededBug {
    type Err = String;

    fn from_str(text: &str) -> Result<SeededBug, String> {
        let found = SeededBug::ALL.into_iter().find(|bug| bug.to_string() == text);
        found.ok_or_else(|| {
            let names: Vec<String> = SeededBug::ALL.iter().map(ToString::to_string).collect();
            format!("there is no bug `{text}`; there are {}", names.join(", "))
        })
    }
}
