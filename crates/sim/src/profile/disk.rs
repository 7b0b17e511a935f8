//! The section of a profile that describes a hard disk.

use flashlab_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::bandwidth::Bandwidth;
use crate::illegal::Illegal;

/// `[disk]`: a hard disk (Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer, March 1994).
/// Without keys, a 7200 rpm disk of 2000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskSection {
    /// Revolutions a minute.
    pub rpm: u32,
    /// The number of surfaces, which is the number of tracks of a cylinder.
    pub heads: u32,
    /// The size of the outermost tracks.
    pub outer_track: Bytes,
    /// The size of the innermost tracks.
    pub inner_track: Bytes,
    /// The number of zones, each with the same number of cylinders. All tracks of a zone have the same size.
    pub zones: u32,
    /// The time to switch to another surface of the cylinder. The tracks are skewed, so that a sequential transfer loses
    /// only this time.
    pub head_switch: Nanos,
    /// The seek time of the arm.
    pub seek: Seek,
    /// The additional settle time before a write. The tracks are skewed for reads. So sequential writes lose a revolution
    /// at each cylinder, unless this is zero.
    pub write_settle: Nanos,
    /// The controller's time for each read.
    pub read_command: Nanos,
    /// The controller's time for each write.
    pub write_command: Nanos,
    /// The link to the host, for reads.
    pub read_bandwidth: Bandwidth,
    /// The link to the host, for writes.
    pub write_bandwidth: Bandwidth,
    /// The most requests in flight; they are served in the order of arrival.
    pub depth: u32,
    /// The read-ahead after a read, while the head has nothing else to do. Zero: none.
    pub read_ahead: Bytes,
    /// The capacity of the write cache. Zero: a write is complete when it is on the disk.
    pub write_cache: Bytes,
    /// The most extents in the write cache. The head writes the one first that it reaches first.
    pub write_extents: u32,
}

/// `[disk.seek]`: the time for d cylinders is `short_base + short_root sqrt(d)` below `boundary` cylinders and
/// `long_base + long_per_cylinder d` from there on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Seek {
    /// The part that does not depend on the distance, with settling.
    pub short_base: Nanos,
    /// Multiplied by the square root of the cylinders.
    pub short_root: Nanos,
    /// From this distance on the arm moves at its highest speed.
    pub boundary: u32,
    /// The part that does not depend on the distance.
    pub long_base: Nanos,
    /// For each cylinder.
    pub long_per_cylinder: Nanos,
}

impl Default for Seek {
    /// About 1 ms to the next track, 8.5 ms on average and 17 ms over all 20,000 cylinders.
    fn default() -> Seek {
        Seek {
            short_base: Nanos::from_micros(900),
            short_root: Nanos::from_micros(90),
            boundary: 4000,
            long_base: Nanos::from_micros(4600),
            long_per_cylinder: Nanos(620),
        }
    }
}

impl Seek {
    /// How long the arm takes for a distance.
    pub fn time(&self, cylinders: u64) -> Nanos {
        if cylinders == 0 {
            Nanos::ZERO
        } else if cylinders < u64::from(self.boundary) {
            self.short_base + Nanos((self.short_root.0 as f64 * (cylinders as f64).sqrt()) as u64)
        } else {
            self.long_base + Nanos(self.long_per_cylinder.0.saturating_mul(cylinders))
        }
    }
}

impl Default for DiskSection {
    fn default() -> DiskSection {
        DiskSection {
            rpm: 7200,
            heads: 4,
            outer_track: Bytes::kib(320),
            inner_track: Bytes::kib(160),
            zones: 16,
            head_switch: Nanos::from_micros(1000),
            seek: Seek::default(),
            write_settle: Nanos::from_micros(500),
            read_command: Nanos::from_micros(80),
            write_command: Nanos::from_micros(80),
            read_bandwidth: Bandwidth(Bytes(100_000_000)),
            write_bandwidth: Bandwidth(Bytes(100_000_000)),
            depth: 32,
            read_ahead: Bytes::kib(512),
            write_cache: Bytes::mib(2),
            write_extents: 1,
        }
    }
}

impl DiskSection {
    pub(super) fn check(&self, capacity: Bytes, block: Bytes) -> Result<(), Illegal> {
        let count = |key: &str, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(Illegal::new(format!("disk.{key}"), value, format!("1 to {most}")))
        };
        count("rpm", self.rpm, 1_000_000)?;
        count("heads", self.heads, 256)?;
        count("zones", self.zones, 1024)?;
        count("depth", self.depth, 1 << 16)?;
        count("write_extents", self.write_extents, 1024)?;
        for (key, track) in [("outer_track", self.outer_track), ("inner_track", self.inner_track)] {
            if track < block || track.0 > 1 << 30 {
                return Err(Illegal::new(format!("disk.{key}"), track, "from one `block` to 1 GiB"));
            }
        }
        if self.inner_track > self.outer_track {
            return Err(Illegal::new("disk.inner_track", self.inner_track, "at most `disk.outer_track`"));
        }
        let second = Nanos::from_secs(1);
        for (key, time) in [
            ("head_switch", self.head_switch),
            ("write_settle", self.write_settle),
            ("read_command", self.read_command),
            ("write_command", self.write_command),
            ("seek.short_base", self.seek.short_base),
            ("seek.short_root", self.seek.short_root),
            ("seek.long_base", self.seek.long_base),
            ("seek.long_per_cylinder", self.seek.long_per_cylinder),
        ] {
            if time > second {
                return Err(Illegal::new(format!("disk.{key}"), time, "0 to 1s"));
            }
        }
        let cylinder = self.inner_track.0.saturating_mul(u64::from(self.heads));
        if capacity.0 / cylinder < u64::from(self.zones) {
            return Err(Illegal::new("disk.zones", self.zones, "at most one for each cylinder"));
        }
        if capacity.0 / cylinder > 1 << 24 {
            return Err(Illegal::new(
                "disk.outer_track",
                self.outer_track,
                "more: there are too many tracks",
            ));
        }
        Ok(())
    }
}
