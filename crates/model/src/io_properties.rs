//! Seastar's io_properties.yaml: what the IO scheduler of ScyllaDB takes a disk for.
//!
//! The file has four figures of a disk: the requests a second that it saturates at, and the bytes a second, of reads
//! and of writes. The scheduler adds the shares of both kinds, so that they are the ends of a mixed frontier without
//! interference.

use std::fmt;

use crate::ModelError;

/// The figures of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoProperties {
    /// Reads a second.
    pub read_iops: u64,
    /// Bytes read a second.
    pub read_bandwidth: u64,
    /// Writes a second.
    pub write_iops: u64,
    /// Bytes written a second.
    pub write_bandwidth: u64,
}

const KEYS: [&str; 4] = ["read_iops", "read_bandwidth", "write_iops", "write_bandwidth"];

impl IoProperties {
    /// The file for the disk that is mounted here.
    pub fn file(&self, mountpoint: &str) -> String {
        let values: String = self.to_string().lines().map(|line| format!("    {line}\n")).collect();
        format!("disks:\n  - mountpoint: {mountpoint}\n{values}")
    }

    /// Reads the four figures of a file's text, or of one entry of it.
    ///
    /// # Errors
    /// The figure that is missing.
    pub fn parse(text: &str) -> Result<IoProperties, ModelError> {
        let value = |key: &str| {
            let mut lines = text.lines().map(|line| line.trim().trim_start_matches("- "));
            let found = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            let number = found.and_then(|value| value.trim().parse::<u64>().ok());
            number.ok_or_else(|| ModelError::Input(format!("there is no whole number for {key}")))
        };
        let [read_iops, read_bandwidth, write_iops, write_bandwidth] = KEYS.map(value);
        Ok(IoProperties {
            read_iops: read_iops?,
            read_bandwidth: read_bandwidth?,
            write_iops: write_iops?,
            write_bandwidth: write_bandwidth?,
        })
    }
}

/// The four lines, without indentation.
impl fmt::Display for IoProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = [self.read_iops, self.read_bandwidth, self.write_iops, self.write_bandwidth];
        KEYS.iter().zip(values).try_for_each(|(key, value)| writeln!(f, "{key}: {value}"))
    }
}
