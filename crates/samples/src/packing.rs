//! Packs samples into a few bytes each, to pass them from a measuring thread to the writer.
//!
//! Each sample is coded relative to the previous one. A byte of flags says which fields are as expected, and
//! variable-length integers contain the others. A random 4 KiB read takes about 12 bytes. This is not a file
//! format: it never leaves the process.

use flashlab_base::{Bytes, Mode, Nanos, Sample};

/// No packed sample is longer: the flags and seven integers of at most ten bytes.
pub(crate) const LONGEST: usize = 1 + 7 * 10;

const WRITE: u8 = 1;
const NEXT_POSITION: u8 = 1 << 1;
const SAME_SIZE: u8 = 1 << 2;
const ADJACENT: u8 = 1 << 3;
const IN_SECTORS: u8 = 1 << 4;
const ON_TIME: u8 = 1 << 5;
const FAILED: u8 = 1 << 6;

const SECTOR_SHIFT: u32 = 9;

/// What packing and unpacking remember of the previous sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Previous {
    position: u64,
    end: u64,
    size: u64,
    intended: u64,
}

impl Previous {
    #[inline]
    fn remember(&mut self, sample: &Sample) {
        self.position = sample.position;
        self.size = sample.size.0;
        self.end = sample.offset.0.wrapping_add(sample.size.0);
        self.intended = sample.intended.0;
    }
}

/// Appends `sample` to `chunk`, which must have space for [`LONGEST`] bytes.
#[inline]
pub(crate) fn pack(chunk: &mut Vec<u8>, previous: &mut Previous, sample: &Sample) {
    debug_assert!(chunk.capacity() - chunk.len() >= LONGEST);
    let distance = sample.offset.0.wrapping_sub(previous.end);
    let delay = sample.submitted.0.wrapping_sub(sample.intended.0);
    let mut flags = 0;
    if sample.mode == Mode::Write {
        flags |= WRITE;
    }
    if sample.position == previous.position.wrapping_add(1) {
        flags |= NEXT_POSITION;
    }
    if sample.size.0 == previous.size {
        flags |= SAME_SIZE;
    }
    if distance == 0 {
        flags |= ADJACENT;
    }
    if distance.trailing_zeros() >= SECTOR_SHIFT {
        flags |= IN_SECTORS;
    }
    if delay == 0 {
        flags |= ON_TIME;
    }
    if sample.errno != 0 {
        flags |= FAILED;
    }
    chunk.push(flags);
    if flags & NEXT_POSITION == 0 {
        put(chunk, zigzag(sample.position.wrapping_sub(previous.position)));
    }
    if flags & SAME_SIZE == 0 {
        put(chunk, sample.size.0);
    }
    if flags & ADJACENT == 0 {
        let shift = if flags & IN_SECTORS != 0 { SECTOR_SHIFT } else { 0 };
        put(chunk, zigzag(((distance as i64) >> shift) as u64));
    }
    put(chunk, zigzag(sample.intended.0.wrapping_sub(previous.intended)));
    if flags & ON_TIME == 0 {
        put(chunk, delay);
    }
    put(chunk, sample.completed.0.wrapping_sub(sample.intended.0));
    if flags & FAILED != 0 {
        put(chunk, sample.errno as u32 as u64);
    }
    previous.remember(sample);
}

/// Takes the next sample of `process` from `bytes`; `None` at their end.
pub(crate) fn unpack(bytes: &mut &[u8], previous: &mut Previous, process: u32) -> Option<Sample> {
    let (&flags, rest) = bytes.split_first()?;
    *bytes = rest;
    let position = match flags & NEXT_POSITION {
        0 => previous.position.wrapping_add(unzigzag(take(bytes)?)),
        _ => previous.position.wrapping_add(1),
    };
    let size = if flags & SAME_SIZE == 0 { take(bytes)? } else { previous.size };
    let distance = if flags & ADJACENT == 0 {
        let shift = if flags & IN_SECTORS != 0 { SECTOR_SHIFT } else { 0 };
        unzigzag(take(bytes)?) << shift
    } else {
        0
    };
    let intended = previous.intended.wrapping_add(unzigzag(take(bytes)?));
    let delay = if flags & ON_TIME == 0 { take(bytes)? } else { 0 };
    let response = take(bytes)?;
    let errno = if flags & FAILED != 0 { take(bytes)? as u32 as i32 } else { 0 };
    let sample = Sample {
        position,
        process,
        mode: if flags & WRITE != 0 { Mode::Write } else { Mode::Read },
        offset: Bytes(previous.end.wrapping_add(distance)),
        size: Bytes(size),
        intended: Nanos(intended),
        submitted: Nanos(intended.wrapping_add(delay)),
        completed: Nanos(intended.wrapping_add(response)),
        errno,
    };
    previous.remember(&sample);
    Some(sample)
}

/// Maps small numbers of both signs to small numbers.
#[inline]
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

#[inline]
fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

/// Seven bits per byte, the lowest first; the top bit says that more bytes follow.
#[inline]
fn put(chunk: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        chunk.push(value as u8 | 0x80);
        value >>= 7;
    }
    chunk.push(value as u8);
}

#[inline]
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};
    use proptest::prelude::*;

    use super::*;

    fn unpack_all(mut bytes: &[u8], process: u32) -> Vec<Sample> {
        let mut previous = Previous::default();
        std::iter::from_fn(|| unpack(&mut bytes, &mut previous, process)).collect()
    }

    fn pack_all(samples: &[Sample]) -> Vec<u8> {
        let mut chunk = Vec::with_capacity(samples.len() * LONGEST);
        let mut previous = Previous::default();
        for sample in samples {
            let before = chunk.len();
            pack(&mut chunk, &mut previous, sample);
            assert!(chunk.len() - before <= LONGEST);
        }
        chunk
    }

    prop_compose! {
        fn any_sample()(
            position: u64, write: bool, offset: u64, size: u64, intended: u64, submitted: u64,
            completed: u64, errno: i32,
        ) -> Sample {
            Sample {
                position,
                process: 3,
                mode: if write { Mode::Write } else { Mode::Read },
                offset: Bytes(offset),
                size: Bytes(size),
                intended: Nanos(intended),
                submitted: Nanos(submitted),
                completed: Nanos(completed),
                errno,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(samples in prop::collection::vec(any_sample(), 0..50)) {
            prop_assert_eq!(unpack_all(&pack_all(&samples), 3), samples);
        }

        #[test]
        fn any_bytes_are_unpacked_without_a_panic(bytes: Vec<u8>) {
            unpack_all(&bytes, 0);
        }
    }

    #[test]
    fn a_random_4_kib_read_takes_at_most_16_bytes() {
        let mut prng = Prng::new(Seed(1));
        let mut clock = 0;
        let samples: Vec<Sample> = (0..10_000)
            .map(|position| {
                let submitted = clock + 200;
                clock = submitted + 50_000 + prng.below(60_000);
                Sample {
                    position,
                    process: 0,
                    mode: Mode::Read,
                    offset: Bytes(prng.below(1 << 28) * 4096),
                    size: Bytes::kib(4),
                    intended: Nanos(submitted),
                    submitted: Nanos(submitted),
                    completed: Nanos(clock),
                    errno: 0,
                }
            })
            .collect();
        let per_io = pack_all(&samples).len() as f64 / 1e4;
        assert!(per_io <= 16.0, "{per_io} bytes an IO over a terabyte");
    }
}
