//! Threads on the files of one volume: each changes a file of its own and reads all of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flashlab_base::{Bytes, Prng, Seed};

use super::*;
use crate::files::{FileAttributes, FileKind};
use crate::shared::memory::{SharedMemory, new_volume, open_volume};

const PAGE: usize = 4096;
const FILES: u64 = 4;
/// The pages of each file: together four fifths of the volume, so that a freed page soon belongs to another file, and segments are packed.
const PAGES: u64 = 480;
/// A page of a version that this divides is a hole.
const HOLES: u64 = 5;

fn open(device: SharedMemory) -> Files<SharedMemory> {
    Files::open(open_volume(device)).unwrap()
}

fn new_files() -> Files<SharedMemory> {
    Files::open(new_volume()).unwrap()
}

/// A file that one thread changes. Each page has a version, which the thread announces before it begins, and after it was acknowledged.
struct Tracked {
    number: u64,
    id: FileId,
    begun: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
}

impl Tracked {
    fn new(files: &mut Files<SharedMemory>, number: u64) -> Tracked {
        let attributes = FileAttributes::new(0o600, 0, 0, 1);
        let name = format!("f{number}");
        let id = files.create(FileId::ROOT, name.as_bytes(), FileKind::Regular, attributes).unwrap();
        files.truncate(id, Bytes(PAGES * PAGE as u64), 1).unwrap();
        let versions = || (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        Tracked { number, id, begun: versions(), acknowledged: versions() }
    }

    /// What a page of this version holds.
    fn content(&self, page: u64, version: u64) -> Vec<u8> {
        let word = (self.number + 1) << 56 | page << 40 | version;
        if version.is_multiple_of(HOLES) { vec![0; PAGE] } else { word.to_le_bytes().repeat(PAGE / 8) }
    }

    /// Whether the page is one of the versions that a read may return.
    fn is_right(&self, page: u64, mut versions: std::ops::RangeInclusive<u64>, read: &[u8]) -> bool {
        versions.any(|version| read == self.content(page, version))
    }

    fn version(&self, page: u64) -> u64 {
        self.begun[page as usize].load(Ordering::SeqCst)
    }

    /// Gives pages their next versions that are holes, or those that are not, and lets `change` make them.
    fn change(&self, pages: std::ops::Range<u64>, is_hole: bool, change: impl FnOnce()) {
        for page in pages.clone() {
            let next = (self.version(page) + 1..).find(|next| next.is_multiple_of(HOLES) == is_hole);
            self.begun[page as usize].store(next.unwrap(), Ordering::SeqCst);
        }
        change();
        for page in pages {
            self.acknowledged[page as usize].store(self.version(page), Ordering::SeqCst);
        }
    }

    /// Writes, punches, cuts off, allocates or syncs.
    fn step(&self, files: &ConcurrentFiles<SharedMemory>, random: &mut Prng) {
        let first = random.below(PAGES);
        let pages = first..PAGES.min(first + 1 + random.below(8));
        let (offset, length) = (first * PAGE as u64, (pages.end - first) * PAGE as u64);
        match random.below(20) {
            0 => self.change(first..PAGES, true, || {
                let cut = |size| files.with(|files| files.truncate(self.id, Bytes(size), 2).unwrap());
                cut(offset);
                cut(PAGES * PAGE as u64);
            }),
            1..4 => self.change(pages, true, || {
                files.with(|files| files.punch(self.id, offset, length, 3).unwrap());
            }),
            4 => files.sync(random.below(2) == 0).unwrap(),
            // A hole gets pages that another file may have had, and stays zeroes.
            5..8 => files.with(|files| files.allocate(self.id, offset, length, true, 3).unwrap()),
            _ => self.change(pages.clone(), false, || {
                let data: Vec<u8> = pages.flat_map(|page| self.content(page, self.version(page))).collect();
                files.with(|files| files.write(self.id, Some(offset), &data, 4).unwrap());
            }),
        }
    }

    /// Reads pages, and fails if one of them is not what it was at some time meanwhile.
    fn read(&self, files: &ConcurrentFiles<SharedMemory>, random: &mut Prng, seed: u64) {
        let first = random.below(PAGES);
        let pages = first..PAGES.min(first + 1 + random.below(12));
        let before: Vec<u64> =
            pages.clone().map(|page| self.acknowledged[page as usize].load(Ordering::SeqCst)).collect();
        // What a file that is cut off just now does not have counts as a hole.
        let mut data = vec![0; (pages.end - first) as usize * PAGE];
        files.read(self.id, first * PAGE as u64, &mut data, 5).unwrap();
        for ((page, before), read) in pages.zip(before).zip(data.chunks_exact(PAGE)) {
            let versions = before..=self.version(page);
            assert!(
                self.is_right(page, versions.clone(), read),
                "seed {seed}: page {page} of file {} is none of {versions:?}: {:x?}",
                self.number,
                &read[..8]
            );
        }
    }
}

#[test]
fn threads_read_what_files_hold_while_others_write_cut_and_pack() {
    let mut files = new_files();
    let tracked: Vec<Tracked> = (0..FILES).map(|number| Tracked::new(&mut files, number)).collect();
    let files = ConcurrentFiles::new(files);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (files, tracked) = (&files, &tracked);
        let threads: Vec<_> = (0..FILES)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Prng::new(Seed(thread));
                    for _ in 0..2500 {
                        tracked[thread as usize].step(files, &mut random);
                        tracked[thread as usize].read(files, &mut random, thread);
                        tracked[random.below(FILES) as usize].read(files, &mut random, thread);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                files.work_while_idle();
                std::thread::yield_now();
            }
        });
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ends.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    files.sync(true).unwrap();
    let counters = files.with(|files| files.volume().counters());
    assert!(counters.packed_segments > 20 && counters.copied_pages > 100, "{counters:?}");
    // The power fails. Everything was synced.
    let device = files.with(|files| files.volume().device().handle());
    drop(files);
    let files = ConcurrentFiles::new(open(device));
    for file in &tracked {
        let mut data = vec![0; PAGES as usize * PAGE];
        assert_eq!(files.read(file.id, 0, &mut data, 6).unwrap(), data.len());
        for (page, read) in (0..).zip(data.chunks_exact(PAGE)) {
            let version = file.version(page);
            assert!(file.is_right(page, version..=version, read), "page {page} of file {}", file.number);
        }
    }
}

#[test]
fn after_a_panic_of_a_thread_nothing_is_written_and_no_write_is_acknowledged() {
    let files = ConcurrentFiles::new(new_files());
    let id = files.with(|files| {
        let attributes = FileAttributes::new(0o600, 0, 0, 1);
        let id = files.create(FileId::ROOT, b"f", FileKind::Regular, attributes).unwrap();
        files.write(id, Some(0), &[1; PAGE], 1).unwrap();
        id
    });
    files.sync(false).unwrap();
    let device_writes = |files: &mut Files<SharedMemory>| files.volume().counters().host_pages;
    let before = files.with(device_writes);
    let panicked = std::thread::scope(|scope| {
        scope.spawn(|| files.with(|_| panic!("a fault inside, which this test makes"))).join()
    });
    assert!(panicked.is_err());
    let mut acknowledged = false;
    let is_written =
        files.with(|files| files.overwrite_acknowledging(id, 0, &[2; PAGE], 2, || acknowledged = true));
    assert!(!is_written && !acknowledged);
    let written = files.with(|files| files.write(id, Some(0), &[2; PAGE], 2));
    assert!(matches!(written, Err(RepairError::Poisoned(_))), "{written:?}");
    let removed = files.with(|files| files.unlink(FileId::ROOT, b"f", 3));
    assert!(matches!(removed, Err(RepairError::Poisoned(_))), "{removed:?}");
    assert!(files.sync(false).is_err() && files.write_back().is_err() && files.finish().is_err());
    assert_eq!(files.with(device_writes), before);
}
