//! A discard frees exactly the bytes that it names, in the data and in the device.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::Operation;
use flashlab_export::{Data, DataStore, Io, LiveDisk};
use flashlab_sim::zoo;

const SIZE: Bytes = Bytes::mib(64);

/// A disk that is given arrival times.
struct ServedDevice {
    disk: LiveDisk,
    now: Nanos,
}

impl ServedDevice {
    /// Serves one IO a second after the last, and returns how long the device takes for it.
    fn serve(&mut self, operation: Operation, offset: u64, data: Data<'_>, size: u64) -> Nanos {
        self.now += Nanos::from_secs(1);
        let (offset, size) = (Bytes(offset), Bytes(size));
        let answer = self.disk.begin(self.now, Io { operation, offset, size, durable: false, data });
        self.disk.finish(&answer, answer.due).unwrap();
        answer.due.since(self.now)
    }

    /// How long it takes to read a block, and its first and last byte.
    fn read(&mut self, block: u64) -> (Nanos, u8, u8) {
        let mut data = [9; 4096];
        let took = self.serve(Operation::Read, block << 12, Data::Read(&mut data), 4096);
        (took, data[0], data[4095])
    }
}

#[test]
fn blocks_that_are_covered_in_part_stay_written() {
    let profile = zoo().into_iter().find(|profile| profile.name == "emmc").unwrap();
    let mut profile = profile.resized(SIZE).unwrap();
    (profile.block, profile.noise, profile.controller.read_buffer) = (Bytes::kib(4), None, None);
    profile.controller.write_buffer = None;
    let store = DataStore::memory(SIZE, SIZE).unwrap();
    let mut disk = ServedDevice {
        disk: LiveDisk::new(Box::new(profile.device().unwrap()), Some(store)),
        now: Nanos::ZERO,
    };
    let never_written = disk.read(100).0;
    disk.serve(Operation::Write, 0, Data::Write(&[7; 4 << 12]), 4 << 12);
    disk.serve(Operation::Flush, 0, Data::Nothing, 0);
    let written = disk.read(0).0;
    assert!(written > never_written, "{written} for what is on the flash, {never_written} for what is not");
    // From the middle of the first block to the middle of the third, and a part of the fourth.
    disk.serve(Operation::Discard, 2048, Data::Nothing, 2 << 12);
    disk.serve(Operation::Discard, (3 << 12) + 512, Data::Nothing, 1024);
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|block| disk.read(block));
    assert_eq!((first.1, first.2), (7, 0));
    assert_eq!((second.1, second.2), (0, 0));
    assert_eq!((third.1, third.2), (0, 7));
    assert_eq!((fourth.1, fourth.2), (7, 7));
    assert_eq!(second.0, never_written, "the block that is covered is discarded on the device");
    for (block, read) in [first, third, fourth].iter().enumerate() {
        assert_eq!(read.0, written, "a block that is covered in part was discarded: number {block} of them");
    }
}
