//! Threads on one volume, over a device in memory that they use at the same time.

use std::sync::atomic::Ordering;

use flashlab_base::{Prng, Seed};

use super::*;
use crate::shared::memory::{self, SharedMemory, open_volume};

const PAGE: usize = 4096;

fn new_volume() -> SharedVolume<SharedMemory> {
    SharedVolume::new(memory::new_volume())
}

/// A page that says which it is and how often it was written.
fn page(number: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    Prng::new(Seed(number << 32 | version)).fill(&mut bytes);
    bytes
}

/// What each thread does on every fourth page: writes, reads, discards and flushes. Returns the versions; 0: discarded.
fn use_pages(volume: &SharedVolume<SharedMemory>, thread: u64) -> Vec<u64> {
    let mut random = Prng::new(Seed(thread));
    let mut versions = vec![0; 600];
    let mut read = vec![0; PAGE];
    for version in 1..2500 {
        let at = random.below(600);
        let number = at * 4 + thread;
        let expected = versions[at as usize];
        volume.read(number * PAGE as u64, &mut read).unwrap();
        let is_right =
            if expected == 0 { read.iter().all(|&b| b == 0) } else { read == page(number, expected) };
        assert!(is_right, "thread {thread}: page {number} is not version {expected}");
        if random.below(20) == 0 {
            volume.discard(number * PAGE as u64, PAGE as u64).unwrap();
            versions[at as usize] = 0;
        } else {
            volume.write(number * PAGE as u64, &page(number, version)).unwrap();
            versions[at as usize] = version;
        }
        if random.below(50) == 0 {
            volume.flush().unwrap();
        }
    }
    volume.flush().unwrap();
    versions
}

#[test]
fn threads_read_what_they_wrote_while_packing_moves_it_and_it_survives() {
    let volume = new_volume();
    let versions: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let volume = &volume;
                scope.spawn(move || use_pages(volume, thread))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let counters = volume.with(|volume| volume.counters());
    assert!(counters.packed_segments > 20 && counters.copied_pages > 100, "{counters:?}");
    // The power fails. Everything was flushed.
    let device = volume.with(|volume| volume.device().handle());
    drop(volume);
    let mut volume = open_volume(device);
    let mut read = vec![0; PAGE];
    for (thread, versions) in (0..).zip(&versions) {
        for (at, &version) in (0..).zip(versions) {
            let number = at * 4 + thread;
            volume.read(number * PAGE as u64, &mut read).unwrap();
            let expected = if version == 0 { vec![0; PAGE] } else { page(number, version) };
            assert!(read == expected, "page {number} is not version {version}");
        }
    }
}

#[test]
fn a_failed_flush_is_reported_to_every_thread_and_nothing_is_acknowledged_after_it() {
    let volume = new_volume();
    volume.with(|volume| volume.device().fails_flushes.store(true, Ordering::Relaxed));
    let results: Vec<Result<(), RepairError>> = std::thread::scope(|scope| {
        let flush = |thread: u64| {
            let volume = &volume;
            scope.spawn(move || {
                volume.write(thread * PAGE as u64, &page(thread, 1))?;
                volume.flush()
            })
        };
        let threads: Vec<_> = (0..8).map(flush).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.iter().all(Result::is_err), "{results:?}");
    volume.with(|volume| volume.device().fails_flushes.store(false, Ordering::Relaxed));
    assert!(matches!(volume.flush(), Err(RepairError::Poisoned(_))));
    assert!(matches!(volume.finish(), Err(RepairError::Poisoned(_))));
}

#[test]
fn a_write_is_acknowledged_once_and_then_it_is_there() {
    let volume = new_volume();
    let mut read = vec![0; PAGE];
    for number in 0..2000 {
        let mut acknowledged = 0;
        let offset = number % 700 * PAGE as u64;
        volume.write_acknowledging(offset, &page(number, 1), || acknowledged += 1).unwrap();
        assert_eq!(acknowledged, 1, "page {number}");
        volume.read(offset, &mut read).unwrap();
        assert_eq!(read, page(number, 1), "page {number}");
    }
    // A part of a page, which is read before it is written.
    let mut acknowledged = 0;
    volume.write_acknowledging(100, &[9; 50], || acknowledged += 1).unwrap();
    assert_eq!(acknowledged, 1);
    let refused = volume.write_acknowledging(u64::MAX - 5000, &page(0, 2), || acknowledged += 1);
    assert!(matches!(refused, Err(RepairError::OutOfRange(_))), "{refused:?}");
    assert_eq!(acknowledged, 1, "what is refused is not acknowledged");
}

#[test]
fn a_write_that_was_acknowledged_and_failed_is_never_read_as_what_was_there_before() {
    let device = SharedMemory::new();
    let fails_flushes = std::sync::Arc::clone(&device.fails_flushes);
    let volume = SharedVolume::new(memory::new_volume_on(&device));
    for number in 0..600 {
        volume.write(number * PAGE as u64, &page(number, 1)).unwrap();
    }
    volume.flush().unwrap();
    fails_flushes.store(true, Ordering::Relaxed);
    // A checkpoint becomes due within some of them, and its flush fails.
    let mut acknowledged = Vec::new();
    let refused = (0..600).find_map(|number| {
        let offset = number * PAGE as u64;
        volume.write_acknowledging(offset, &page(number, 2), || acknowledged.push(number)).err()
    });
    assert!(refused.is_some(), "a checkpoint is due after 256 pages");
    assert!(volume.flush().is_err(), "what was acknowledged is not durable");
    let mut read = vec![0; PAGE];
    let mut lost = 0;
    for number in acknowledged {
        match volume.read(number * PAGE as u64, &mut read) {
            Ok(()) => assert_eq!(read, page(number, 2), "page {number} is as it was acknowledged"),
            Err(_) => lost += 1,
        }
    }
    assert!(lost > 0, "the write in which the checkpoint failed was acknowledged");
}
