//! The recording of a process: packs samples in the measuring thread and hands full chunks to the writer.
//!
//! Invariants:
//! - Recording a sample allocates nothing and makes no system call.
//! - The chunks of a lane circulate between it and the writer. Their queue has room for all of them, so that
//!   handing one over neither waits nor wakes a thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use flashlab_base::{Nanos, Sample};

use crate::packing::{LONGEST, Previous, pack};

/// The size of a chunk: some thousands of samples.
const CHUNK: usize = 64 << 10;
/// Chunks of a lane: one is being filled, the others are with the writer or empty.
pub(crate) const CHUNKS: usize = 8;
/// How long a lane that waits for a chunk sleeps before it checks whether the writer still exists.
const LOOK: Duration = Duration::from_millis(5);

/// Packed samples of one process.
pub(crate) struct Packed {
    pub process: u32,
    pub bytes: Vec<u8>,
    /// The first sample's submission and the last one's completion, by the device's clock.
    pub begin: Nanos,
    pub end: Nanos,
}

/// Records the samples of one process. It lives on the measuring thread during a run.
pub struct Lane {
    process: u32,
    /// A chunk is handed over after this time on the device's clock, even if it is not full. It bounds what a killed process loses.
    chunk_age: Nanos,
    chunk: Vec<u8>,
    begin: Nanos,
    end: Nanos,
    previous: Previous,
    full: SyncSender<Packed>,
    empty: Receiver<Vec<u8>>,
    signals: Arc<Signals>,
}

/// What the writer and the lanes tell each other, in addition to chunks.
#[derive(Default)]
pub(crate) struct Signals {
    /// Set by the writer: samples cannot be written any more.
    pub failed: AtomicBool,
    /// Counted by the lanes: how often one had to wait for the writer.
    pub stalls: AtomicU64,
}

impl Lane {
    /// A lane with its chunks, taken from `spare` as far as possible. Empty chunks come back to it through
    /// the second value.
    pub(crate) fn new(
        process: u32,
        chunk_age: Nanos,
        full: SyncSender<Packed>,
        signals: Arc<Signals>,
        spare: &mut Vec<Vec<u8>>,
    ) -> (Lane, SyncSender<Vec<u8>>) {
        let (emptied, empty) = std::sync::mpsc::sync_channel(CHUNKS);
        for _ in 1..CHUNKS {
            let chunk = spare.pop().unwrap_or_else(fresh_chunk);
            emptied.try_send(chunk).expect("an empty queue has room for every chunk of its lane");
        }
        let chunk = spare.pop().unwrap_or_else(fresh_chunk);
        let (begin, end, previous) = (Nanos::ZERO, Nanos::ZERO, Previous::default());
        (Lane { process, chunk_age, chunk, begin, end, previous, full, empty, signals }, emptied)
    }

    /// Records one sample. `Break` means that samples cannot be written any more, for example because the
    /// disk is full. Continuing to measure is then useless.
    #[inline]
    pub fn record(&mut self, sample: &Sample) -> ControlFlow<()> {
        if self.chunk.is_empty() {
            self.begin = sample.submitted;
        }
        self.end = sample.completed;
        pack(&mut self.chunk, &mut self.previous, sample);
        let is_full = self.chunk.capacity() - self.chunk.len() < LONGEST;
        if is_full || sample.completed.since(self.begin) > self.chunk_age {
            return self.hand_over();
        }
        ControlFlow::Continue(())
    }

    /// Gives the chunk to the writer, once there is an empty one to continue with.
    #[cold]
    fn hand_over(&mut self) -> ControlFlow<()> {
        let mut empty = self.empty.try_recv().ok();
        if empty.is_none() {
            self.signals.stalls.fetch_add(1, Ordering::Relaxed);
        }
        while empty.is_none() {
            empty = match self.empty.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if !self.signals.failed.load(Ordering::Relaxed) => None,
                Ok(chunk) => Some(chunk),
                // Nothing can be written any more: the disk is full, or the writer has ended.
                Err(_) => {
                    self.chunk.clear();
                    return ControlFlow::Break(());
                }
            };
        }
        let full = self.packed(empty.unwrap_or_default());
        // The queue has room for every chunk. If it refuses one, the writer has ended.
        let refused = self.full.try_send(full).is_err();
        match refused || self.signals.failed.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// The content of the chunk, which `next` replaces.
    fn packed(&mut self, next: Vec<u8>) -> Packed {
        let bytes = std::mem::replace(&mut self.chunk, next);
        Packed { process: self.process, bytes, begin: self.begin, end: self.end }
    }

    /// Ends the lane: returns the last chunk and the unused ones.
    pub(crate) fn finish(mut self) -> (Packed, Vec<Vec<u8>>) {
        let last = self.packed(Vec::new());
        (last, self.empty.try_iter().collect())
    }
}

/// An empty chunk whose pages are mapped, so that recording causes no page fault.
fn fresh_chunk() -> Vec<u8> {
    let mut chunk = vec![1; CHUNK];
    chunk.clear();
    chunk
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{channel, sync_channel};

    use flashlab_base::{Bytes, Mode};

    use super::*;
    use crate::packing::unpack;

    fn sample(position: u64) -> Sample {
        let intended = Nanos(position * 100);
        Sample {
            position,
            process: 0,
            mode: Mode::Write,
            offset: Bytes(position * 7 * 512),
            size: Bytes::kib(4),
            intended,
            submitted: intended,
            completed: Nanos(intended.0 + 90),
            errno: 0,
        }
    }

    #[test]
    fn a_lane_waits_for_a_slow_writer_and_says_so() {
        // This test takes the place of the writer, and takes nothing until the lane has to wait.
        let (full, filled) = sync_channel(CHUNKS);
        let signals = Arc::new(Signals::default());
        let (mut lane, emptied) = Lane::new(0, Nanos::MAX, full, Arc::clone(&signals), &mut Vec::new());
        let count = (CHUNKS * CHUNK) as u64;
        let (end_of_run, ended) = channel();
        let measuring = std::thread::spawn(move || {
            (0..count).for_each(|position| assert!(lane.record(&sample(position)).is_continue()));
            end_of_run.send(lane.finish().0).unwrap();
        });
        while signals.stalls.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let (mut seen, mut previous) = (Vec::new(), Previous::default());
        let mut last = None;
        while last.is_none() {
            last = ended.try_recv().ok();
            for mut packed in
                filled.try_iter().chain(last.iter().map(|last| Packed { bytes: last.bytes.clone(), ..*last }))
            {
                let mut bytes = &packed.bytes[..];
                seen.extend(std::iter::from_fn(|| unpack(&mut bytes, &mut previous, 0)));
                packed.bytes.clear();
                let _ = emptied.try_send(packed.bytes);
            }
        }
        measuring.join().unwrap();
        assert!(seen.iter().copied().eq((0..count).map(sample)));
    }

    #[test]
    fn a_lane_whose_writer_is_gone_ends_its_run() {
        let (full, filled) = sync_channel(CHUNKS);
        let (mut lane, emptied) = Lane::new(0, Nanos::MAX, full, Arc::default(), &mut Vec::new());
        drop((filled, emptied));
        let positions = 0..(CHUNKS * CHUNK) as u64;
        assert!(positions.map(sample).any(|sample| lane.record(&sample).is_break()));
    }

    #[test]
    fn lanes_can_go_to_other_threads() {
        fn needs_send<T: Send>() {}
        needs_send::<Lane>();
    }
}
