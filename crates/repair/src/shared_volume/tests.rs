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
