//! Seastar's io_properties.yaml: what the IO scheduler of ScyllaDB takes a disk for.
//!
//! The file has four figures of a disk: the requests a second that it saturates at, and the bytes a second, of reads
//! and of writes. The scheduler adds the shares of both kinds, so that they are the ends of a mixed frontier without
//! interference.

use std::fmt;

use crate::ModelError;
use crate::escape::yaml_text;

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

/// The requests that the rates count: iotune's are of 4 KiB.
const BLOCK_BYTES: f64 = 4096.0;
/// A bandwidth this near to the rate times the block repeats it. Five published sets of Azure are 0.3 to 0.9 % away, the others
/// from 1.1 % on (scylla-machine-image, azure_io_params.yaml at f25b2c5).
const REPEATS_WITHIN: f64 = 0.01;

const KEYS: [&str; 4] = ["read_iops", "read_bandwidth", "write_iops", "write_bandwidth"];

impl IoProperties {
    /// The file for the disk that is mounted here.
    pub fn file(&self, mountpoint: &str) -> String {
        let values: String = self.to_string().lines().map(|line| format!("    {line}\n")).collect();
        format!("disks:\n  - mountpoint: {}\n{values}", yaml_text(mountpoint))
    }

    /// Why these figures are hardly measured: a bandwidth that is exactly the rate times 4 KiB repeats the rate. Requests of 4 KiB
    /// reach the bandwidth of large ones on no disk that has a cost for each request, so one of the two is not known.
    pub fn doubts(&self) -> Vec<String> {
        let pairs =
            [("read", self.read_iops, self.read_bandwidth), ("write", self.write_iops, self.write_bandwidth)];
        let repeats = |&(_, iops, bandwidth): &(&str, u64, u64)| {
            let block = bandwidth as f64 / iops as f64;
            (block / BLOCK_BYTES - 1.0).abs() <= REPEATS_WITHIN
        };
        let sentence = |(of, iops, bandwidth)| {
            format!(
                "{of}_bandwidth {bandwidth} is {of}_iops {iops} x 4 KiB: it only repeats the IOPS, and large requests were hardly \
                 measured"
            )
        };
        pairs.into_iter().filter(repeats).map(sentence).collect()
    }

    /// The sets of a file of several, with their names: io_properties.yaml has mount points, scylla-machine-image's files have
    /// instance types. Entries without all four figures are left out.
    pub fn parse_all(text: &str) -> Vec<(String, IoProperties)> {
        let mut sets = Vec::new();
        let (mut name, mut entry) = (String::new(), String::new());
        for line in text.lines().chain(["end:"]) {
            let mountpoint = line.trim().trim_start_matches("- ").strip_prefix("mountpoint:");
            let is_heading = !line.starts_with([' ', '#']) && line.ends_with(':');
            if is_heading || mountpoint.is_some() {
                sets.extend(IoProperties::parse(&entry).ok().map(|set| (name.clone(), set)));
                name = mountpoint.map_or(line.trim_end_matches(':'), str::trim).to_owned();
                entry.clear();
            }
            entry += line;
            entry.push('\n');
        }
        sets
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
