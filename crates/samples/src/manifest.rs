//! The manifest of a folder: what the folder is, who made it and how, and whether it is finished.
//!
//! # Invariants
//! - A folder begins with a manifest that is not finished. It is noted as finished when all its work is done, and never before.
//! - The manifest of a finished folder has the number of lines and the checksums of the two lists: lost lines are noticed, and files of
//!   another folder, which are listed in another list.

use std::path::Path;

use flashlab_base::Identity;
use serde::{Deserialize, Serialize};

/// The version of the folder's format.
pub(crate) const MANIFEST_VERSION: u32 = 2;

/// What a folder is, by the verb that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderKind {
    /// A run of `bench` or `run`.
    Bench,
    /// The measurement of `model fit`.
    ModelFit,
    /// The measurement of `model check`.
    ModelCheck,
    /// An inference of `infer`.
    Inference,
    /// A recording of `sim run`, `replay`, `serve` or `em run`.
    Recording,
    /// The runs of `sweep`.
    Sweep,
    /// The rounds of `wear-out`.
    WearOut,
}

impl FolderKind {
    /// Every kind.
    pub const ALL: &[FolderKind] = &[
        FolderKind::Bench,
        FolderKind::ModelFit,
        FolderKind::ModelCheck,
        FolderKind::Inference,
        FolderKind::Recording,
        FolderKind::Sweep,
        FolderKind::WearOut,
    ];
    /// The kinds that have runs of the benchmark: their records are in `runs.jsonl`.
    pub const BENCHMARKS: &[FolderKind] = &[FolderKind::Bench, FolderKind::ModelFit, FolderKind::ModelCheck];

    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            FolderKind::Bench => "a run of flashlab bench or run",
            FolderKind::ModelFit => "a measurement of flashlab model fit",
            FolderKind::ModelCheck => "a measurement of flashlab model check",
            FolderKind::Inference => "an inference",
            FolderKind::Recording => "a recording",
            FolderKind::Sweep => "a sweep",
            FolderKind::WearOut => "a folder of flashlab wear-out",
        }
    }
}

/// What the folder says about the run as a whole. `Settings` is what the user chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest<Settings> {
    /// The version of the format.
    pub version: u32,
    /// What the folder is.
    pub kind: FolderKind,
    /// The program's version.
    pub flashlab: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it started, RFC 3339, UTC.
    pub started: String,
    /// What was measured, and on which machine.
    pub identity: Identity,
    /// How the user consented to writing.
    pub consent: String,
    /// What a person chose.
    pub settings: Settings,
    /// The plans that were run, as TOML.
    pub plans: Vec<String>,
    /// Bytes that were written to prepare the target, for example to fill a scratch file.
    pub prepared_bytes: u64,
    /// Warnings from before the first run: kind and message.
    pub warnings: Vec<(String, String)>,
    /// The time that measuring and recording add to each IO, without the IO and two readings of the clock.
    pub overhead_ns_per_io: Option<f64>,
    /// One reading of the clock.
    pub clock_ns_per_reading: Option<f64>,
    /// Noted when all work is done; null until then.
    pub finished: Option<Finished>,
}

/// What a finished folder has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// The number of lines in `runs.jsonl`.
    pub run_lines: u64,
    /// The number of lines in `files.jsonl`.
    pub file_lines: u64,
    /// The CRC-32 of `runs.jsonl`, in hexadecimal digits.
    pub runs_crc32: String,
    /// The CRC-32 of `files.jsonl`, in hexadecimal digits.
    pub files_crc32: String,
}

impl<Settings> Manifest<Settings> {
    /// The manifest of a folder that begins, without a command, a time, plans and warnings.
    pub fn new(
        kind: FolderKind,
        settings: Settings,
        identity: Identity,
        consent: impl Into<String>,
    ) -> Manifest<Settings> {
        Manifest {
            version: MANIFEST_VERSION,
            kind,
            flashlab: env!("CARGO_PKG_VERSION").to_owned(),
            command: Vec::new(),
            started: "1970-01-01T00:00:00Z".to_owned(),
            identity,
            consent: consent.into(),
            settings,
            plans: Vec::new(),
            prepared_bytes: 0,
            warnings: Vec::new(),
            overhead_ns_per_io: None,
            clock_ns_per_reading: None,
            finished: None,
        }
    }

    /// What a folder that is not finished lacks, and what can be done; `None` for a finished one.
    pub fn unfinished(&self, folder: &Path) -> Option<String> {
        if self.finished.is_some() {
            return None;
        }
        let command = self.command.join(" ");
        let again = match self.kind {
            _ if self.can_be_resumed() => {
                format!("continue with: flashlab resume {}", folder.display())
            }
            FolderKind::Sweep => {
                format!("run its command again with --output {} to continue: {command}", folder.display())
            }
            _ => format!("run its command again with another --output: {command}"),
        };
        Some(format!("not all of its work is done: {again}"))
    }

    /// Whether `flashlab resume` continues it. A replay has no device, and the rounds of `wear-out` are one measurement: the device
    /// between two of them is gone.
    pub fn can_be_resumed(&self) -> bool {
        let is_replay = self.command.iter().any(|word| word == "--replay" || word.starts_with("--replay="));
        match self.kind {
            FolderKind::Bench => true,
            FolderKind::Inference => !is_replay && self.command.get(1).is_some_and(|verb| verb != "wear-out"),
            _ => false,
        }
    }
}
