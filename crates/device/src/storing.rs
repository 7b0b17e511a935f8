//! A wrapper that stores the data of a device that only times IOs.
//!
//! # Model
//! The inner device says when, this wrapper keeps what. Data moves when the request is submitted: a read returns what the
//! requests before it wrote. Memory is taken by the chunk, and only for what was written; a discard of whole chunks frees it.
//!
//! # Invariants
//! - A read returns the most recent write of each byte, and zeroes where nothing was written.
//! - A request outside the device changes nothing.

use flashlab_base::{Bytes, Operation};

use crate::device::{Conditioning, Device, Parallel};
use crate::geometry::{DataHandling, Geometry};
use crate::io::Request;

/// The unit in which memory is taken. Smaller chunks would cost a longer table, larger ones more memory for scattered
/// writes.
const CHUNK: u64 = 256 << 10;

/// A device with the data that its inner device does not store.
pub struct StoringDevice<D> {
    inner: D,
    chunks: Vec<Option<Box<[u8]>>>,
}

impl<D: Device> StoringDevice<D> {
    /// `inner` with data: zeroes at first. A device that stores data itself needs no wrapper, but works with one.
    pub fn new(inner: D) -> StoringDevice<D> {
        let count = inner.geometry().capacity.0.div_ceil(CHUNK) as usize;
        StoringDevice { inner, chunks: (0..count).map(|_| None).collect() }
    }

    /// The device that times the IOs.
    pub fn timing(&self) -> &D {
        &self.inner
    }

    /// The memory that the data takes.
    pub fn stored(&self) -> Bytes {
        Bytes(self.chunks.iter().flatten().count() as u64 * CHUNK)
    }

    fn move_data(&mut self, request: &mut Request) {
        let size = request.size.0 as usize;
        let has_data = request.buffer.len() >= size;
        for (chunk, within, from) in pieces(request.offset.0, size) {
            let length = within.len();
            let stored = &mut self.chunks[chunk];
            match request.operation {
                Operation::Write if has_data => {
                    let stored = stored.get_or_insert_with(|| vec![0; CHUNK as usize].into_boxed_slice());
                    stored[within].copy_from_slice(&request.buffer[from..from + length]);
                }
                Operation::Read if has_data => match stored {
                    Some(stored) => request.buffer[from..from + length].copy_from_slice(&stored[within]),
                    None => request.buffer[from..from + length].fill(0),
                },
                Operation::Discard if length as u64 == CHUNK => *stored = None,
                Operation::Discard => {
                    if let Some(stored) = stored {
                        stored[within].fill(0);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The chunks of a range: each chunk's index, the range within it, and where that begins in the request's data.
fn pieces(offset: u64, size: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let position = offset + done as u64;
        let within = (position % CHUNK) as usize;
        let length = (size - done).min(CHUNK as usize - within);
        let piece = ((position / CHUNK) as usize, within..within + length, done);
        done += length;
        (length > 0).then_some(piece)
    })
}

impl<D: Device> crate::Wrapper for StoringDevice<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn geometry(&self) -> Geometry {
        Geometry { data: DataHandling::Stored, ..self.inner.geometry() }
    }

    fn submit(&mut self, mut request: Request) {
        let moves = request.operation != Operation::Flush;
        if moves && self.inner.geometry().check(request.offset, request.size).is_ok() {
            self.move_data(&mut request);
        }
        self.inner.submit(request);
    }

    /// None: IOs without data would leave the data as it is.
    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        None
    }

    /// None: the lanes' requests would bypass the data.
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        None
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Identity, Nanos, Prng, Seed};

    use super::*;
    use crate::buffer::Arena;
    use crate::complete::CompleteDevice;
    use crate::io::{Completion, IoError};
    use crate::memory::MemoryDevice;
    use crate::virtual_queue::VirtualQueue;

    /// A device that times IOs and stores nothing.
    struct Timed(VirtualQueue, Bytes);

    impl Device for Timed {
        fn geometry(&self) -> Geometry {
            Geometry { capacity: self.1, block: Bytes(512), depth: 4, data: DataHandling::Ignored }
        }
        fn identity(&self) -> Identity {
            Identity::default()
        }
        fn now(&mut self) -> Nanos {
            self.0.now()
        }
        fn submit(&mut self, request: Request) {
            let completed = self.0.now() + Nanos(5);
            self.0.push(request, completed, Ok(()));
        }
        fn wait(&mut self, until: Nanos) -> Option<Completion> {
            self.0.wait(until)
        }
    }

    fn io(
        device: &mut dyn Device,
        operation: Operation,
        offset: u64,
        data: &[u8],
    ) -> (Result<(), IoError>, Vec<u8>) {
        let size = Bytes(data.len() as u64);
        let mut buffer = Arena::buffers(1, size).remove(0);
        buffer.copy_from_slice(data);
        device.submit(Request { tag: 1, operation, offset: Bytes(offset), size, buffer });
        let done = device.wait(Nanos::MAX).unwrap();
        (done.result, done.buffer.to_vec())
    }

    /// Compares random IOs with an array.
    #[test]
    fn a_read_returns_the_most_recent_write_of_each_byte() {
        const SIZE: usize = 3 * CHUNK as usize + 1024;
        let mut device = StoringDevice::new(Timed(VirtualQueue::new(4), Bytes(SIZE as u64)));
        assert!(Device::geometry(&device).data.is_stored());
        let (mut model, mut prng) = (vec![0u8; SIZE], Prng::new(Seed(26)));
        for _ in 0..300 {
            let offset = prng.below(SIZE as u64 / 512) * 512;
            let longest = if prng.below(4) == 0 { 2 * CHUNK / 512 } else { 16 };
            let size = ((1 + prng.below(longest)) * 512).min(SIZE as u64 - offset) as usize;
            let range = offset as usize..offset as usize + size;
            let mut data = vec![0; size];
            prng.fill(&mut data);
            match prng.below(5) {
                0 => {
                    assert_eq!(io(&mut device, Operation::Discard, offset, &data).0, Ok(()));
                    model[range].fill(0);
                }
                1 | 2 => {
                    assert_eq!(io(&mut device, Operation::Write, offset, &data).0, Ok(()));
                    model[range].copy_from_slice(&data);
                }
                _ => assert!(io(&mut device, Operation::Read, offset, &data).1 == model[range]),
            }
        }
    }

    #[test]
    fn a_request_outside_changes_nothing_and_a_discard_frees_memory() {
        let mut device = StoringDevice::new(MemoryDevice::new(Bytes(2 * CHUNK), Nanos(5)));
        assert_eq!(
            io(&mut device, Operation::Write, 2 * CHUNK - 512, &[7; 1024]).0,
            Err(IoError::OUT_OF_RANGE)
        );
        assert_eq!(device.stored(), Bytes(0));
        io(&mut device, Operation::Write, 512, &[7; 512]).0.unwrap();
        assert_eq!(device.stored(), Bytes(CHUNK));
        io(&mut device, Operation::Discard, 0, &vec![0; CHUNK as usize]).0.unwrap();
        assert_eq!(device.stored(), Bytes(0));
    }

    #[test]
    fn capabilities_that_bypass_the_data_are_hidden() {
        let memory = MemoryDevice::new(Bytes::kib(64), Nanos(1));
        let mut device = StoringDevice::new(CompleteDevice::new(memory));
        assert_eq!(CompleteDevice::capabilities(&mut device), ["virtual_time", "health", "telemetry"]);
    }
}
