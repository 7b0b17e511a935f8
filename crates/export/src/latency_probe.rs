//! Measures the transport latency of a live disk before programs use it.
//!
//! # Method
//! 1. The live disk answers every probe IO after a fixed time, [`PROBE_RESPONSE`], instead of the modelled
//!    one.
//! 2. A second process reads the disk through the transport, [`TRIES`] times with each of the [`SIZES`], and
//!    measures the response times.
//! 3. It does the same with writes, unless the disk contains data that the guards of `host` protect. In that
//!    case writes get the curve of reads.
//! 4. The transport latency of a size is the median response time minus [`PROBE_RESPONSE`].
//!
//! The reader is another process because a server that waits in the kernel for its own disk cannot be killed.
//!
//! # Invariants
//! - Measuring changes no data: the disk answers writes with [`PROBE_MARK`] without storing them, and stores
//!   all others.

use std::io;
use std::path::Path;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Arena, Device, Operation, Request};
use flashlab_host::{
    Consent, HostError, OpenOptions, consent_by_flag, consent_to_overwrite_file, inspect, open,
};

use crate::live::{LiveDisk, PROBE_MARK};
use crate::transport_latency::{LatencyCurve, POINTS, TransportLatency};

/// The IO sizes that are measured. Linux splits larger FUSE requests into 1 MiB.
const SIZES: [Bytes; POINTS] =
    [Bytes::kib(4), Bytes::kib(32), Bytes::kib(128), Bytes::kib(512), Bytes::mib(1)];
/// The server's response time while the transport is measured: long enough that the waiting thread sleeps, as it does for
/// most modelled response times.
pub(crate) const PROBE_RESPONSE: Nanos = Nanos(300_000);
/// The number of IOs of each size, for a steady median; 5 sizes of 120 IOs take 0.2 s.
const TRIES: u64 = 120;

/// Makes `data` that of a probe write: each sector carries the mark, because the kernel may split the write between any
/// two sectors.
pub(crate) fn mark_probe_write(data: &mut [u8]) {
    const SECTOR: usize = 512;
    data.chunks_exact_mut(SECTOR).for_each(|sector| sector[..PROBE_MARK.len()].copy_from_slice(PROBE_MARK));
}

/// Prepares the disk for probe IOs while `run_probe` runs [`probe_disk`] in another process, and returns its result.
///
/// # Errors
/// Those of `run_probe`.
pub fn measure_transport_latency<E>(
    disk: &LiveDisk,
    run_probe: impl FnOnce() -> Result<TransportLatency, E>,
) -> Result<TransportLatency, E> {
    // The probe's first reads, when it opens the disk, must meet no fault and must not be counted.
    disk.answer_probes_after(Some(PROBE_RESPONSE));
    let measured = run_probe();
    disk.answer_probes_after(None);
    measured
}

/// The transport latency of the disk at `path`, while its server runs [`measure_transport_latency`]. If the guards refuse
/// to write to the disk, because of the data on it, writes get the latency of reads.
///
/// # Errors
/// When the path cannot be read.
pub fn probe_disk(path: &Path) -> Result<TransportLatency, HostError> {
    let writing = consent(path)
        .and_then(|consent| open(path, &OpenOptions { write: Some(consent), ..OpenOptions::default() }).ok());
    let writes = writing.is_some();
    let mut device = match writing {
        Some(device) => device,
        None => open(path, &OpenOptions::default())?,
    };
    let read = device_curve(&mut *device, Operation::Read, path)?;
    let write = if writes { device_curve(&mut *device, Operation::Write, path)? } else { read };
    Ok(TransportLatency { read, write })
}

fn consent(path: &Path) -> Option<Consent> {
    let inspection = inspect(path).ok()?;
    consent_by_flag(&inspection, path).or_else(|_| consent_to_overwrite_file(&inspection)).ok()
}

fn device_curve(
    device: &mut dyn Device,
    operation: Operation,
    path: &Path,
) -> Result<LatencyCurve, HostError> {
    let geometry = device.geometry();
    let largest = SIZES[SIZES.len() - 1].min(geometry.capacity);
    let mut spare = Arena::buffers(1, largest);
    latency_curve(geometry.capacity, geometry.block, |offset, size| {
        let mut buffer = spare.pop().expect("it comes back with every completion");
        if operation == Operation::Write {
            mark_probe_write(&mut buffer[..size.0 as usize]);
        }
        device.submit(Request { tag: 0, operation, offset, size, buffer });
        let done = device.wait(Nanos::MAX).expect("every request is answered");
        spare.push(done.buffer);
        match done.result {
            Ok(()) => Ok(done.completed.since(done.submitted)),
            Err(error) => {
                let source = io::Error::from_raw_os_error(error.errno);
                Err(HostError::System { attempt: "measure", path: path.to_owned(), error: source })
            }
        }
    })
}

/// The curve through the median transport latencies of IOs of each size. `serve` performs the IO at an offset and returns
/// the response time that it saw.
pub(crate) fn latency_curve<E>(
    capacity: Bytes,
    block: Bytes,
    mut serve: impl FnMut(Bytes, Bytes) -> Result<Nanos, E>,
) -> Result<LatencyCurve, E> {
    // A prime, so that the offsets jump over the whole disk and none repeats soon.
    const STRIDE: u64 = 7919;
    let largest = capacity.round_down(block);
    let mut points = [(Bytes::ZERO, Nanos::ZERO); POINTS];
    for (point, size) in points.iter_mut().zip(SIZES) {
        let size = size.max(block).min(largest);
        let offsets = capacity.0 / size.0;
        let mut latencies = Vec::new();
        for number in 0..TRIES {
            let response = serve(Bytes(number * STRIDE % offsets * size.0), size)?;
            latencies.push(response.0.saturating_sub(PROBE_RESPONSE.0));
        }
        latencies.sort_unstable();
        *point = (size, Nanos(latencies[latencies.len() / 2]));
    }
    Ok(LatencyCurve::through(points))
}

#[cfg(test)]
mod tests {
    use flashlab_device::MemoryDevice;

    use super::*;
    use crate::io::Data;
    use crate::io::Io;
    use crate::store::DataStore;

    #[test]
    fn probe_writes_are_forgotten_and_all_others_kept() {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "emmc").unwrap();
        let profile = profile.resized(Bytes::mib(256)).unwrap();
        let store = DataStore::memory(profile.capacity, Bytes::mib(1)).unwrap();
        let disks = [
            LiveDisk::new(Box::new(profile.device().unwrap()), Some(store)),
            LiveDisk::new(Box::new(MemoryDevice::new(Bytes::mib(1), Nanos(1))), None),
        ];
        for disk in disks {
            let serve = |operation, offset, data: Data<'_>| {
                disk.begin(Nanos::ZERO, Io { operation, offset, size: Bytes(512), durable: false, data })
            };
            let (mut marked, mut read) = ([0; 1024], [1; 512]);
            mark_probe_write(&mut marked);
            disk.answer_probes_after(Some(PROBE_RESPONSE));
            // The kernel may have split it.
            for part in marked.chunks(512) {
                let probe = serve(Operation::Write, Bytes(0), Data::Write(part));
                assert_eq!((probe.result, probe.due), (Ok(()), PROBE_RESPONSE));
            }
            assert_eq!(serve(Operation::Write, Bytes(4096), Data::Write(&[7; 512])).result, Ok(()));
            disk.answer_probes_after(None);
            assert_eq!(serve(Operation::Read, Bytes(0), Data::Read(&mut read)).result, Ok(()));
            assert_eq!(read, [0; 512]);
            assert_eq!(serve(Operation::Read, Bytes(4096), Data::Read(&mut read)).result, Ok(()));
            assert_eq!(read, [7; 512]);
        }
    }
}
