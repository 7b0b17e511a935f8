//! What is to be set: values with their reasons, and what is refused.

use std::fmt;
use std::str::FromStr;

use flashlab_base::Bytes;
use serde::Serialize;

use crate::ModelError;

/// Software that is tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneTarget {
    /// The kernel's io.cost controller.
    IoCost,
    /// ScyllaDB, or another program on Seastar.
    Scylla,
    /// PostgreSQL.
    Postgresql,
    /// RocksDB.
    Rocksdb,
    /// Ceph's mClock scheduler.
    Ceph,
    /// A job file of fio that repeats the measurement.
    Fio,
    /// A profile of flashlab's simulator.
    Sim,
}

impl TuneTarget {
    /// All of them with their names.
    pub const ALL: [(&'static str, TuneTarget); 7] = [
        ("io-cost", TuneTarget::IoCost),
        ("scylla", TuneTarget::Scylla),
        ("postgresql", TuneTarget::Postgresql),
        ("rocksdb", TuneTarget::Rocksdb),
        ("ceph", TuneTarget::Ceph),
        ("fio", TuneTarget::Fio),
        ("sim", TuneTarget::Sim),
    ];
}

impl fmt::Display for TuneTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = TuneTarget::ALL.iter().find(|(_, target)| target == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for TuneTarget {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<TuneTarget, ModelError> {
        let found = TuneTarget::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, target)| *target).ok_or_else(|| {
            let names: Vec<&str> = TuneTarget::ALL.iter().map(|(name, _)| *name).collect();
            ModelError::Input(format!("`{text}` is not tuned; there are: {}", names.join(", ")))
        })
    }
}

/// What the settings need beside the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TuneSurroundings {
    /// `MAJOR:MINOR` of the block device.
    pub device_number: Option<String>,
    /// Where the disk is mounted.
    pub mountpoint: Option<String>,
    /// The largest IO that the kernel passes on in one piece (max_sectors_kb).
    pub largest_request: Option<Bytes>,
    /// The kernel's read-ahead of the disk; that of the kernel's default if not given.
    pub read_ahead: Option<Bytes>,
    /// The share of a database's random reads that a cache answers, from 0 to 1; that of PostgreSQL's manual if not given.
    pub cached_share: Option<f64>,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunedValue {
    /// The setting's name.
    pub name: &'static str,
    /// Its value as it is written.
    pub value: String,
    /// Where the value lies with 95 % confidence, in its unit.
    pub interval: Option<[f64; 2]>,
    /// Why.
    pub reason: String,
    /// What it does.
    pub effect: String,
    /// The line that undoes it.
    pub undo: String,
}

/// A value that the data does not carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedValue {
    /// The setting's name.
    pub name: &'static str,
    /// Why there is no value.
    pub reason: String,
}

/// What is to be set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TuneReport {
    /// For what.
    #[serde(rename = "for")]
    pub target: TuneTarget,
    /// The name of the file that the text belongs in.
    pub file: &'static str,
    /// The file's text, in the exact syntax; empty where nothing could be set.
    pub text: String,
    /// Each value; none where nothing could be set.
    pub values: Vec<TunedValue>,
    /// What is not set.
    pub refused: Vec<RefusedValue>,
    /// What is doubtful in the published set that these figures were compared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

impl TuneReport {
    pub(super) fn new(target: TuneTarget, file: &'static str) -> TuneReport {
        TuneReport {
            target,
            file,
            text: String::new(),
            values: Vec::new(),
            refused: Vec::new(),
            doubts: Vec::new(),
        }
    }

    pub(super) fn refuse(&mut self, name: &'static str, reason: String) {
        self.refused.push(RefusedValue { name, reason });
    }
}
