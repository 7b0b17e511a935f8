//! What the way between a program and the server costs, so that it can be subtracted.
//!
//! # Model
//! At start, before anybody is told of the disk, a program of the server's own reads and writes through the transport,
//! while every IO of it is made to take one and the same time, and takes that time off what it sees. It is another
//! process: a server that waits for itself in the kernel cannot be killed.
//!
//! # Invariants
//! - measuring changes no data: a write that carries [`MARK`] is answered and forgotten, and every other is kept.

use std::io;
use std::path::Path;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Arena, Device, Operation, Request};
use flashlab_host::{
    Consent, HostError, OpenOptions, consent_by_flag, consent_to_overwrite_file, inspect, open,
};
use serde::{Deserialize, Serialize};

use crate::live::LiveDisk;

/// What is lost between the moment at which a program asks and the one at which the server sees it, and between the
/// server's answer and its arrival, for reads and for writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overhead {
    /// Of reads.
    pub read: Line,
    /// Of everything else.
    pub write: Line,
}

/// A time that grows with the size: straight between measured points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    points: [(Bytes, Nanos); SIZES.len()],
}

/// The sizes that are measured; the largest is what Linux makes of larger IOs.
const SIZES: [Bytes; 5] = [Bytes::kib(4), Bytes::kib(32), Bytes::kib(128), Bytes::kib(512), Bytes::mib(1)];

impl Overhead {
    /// What is lost of an IO.
    pub fn of(&self, operation: Operation, size: Bytes) -> Nanos {
        if operation == Operation::Read { self.read.of(size) } else { self.write.of(size) }
    }
}

impl Line {
    /// The line through measured points, with sizes that do not fall. Neither does the time: what does is noise.
    pub fn through(mut points: [(Bytes, Nanos); SIZES.len()]) -> Line {
        let mut least = Nanos::ZERO;
        for (_, time) in &mut points {
            least = least.max(*time);
            *time = least;
        }
        Line { points }
    }

    /// The time for a size. What is smaller than the smallest costs the same, and beyond the largest it goes on as it
    /// rose last.
    pub fn of(&self, size: Bytes) -> Nanos {
        let (least, time) = self.points[0];
        if size <= least {
            return time;
        }
        let pairs = || self.points.windows(2).filter(|pair| pair[0].0 < pair[1].0);
        let Some(pair) = pairs().find(|pair| size <= pair[1].0).or(pairs().next_back()) else { return time };
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let slope = (high.0 - low.0) as f64 / (to.0 - from.0) as f64;
        low + Nanos((slope * (size.0 - from.0) as f64) as u64)
    }
}

/// How long an IO is made to take meanwhile: long enough for the thread that waits to sleep, as it will.
pub(crate) const RESPONSE: Nanos = Nanos(300_000);
/// How often each size is tried.
const TRIES: u64 = 120;
/// What each sector begins with of a write that measures the way: the kernel may split it anywhere between them.
pub(crate) const MARK: &[u8] = b"a write of flashlab, which measures the way and keeps nothing";

/// Makes it the data of a write that measures the way.
pub(crate) fn mark(data: &mut [u8]) {
    const SECTOR: usize = 512;
    data.chunks_exact_mut(SECTOR).for_each(|sector| sector[..MARK.len()].copy_from_slice(MARK));
}

/// What is lost on the way to the disk and back, while [`use_disk`] runs in another process: `found` starts that and
/// hands over what it found.
///
/// # Errors
/// Those of `found`.
pub fn measure<E>(disk: &LiveDisk, found: impl FnOnce() -> Result<Overhead, E>) -> Result<Overhead, E> {
    // To open it is to read from it: no fault may strike that, and nobody counts it.
    disk.measure(Some(RESPONSE));
    let measured = found();
    disk.measure(None);
    measured
}

/// What IOs on the disk at `path` lose, while its server is in [`measure`]. Where the guards refuse to write, because of
/// what is on the disk, writes are taken to cost what reads do.
///
/// # Errors
/// When the path cannot be read.
pub fn use_disk(path: &Path) -> Result<Overhead, HostError> {
    let writing = consent(path)
        .and_then(|consent| open(path, &OpenOptions { write: Some(consent), ..OpenOptions::default() }).ok());
    let writes = writing.is_some();
    let mut device = match writing {
        Some(device) => device,
        None => open(path, &OpenOptions::default())?,
    };
    let read = device_line(&mut *device, Operation::Read, path)?;
    let write = if writes { device_line(&mut *device, Operation::Write, path)? } else { read };
    Ok(Overhead { read, write })
}

fn consent(path: &Path) -> Option<Consent> {
    let inspection = inspect(path).ok()?;
    consent_by_flag(&inspection, path).or_else(|_| consent_to_overwrite_file(&inspection)).ok()
}

fn device_line(device: &mut dyn Device, operation: Operation, path: &Path) -> Result<Line, HostError> {
    let geometry = device.geometry();
    let largest = SIZES[SIZES.len() - 1].min(geometry.capacity);
    let mut spare = Arena::buffers(1, largest);
    line(geometry.capacity, geometry.block, |offset, size| {
        let mut buffer = spare.pop().expect("it comes back with every completion");
        if operation == Operation::Write {
            mark(&mut buffer[..size.0 as usize]);
        }
        device.submit(Request { tag: 0, operation, offset, size, buffer });
        let done = device.wait(Nanos::MAX).expect("every request is answered");
        spare.push(done.buffer);
        match done.result {
            Ok(()) => Ok(done.completed.since(done.submitted)),
            Err(error) => {
                let source = io::Error::from_raw_os_error(error.errno);
                Err(HostError::System { attempt: "measure", path: path.to_owned(), source })
            }
        }
    })
}

/// The line through the median times lost of IOs of each size; `serve` makes one and tells its response time.
pub(crate) fn line<E>(
    capacity: Bytes,
    block: Bytes,
    mut serve: impl FnMut(Bytes, Bytes) -> Result<Nanos, E>,
) -> Result<Line, E> {
    let largest = capacity.round_down(block);
    let mut points = [(Bytes::ZERO, Nanos::ZERO); SIZES.len()];
    for (point, size) in points.iter_mut().zip(SIZES) {
        let size = size.max(block).min(largest);
        let places = capacity.0 / size.0;
        let mut lost = Vec::new();
        for number in 0..TRIES {
            let response = serve(Bytes(number * 7919 % places * size.0), size)?;
            lost.push(response.0.saturating_sub(RESPONSE.0));
        }
        lost.sort_unstable();
        *point = (size, Nanos(lost[lost.len() / 2]));
    }
    Ok(Line::through(points))
}

#[cfg(test)]
mod tests {
    use flashlab_device::MemoryDevice;

    use super::*;
    use crate::live::Io;
    use crate::model::Data;
    use crate::store::Store;

    #[test]
    fn while_the_way_is_measured_only_writes_that_measure_it_are_forgotten() {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "emmc").unwrap();
        let profile = profile.resized(Bytes::mib(256)).unwrap();
        let store = Store::memory(profile.capacity, Bytes::mib(1)).unwrap();
        let disks = [
            LiveDisk::new(Box::new(profile.device().unwrap()), Some(store)),
            LiveDisk::new(Box::new(MemoryDevice::new(Bytes::mib(1), Nanos(1))), None),
        ];
        for disk in disks {
            let serve = |operation, offset, data: Data<'_>| {
                disk.begin(Nanos::ZERO, Io { operation, offset, size: Bytes(512), durable: false, data })
            };
            let (mut marked, mut read) = ([0; 1024], [1; 512]);
            mark(&mut marked);
            disk.measure(Some(RESPONSE));
            // The kernel may have split it.
            for piece in marked.chunks(512) {
                let measuring = serve(Operation::Write, Bytes(0), Data::Write(piece));
                assert_eq!((measuring.result, measuring.due), (Ok(()), RESPONSE));
            }
            assert_eq!(serve(Operation::Write, Bytes(4096), Data::Write(&[7; 512])).result, Ok(()));
            disk.measure(None);
            assert_eq!(serve(Operation::Read, Bytes(0), Data::Read(&mut read)).result, Ok(()));
            assert_eq!(read, [0; 512]);
            assert_eq!(serve(Operation::Read, Bytes(4096), Data::Read(&mut read)).result, Ok(()));
            assert_eq!(read, [7; 512]);
        }
    }

    fn line(points: [(u64, u64); 5]) -> Line {
        Line::through(points.map(|(kib, time)| (Bytes::kib(kib), Nanos(time))))
    }

    #[test]
    fn the_line_goes_through_its_points_and_on() {
        let line = line([(4, 10_000), (32, 9_000), (128, 30_000), (512, 100_000), (1024, 200_000)]);
        let of = |kib| line.of(Bytes::kib(kib)).0;
        assert_eq!((line.of(Bytes(512)).0, of(4), of(32)), (10_000, 10_000, 10_000), "it never falls");
        assert_eq!((of(80), of(768), of(1024)), (20_000, 150_000, 200_000));
        assert_eq!(of(2048), 400_000);
    }

    #[test]
    fn a_disk_of_one_block_has_a_flat_line() {
        let line = line([(4, 9_000), (4, 9_500), (4, 9_000), (4, 9_000), (4, 9_000)]);
        assert_eq!(line.of(Bytes::kib(4)), Nanos(9_000));
        assert_eq!(line.of(Bytes::kib(64)), Nanos(9_000));
    }
}
