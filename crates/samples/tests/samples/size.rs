//! The space of samples on disk.

use flashlab_base::{Bytes, Sample, Seed};

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
fn a_random_read_takes_at_most_9_bytes() {
    // 12 % more than with BYTE_STREAM_SPLIT and brotli, the smallest that Parquet has, and that many readers refuse (docs/formats.md).
    for (space, most) in [(Bytes::gib(1), 7.55), (Bytes::gib(64), 8.42), (Bytes::gib(1024), 8.93)] {
        // The IOs of a device in the time of a segment, and in a minute.
        for count in [12_000, 1_000_000] {
            for seed in [Seed(1), Seed(2)] {
                let each = bytes_per_io(space, count, seed);
                println!("{count} IOs over {space}, {seed:?}: {each:.3} bytes each");
                assert!(each <= most, "{each} bytes an IO: {count} over {space}, {seed:?}");
            }
        }
    }
}

#[test]
fn offsets_in_order_take_next_to_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = |name: &str, offset: fn(u64) -> u64| {
        let folder = folder(&directory.path().join(name));
        let placed = |sample: Sample| Sample { offset: Bytes::kib(4) * offset(sample.position), ..sample };
        record(&folder, 1, random_reads(Bytes::gib(1), 12_000, Seed(1)).map(placed));
        folder.segments(1).iter().map(|path| path.metadata().unwrap().len()).sum::<u64>()
    };
    let [fixed, in_order, backwards] =
        [bytes("fixed", |_| 0), bytes("order", |at| at), bytes("back", |at| 100_000 - at)];
    assert!(in_order.max(backwards) < fixed + 1000, "{fixed} {in_order} {backwards}");
}
