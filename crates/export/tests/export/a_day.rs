//! A live disk during a simulated day: random IOs, discards and flushes, and sometimes a power failure. Reads
//! return what a map of the disk expects, every answer is due after its IO arrived, and no memory grows.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::Operation;
use flashlab_export::{Data, DataStore, FaultInjector, Io, LiveDisk, PendingAnswer};

const CAPACITY: u64 = 16 << 20;
const BLOCK: u64 = 4096;
const DAY: Nanos = Nanos::from_secs(24 * 3600);

/// An SD card, with deferred work.
fn disk() -> LiveDisk {
    let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "sdcard").unwrap();
    let profile = profile.resized(Bytes(CAPACITY)).unwrap();
    let store = DataStore::memory(Bytes(CAPACITY), Bytes(CAPACITY)).unwrap();
    LiveDisk::new(Box::new(profile.device().unwrap()), Some(store))
}

/// The expected content now, and after a power loss.
struct Expected {
    now: Vec<u8>,
    flushed: Vec<u8>,
}

fn ask(disk: &LiveDisk, arrived: Nanos, operation: Operation, block: u64, data: Data<'_>) -> PendingAnswer {
    let (offset, size) = match operation {
        Operation::Flush => (Bytes::ZERO, Bytes::ZERO),
        _ => (Bytes(block * BLOCK), Bytes(BLOCK)),
    };
    let answer = disk.begin(arrived, Io { operation, offset, size, durable: false, data });
    assert!(answer.due >= arrived);
    assert_eq!(disk.finish(&answer, answer.due), answer.result);
    answer
}

#[test]
fn a_day_of_use() {
    let seed = 24;
    let mut prng = Prng::new(Seed(seed));
    let disk = disk();
    let blocks = CAPACITY / BLOCK;
    let mut expected = Expected { now: vec![0; blocks as usize], flushed: vec![0; blocks as usize] };
    let (mut arrived, mut served) = (Nanos::ZERO, 0_u64);
    while arrived < DAY {
        arrived += Nanos(prng.below(400_000_000));
        let block = prng.below(blocks);
        let at = block as usize;
        served += 1;
        match prng.below(1000) {
            0..500 => {
                let fill = prng.below(255) as u8 + 1;
                let data = [fill; BLOCK as usize];
                assert!(ask(&disk, arrived, Operation::Write, block, Data::Write(&data)).result.is_ok());
                expected.now[at] = fill;
            }
            500..950 => {
                let mut data = [1; BLOCK as usize];
                assert!(ask(&disk, arrived, Operation::Read, block, Data::Read(&mut data)).result.is_ok());
                assert!(
                    data == [expected.now[at]; BLOCK as usize],
                    "block {block} at {arrived}, seed {seed}"
                );
            }
            950..980 => {
                assert!(ask(&disk, arrived, Operation::Discard, block, Data::Nothing).result.is_ok());
                expected.now[at] = 0;
            }
            980..999 => {
                assert!(ask(&disk, arrived, Operation::Flush, block, Data::Nothing).result.is_ok());
                expected.flushed.clone_from(&expected.now);
            }
            _ => {
                disk.lose_power().unwrap();
                let mut data = [1; BLOCK as usize];
                assert!(ask(&disk, arrived, Operation::Read, block, Data::Read(&mut data)).result.is_err());
                disk.with_faults(FaultInjector::power_on);
                expected.now.clone_from(&expected.flushed);
            }
        }
    }
    let summary = disk.summary();
    assert_eq!(summary.in_flight, 0);
    assert_eq!(summary.classes.iter().map(|class| class.ios).sum::<u64>(), served);
    let statistics = disk.device_statistics().expect("flash counts");
    assert!(statistics.block_erases_max > 0, "it was written over and over");
}
