//! Measures what else the machine did during a measurement, from the kernel's counters.
//!
//! # Model
//! Each handle of a device has a meter. Its first reading is the zero of the later ones. The files stay open,
//! so that a reading is a few calls of `pread`. The file with the thread's CPU wait is opened again when
//! another thread reads, and then counts from zero.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::DisturbanceCounters;

use crate::block_device::{BlockDevice, bytes_moved};
use crate::system::thread_token;

/// A counter of the kernel, and its first value.
struct Counter {
    file: File,
    parse: fn(&str) -> Option<u64>,
    first: u64,
}

impl Counter {
    fn open(path: &Path, parse: fn(&str) -> Option<u64>) -> Option<Counter> {
        let mut counter = Counter { file: File::open(path).ok()?, parse, first: 0 };
        counter.first = counter.read()?;
        Some(counter)
    }

    fn read(&self) -> Option<u64> {
        let mut text = [0; 512];
        let length = self.file.read_at(&mut text, 0).ok()?;
        (self.parse)(std::str::from_utf8(&text[..length]).ok()?)
    }

    fn since_first(&self) -> Option<u64> {
        Some(self.read()?.saturating_sub(self.first))
    }
}

/// The counters of one handle of a device.
struct Counters {
    traffic: Option<Counter>,
    throttles: Vec<Counter>,
    thread: usize,
    cpu_wait: Option<Counter>,
}

/// Reads the counters that belong to one handle of a device.
pub(crate) struct DisturbanceMeter {
    disk: Option<BlockDevice>,
    counters: Option<Counters>,
}

impl DisturbanceMeter {
    /// A meter that has not been read yet. `disk` is the whole underlying disk, if there is one.
    pub(crate) fn new(disk: Option<BlockDevice>) -> DisturbanceMeter {
        DisturbanceMeter { disk, counters: None }
    }

    /// What happened since the first reading.
    pub(crate) fn read(&mut self) -> DisturbanceCounters {
        let disk = &self.disk;
        let counters = self.counters.get_or_insert_with(|| Counters::open(disk.as_ref()));
        if counters.thread != thread_token() {
            counters.thread = thread_token();
            counters.cpu_wait = open_cpu_wait();
        }
        let sum = |counters: &[Counter]| counters.iter().map(Counter::since_first).sum::<Option<u64>>();
        DisturbanceCounters {
            device_traffic: counters.traffic.as_ref().and_then(Counter::since_first).map(Bytes),
            cpu_wait: counters.cpu_wait.as_ref().and_then(Counter::since_first).map(Nanos),
            thermal_throttles: if counters.throttles.is_empty() { None } else { sum(&counters.throttles) },
        }
    }
}

impl Counters {
    fn open(disk: Option<&BlockDevice>) -> Counters {
        let traffic = |text: &str| bytes_moved(text).map(|bytes| bytes.0);
        Counters {
            traffic: disk.and_then(|disk| Counter::open(&disk.statistics_file(), traffic)),
            throttles: open_throttles(),
            thread: thread_token(),
            cpu_wait: open_cpu_wait(),
        }
    }
}

/// How long this thread was ready but did not run: the second number (sched-stats.rst).
fn open_cpu_wait() -> Option<Counter> {
    Counter::open(Path::new("/proc/thread-self/schedstat"), |text| {
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    })
}

/// The counters of thermal events of each CPU and package, if the CPU has them.
fn open_throttles() -> Vec<Counter> {
    let mut counters = Vec::new();
    for processor in fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten() {
        for entry in fs::read_dir(processor.path().join("thermal_throttle")).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().ends_with("_throttle_count") {
                counters.extend(Counter::open(&entry.path(), |text| text.trim().parse().ok()));
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_reading_is_zero_and_later_ones_count_on() {
        let mut meter = DisturbanceMeter::new(BlockDevice::disks().into_iter().next());
        let first = meter.read();
        assert!(first.cpu_wait.is_some_and(|wait| wait < Nanos::from_secs(1)));
        let second = meter.read();
        assert!(second.device_traffic >= first.device_traffic);
        assert!(second.cpu_wait >= first.cpu_wait);
    }

    #[test]
    fn another_thread_counts_its_own_waiting() {
        let mut meter = DisturbanceMeter::new(None);
        assert_eq!(meter.read().device_traffic, None);
        let mut meter = std::thread::spawn(move || (meter.read(), meter).1).join().unwrap();
        assert!(meter.read().cpu_wait.is_some());
    }
}
