//! The thread that writes segments.
//!
//! # Model
//! Chunks are kept as they are, packed, until there is enough for a segment; then they are unpacked a
//! row group at a time. What ends a segment is the device's clock and the number of bytes, not the
//! wall clock: a simulated run gives the same files each time.
//!
//! Invariant: a run that nobody finished keeps its samples under its own number.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use flashlab_base::Nanos;

use crate::lane::{Packed, Signals};
use crate::packing::{Previous, unpack};
use crate::segment_writer::SegmentFile;
use crate::{Columns, Sample, SamplesError};

/// How often the writer looks for chunks.
const LOOK: Duration = Duration::from_millis(5);
/// A segment ends when it has so many packed bytes: about a million samples ...
const SEGMENT_BYTES: usize = 12 << 20;
/// ... or spans so much of the device's time and is worth a file ...
const SEGMENT_TIME: Nanos = Nanos::from_millis(700);
const SEGMENT_BYTES_LEAST: usize = 16 << 10;
/// ... or spans so much, however little there is.
const SEGMENT_TIME_LONGEST: Nanos = Nanos::from_secs(4);
/// Samples of a row group: what is unpacked at once.
const ROW_GROUP: usize = 1 << 17;

/// What a writer is asked to do.
pub(crate) enum Command {
    /// Begin a run; chunks come through `full` and go back through the lane's `emptied`.
    Start { run: u32, full: Receiver<Packed>, emptied: Vec<SyncSender<Vec<u8>>> },
    /// End it: each process's last chunk. Answered when everything is in closed files.
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
    folder: PathBuf,
    signals: Arc<Signals>,
    run: Option<Run>,
    pending: Vec<Packed>,
    pending_bytes: usize,
    samples: Vec<Sample>,
    columns: Columns,
    result: Result<(), SamplesError>,
}

impl Writer {
    pub fn new(folder: PathBuf, signals: Arc<Signals>) -> Writer {
        Writer {
            folder,
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
                    // A run that nobody finished: what it handed over is its own, not the next one's.
                    self.close_segment();
                    let unpacking = vec![Previous::default(); emptied.len()];
                    self.run = Some(Run { number: run, segment: 0, full, emptied, unpacking });
                    self.result = Ok(());
                }
                Ok(Command::Finish { last, done }) => {
                    last.into_iter().for_each(|packed| self.keep(packed));
                    self.close_segment();
                    self.run = None;
                    // Whoever finishes the run waits for this; if it is gone, so is the program.
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

    /// Takes every chunk that is there, in the order in which they were handed over.
    fn collect(&mut self) {
        while let Some(packed) = self.run.as_ref().and_then(|run| run.full.try_recv().ok()) {
            self.keep(packed);
        }
    }

    /// Keeps a copy that is no larger than it must be, and gives the chunk back.
    fn keep(&mut self, packed: Packed) {
        let Some(run) = &self.run else { return };
        let Packed { process, bytes: mut chunk, begin, end } = packed;
        if !chunk.is_empty() {
            self.pending_bytes += chunk.len();
            self.pending.push(Packed { process, bytes: chunk.as_slice().to_vec(), begin, end });
        }
        chunk.clear();
        if let Some(emptied) = run.emptied.get(process as usize) {
            // A lane that is gone needs no chunk.
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
            || (spans >= SEGMENT_TIME && self.pending_bytes >= SEGMENT_BYTES_LEAST)
            || spans >= SEGMENT_TIME_LONGEST
    }

    /// Writes what there is as a Parquet file. After a failure the run's samples are dropped: the
    /// measuring threads are told, and the run ends.
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
        let path = self.folder.join(segment_name(run.number, run.segment));
        run.segment += 1;
        let mut file = SegmentFile::create(&path)?;
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
        file.finish()
    }
}

/// Writes a row group in the order of the pattern: IOs of a queue end in any order, and their positions
/// and times would take twice the room in it.
fn write_group(
    file: &mut SegmentFile,
    run: u32,
    samples: &mut Vec<Sample>,
    columns: &mut Columns,
) -> Result<(), SamplesError> {
    samples.sort_unstable_by_key(|sample| (sample.process, sample.position));
    columns.clear();
    samples.drain(..).for_each(|sample| columns.push(&sample));
    file.row_group(run, columns)
}

/// As `run-00012-00000.parquet`.
pub(crate) fn segment_name(run: u32, segment: u32) -> String {
    format!("run-{run:05}-{segment:05}.parquet")
}
