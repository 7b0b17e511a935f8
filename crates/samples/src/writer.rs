//! The thread that writes segments.
//!
//! # Model
//! Chunks stay packed until there are enough of them for a segment. Then they are unpacked, one row group at
//! a time. The device's clock and the number of bytes decide where a segment ends, not the wall clock. So a
//! simulated run gives the same files each time.
//!
//! Invariant: a run that was not finished keeps its samples under its own number.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use flashlab_base::{Nanos, Sample};

use crate::lane::{Packed, Signals};
use crate::packing::{Previous, unpack};
use crate::segment_writer::{ROW_GROUP, SegmentFile};
use crate::{Columns, RunFolder, SamplesError};

/// How often the writer checks for chunks.
const LOOK: Duration = Duration::from_millis(5);
/// A segment ends when it has this number of packed bytes, which are about a million samples ...
const SEGMENT_BYTES: usize = 12 << 20;
/// ... or when it spans its time on the device's clock and has enough samples for a file.
const SEGMENT_BYTES_LEAST: usize = 16 << 10;

/// How long a segment may span: what a killed program loses of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct SegmentTimes {
    /// With enough samples for a file.
    usual: Nanos,
    /// With any number of samples.
    longest: Nanos,
    /// After this time a lane hands a chunk over, even if it is not full.
    pub chunk: Nanos,
}

impl SegmentTimes {
    /// Of a real device.
    pub const WALL: SegmentTimes = SegmentTimes {
        usual: Nanos::from_millis(700),
        longest: Nanos::from_secs(4),
        chunk: Nanos::from_millis(250),
    };
    /// Of a simulated one, which is measured again.
    pub const VIRTUAL: SegmentTimes =
        SegmentTimes { usual: Nanos::MAX, longest: Nanos::MAX, chunk: Nanos::MAX };
}

/// A command to the writer.
pub(crate) enum Command {
    /// Begin a run. Chunks arrive through `full` and go back to the lanes through `emptied`.
    Start { run: u32, full: Receiver<Packed>, emptied: Vec<SyncSender<Vec<u8>>> },
    /// End the run, with the last chunk of each process. The answer follows when everything is in closed
    /// files.
    Finish { last: Vec<Packed>, done: SyncSender<Result<(), SamplesError>> },
}

/// The run that is being written.
struct Run {
    number: u32,
    segment: u32,
    full: Receiver<Packed>,
    emptied: Vec<SyncSender<Vec<u8>>>,
    unpacking: Vec<Previous>,
}

pub(crate) struct Writer {
    folder: RunFolder,
    times: SegmentTimes,
    signals: Arc<Signals>,
    run: Option<Run>,
    pending: Vec<Packed>,
    pending_bytes: usize,
    samples: Vec<Sample>,
    columns: Columns,
    result: Result<(), SamplesError>,
}

impl Writer {
    pub fn new(folder: RunFolder, times: SegmentTimes, signals: Arc<Signals>) -> Writer {
        Writer {
            folder,
            times,
            signals,
            run: None,
            pending: Vec::new(),
            pending_bytes: 0,
            samples: Vec::new(),
            columns: Columns::default(),
            result: Ok(()),
        }
    }

    pub fn work(mut self, inbox: &Receiver<Command>) {
        loop {
            let command = inbox.recv_timeout(LOOK);
            self.collect();
            match command {
                Ok(Command::Start { run, full, emptied }) => {
                    // A run that was not finished: its samples belong to it, not to the next run.
                    self.close_segment();
                    let unpacking = vec![Previous::default(); emptied.len()];
                    self.run = Some(Run { number: run, segment: 0, full, emptied, unpacking });
                    self.result = Ok(());
                }
                Ok(Command::Finish { last, done }) => {
                    last.into_iter().for_each(|packed| self.keep(packed));
                    self.close_segment();
                    self.run = None;
                    // The thread that finishes the run waits for this. If it is gone, the program ends.
                    let _ = done.send(std::mem::replace(&mut self.result, Ok(())));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.close_segment();
                    return;
                }
            }
        }
    }

    /// Takes all available chunks, in the order in which they were handed over.
    fn collect(&mut self) {
        while let Some(packed) = self.run.as_ref().and_then(|run| run.full.try_recv().ok()) {
            self.keep(packed);
        }
    }

    /// Keeps a copy of minimal size, and gives the chunk back.
    fn keep(&mut self, packed: Packed) {
        let Some(run) = &self.run else { return };
        let Packed { process, bytes: mut chunk, begin, end } = packed;
        if !chunk.is_empty() {
            self.pending_bytes += chunk.len();
            self.pending.push(Packed { process, bytes: chunk.as_slice().to_vec(), begin, end });
        }
        chunk.clear();
        if let Some(emptied) = run.emptied.get(process as usize) {
            // A lane that has ended needs no chunk.
            let _ = emptied.try_send(chunk);
        }
        if self.is_segment_full() {
            self.close_segment();
        }
    }

    fn is_segment_full(&self) -> bool {
        let begin = self.pending.iter().map(|packed| packed.begin).min().unwrap_or_default();
        let end = self.pending.last().map(|packed| packed.end).unwrap_or_default();
        let spans = end.since(begin);
        self.pending_bytes >= SEGMENT_BYTES
            || (spans >= self.times.usual && self.pending_bytes >= SEGMENT_BYTES_LEAST)
            || spans >= self.times.longest
    }

    /// Writes the collected samples as a Parquet file. After a failure it drops the samples of the run and
    /// signals the measuring threads, which end the run.
    fn close_segment(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        if pending.is_empty() || self.result.is_err() {
            return;
        }
        self.result = self.write_segment(&pending);
        self.signals.failed.store(self.result.is_err(), Ordering::Relaxed);
    }

    fn write_segment(&mut self, pending: &[Packed]) -> Result<(), SamplesError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let name = segment_name(run.number, run.segment);
        run.segment += 1;
        let mut file = SegmentFile::create(&self.folder.samples().join(&name))?;
        for packed in pending {
            let Some(previous) = run.unpacking.get_mut(packed.process as usize) else { continue };
            let mut bytes = &packed.bytes[..];
            while let Some(sample) = unpack(&mut bytes, previous, packed.process) {
                self.samples.push(sample);
                if self.samples.len() == ROW_GROUP {
                    write_group(&mut file, run.number, &mut self.samples, &mut self.columns)?;
                }
            }
        }
        if !self.samples.is_empty() {
            write_group(&mut file, run.number, &mut self.samples, &mut self.columns)?;
        }
        let written = file.finish()?;
        self.folder.list_segment(&name, written)
    }
}

/// Writes a row group in the order of the pattern. IOs of a queue complete in any order, and unsorted
/// positions and times would need twice the space.
fn write_group(
    file: &mut SegmentFile,
    run: u32,
    samples: &mut Vec<Sample>,
    columns: &mut Columns,
) -> Result<(), SamplesError> {
    samples.sort_unstable_by_key(|sample| (sample.process, sample.position));
    columns.clear();
    samples.drain(..).for_each(|sample| columns.push(run, &sample));
    file.row_group(columns)
}

/// As `run-00012-00000.parquet`.
pub(crate) fn segment_name(run: u32, segment: u32) -> String {
    format!("run-{run:05}-{segment:05}.parquet")
}
