//! Records of any legal size are generated, read and sorted, whether or not blocks hold whole ones. `em run` once called records of 17,
//! 100 or 511 bytes with 1 MiB of memory wrong: the generator and the reader left out the ends of blocks.

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_em::experiment::{Algorithm, ScanOptions, SequencePlacement, SortOptions};
use flashlab_em::{EmError, RecordFormat, SortMethod};

use crate::support::machine;

/// The bytes of all records: several blocks, and not a multiple of them.
const LENGTH: u64 = 300_000;

/// Whether the experiment was done; false if it said that it needs more memory.
fn is_done<T>(outcome: Result<T, EmError>, what: &str) -> bool {
    match outcome {
        Ok(_) => true,
        Err(EmError::Memory { .. }) => false,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn records_of_any_size_are_read_and_sorted() {
    let seed = Seed(49);
    let mut random = Prng::new(seed);
    let known = [1, 3, 17, 100, 200, 511, 513, 520, 1000, 4095, 4097, 65_536].map(|size| (size, 1 << 20));
    let mut others = |most: u64| -> Vec<(u64, u64)> {
        (0..10).map(|_| (1 + random.below(most), (256 << 10) << random.below(5))).collect()
    };
    let others = [others(60), others(6000)].concat();
    let (mut scans, mut sorts) = (0, 0);
    for (size, memory) in known.into_iter().chain(others) {
        let what = format!("{size} B in {memory} B, {seed}");
        let format = RecordFormat::new(Bytes(size), 0..size.min(8) as usize).unwrap();
        let elements = (LENGTH / size).max(5);
        let new = || machine("hama", Bytes::mib(64), Bytes(memory));
        let scan = ScanOptions { elements, format: format.clone(), placement: SequencePlacement::ONE, seed }
            .run(&mut new());
        scans += u32::from(is_done(scan, &what));
        let options = SortOptions {
            elements,
            format,
            method: SortMethod::Sorting,
            threads: 1,
            placement: SequencePlacement::ONE,
            seed,
        };
        sorts += u32::from(is_done(options.run(&mut new()), &what));
    }
    assert!(scans == 32 && sorts == 32, "{scans} scans, {sorts} sorts, {seed}");
}
