//! The space of samples on disk.

use flashlab_base::{Bytes, Seed};

use crate::synthetic::{folder, random_reads, record};

/// Bytes on disk for each of `count` random 4 KiB reads, everything in the files counted.
fn bytes_per_io(space: Bytes, count: u64, seed: Seed) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    record(&folder, 1, random_reads(space, count, seed));
    let segments = folder.segments(1);
    let bytes: u64 = segments.iter().map(|path| path.metadata().unwrap().len()).sum();
    bytes as f64 / count as f64
}

#[test]
fn a_random_read_takes_at_most_8_bytes() {
    for space in [Bytes::gib(1), Bytes::gib(64), Bytes::gib(1024)] {
        // The IOs of a device in the time of a segment, and in a minute.
        for count in [12_000, 1_000_000] {
            for seed in [Seed(1), Seed(2)] {
                let each = bytes_per_io(space, count, seed);
                println!("{count} IOs over {space}, {seed:?}: {each:.3} bytes each");
                assert!(each <= 8.0, "{each} bytes an IO: {count} over {space}, {seed:?}");
            }
        }
    }
}
