//! The way of a sample from the measuring thread to the disk.
//!
//! # Model
//! Each process of a run has a [`Lane`] with a chunk of memory that it packs samples into. Full chunks
//! go through a bounded queue to the writer thread, and come back empty. The writer looks at the
//! queues from time to time, so that handing over a chunk wakes nobody and makes no system call.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashlab_base::Nanos;

use crate::packing::{LONGEST, Previous, pack, unpack};
use crate::parquet_file::Columns;
use crate::{Sample, SamplesError};

/// The size of a chunk: some thousands of samples.
const CHUNK: usize = 64 << 10;
/// Chunks of a lane: one being filled, the others on their way.
const CHUNKS: usize = 8;
/// A chunk is handed over after so much of the device's time even when it is not full.
const CHUNK_AGE: Nanos = Nanos::from_millis(250);
/// How often the writer looks for chunks.
const LOOK: Duration = Duration::from_millis(5);
/// A segment is closed when it has so many samples ...
const SEGMENT_SAMPLES: usize = 1 << 20;
/// ... or is so old.
const SEGMENT_AGE: Duration = Duration::from_millis(700);

/// Where one process's samples go. Lives on the measuring thread while a run goes on.
pub struct Lane {
    process: u32,
    chunk: Vec<u8>,
    /// The intended start of the chunk's first sample.
    since: Nanos,
    previous: Previous,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    failed: Arc<AtomicBool>,
    stalls: u64,
}

impl Lane {
    /// Records one sample. `Break` says that the samples cannot be written any more, as on a full
    /// disk, and that measuring on is no use.
    #[inline]
    pub fn record(&mut self, sample: &Sample) -> ControlFlow<()> {
        if self.chunk.is_empty() {
            self.since = sample.intended;
        }
        pack(&mut self.chunk, &mut self.previous, sample);
        let is_full = self.chunk.capacity() - self.chunk.len() < LONGEST;
        if is_full || sample.completed.since(self.since) > CHUNK_AGE {
            return self.hand_over(is_full);
        }
        ControlFlow::Continue(())
    }

    /// Gives the chunk to the writer. One that is only old can wait for an empty one to come back.
    #[cold]
    fn hand_over(&mut self, is_full: bool) -> ControlFlow<()> {
        let mut empty = self.empty.try_recv().ok();
        if empty.is_none() && !is_full {
            return ControlFlow::Continue(());
        }
        if empty.is_none() {
            self.stalls += 1;
        }
        while empty.is_none() {
            if self.failed.load(Ordering::Relaxed) {
                self.chunk.clear();
                return ControlFlow::Break(());
            }
            empty = self.empty.recv_timeout(LOOK).ok();
        }
        let mut chunk = std::mem::replace(&mut self.chunk, empty.unwrap_or_default());
        // There is room for every chunk of the lane: the queue is as long as there are chunks.
        while let Err(TrySendError::Full(back)) = self.full.try_send(chunk) {
            chunk = back;
            std::thread::yield_now();
        }
        if self.failed.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The writer's end of a lane.
struct Source {
    process: u32,
    previous: Previous,
    full: Receiver<Vec<u8>>,
    empty: SyncSender<Vec<u8>>,
}

enum Command {
    Start {
        run: u32,
        sources: Vec<Source>,
    },
    /// The last chunks, by lane; answered when everything is in closed files.
    Finish {
        last: Vec<Vec<u8>>,
        done: SyncSender<Result<(), SamplesError>>,
    },
}

/// A thread that writes the samples of runs, one run after the other, into a folder.
pub struct Recording {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<AtomicBool>,
    /// Chunks of finished runs, whose memory is mapped already.
    spare: Vec<Vec<u8>>,
}

impl Recording {
    /// Starts the writer; segments go to `folder`, which exists.
    pub fn start(folder: &Path) -> Recording {
        let (commands, inbox) = channel();
        let failed = Arc::new(AtomicBool::new(false));
        let writer = Writer::new(folder.to_owned(), Arc::clone(&failed));
        let thread = std::thread::Builder::new()
            .name("samples".to_owned())
            .spawn(move || writer.work(&inbox))
            .expect("the operating system has room for one more thread");
        Recording { commands: Some(commands), thread: Some(thread), failed, spare: Vec::new() }
    }

    /// Begins a run of `processes` processes and returns their lanes.
    ///
    /// # Errors
    /// When the writer has ended.
    pub fn start_run(&mut self, run: u32, processes: u32) -> Result<Vec<Lane>, SamplesError> {
        self.failed.store(false, Ordering::Relaxed);
        let (lanes, sources) = (0..processes).map(|process| self.lane(process)).unzip();
        self.send(Command::Start { run, sources })?;
        Ok(lanes)
    }

    fn lane(&mut self, process: u32) -> (Lane, Source) {
        let (full, full_out) = sync_channel(CHUNKS);
        let (empty_in, empty) = sync_channel(CHUNKS);
        for _ in 1..CHUNKS {
            let chunk = self.spare.pop().unwrap_or_else(fresh_chunk);
            empty_in.try_send(chunk).expect("an empty queue has room for every chunk of its lane");
        }
        let chunk = self.spare.pop().unwrap_or_else(fresh_chunk);
        let failed = Arc::clone(&self.failed);
        let (since, previous) = (Nanos::ZERO, Previous::default());
        let lane = Lane { process, chunk, since, previous, full, empty, failed, stalls: 0 };
        (lane, Source { process, previous, full: full_out, empty: empty_in })
    }

    /// Ends the run: when this returns, all its samples are in closed Parquet files. Returns how often
    /// measuring had to wait for the writer.
    ///
    /// # Errors
    /// When a file could not be written; those before it are whole.
    pub fn finish_run(&mut self, mut lanes: Vec<Lane>) -> Result<u64, SamplesError> {
        lanes.sort_by_key(|lane| lane.process);
        let stalls = lanes.iter().map(|lane| lane.stalls).sum();
        let last = lanes.iter_mut().map(|lane| std::mem::take(&mut lane.chunk)).collect();
        let (done, answer) = sync_channel(1);
        self.send(Command::Finish { last, done })?;
        let result = answer.recv().map_err(|_| SamplesError::WriterGone)?;
        for lane in lanes {
            self.spare.extend(lane.empty.try_iter());
        }
        result.map(|()| stalls)
    }

    fn send(&self, command: Command) -> Result<(), SamplesError> {
        let commands = self.commands.as_ref().ok_or(SamplesError::WriterGone)?;
        commands.send(command).map_err(|_| SamplesError::WriterGone)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // The writer ends when its inbox closes.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An empty chunk whose pages are there, so that recording does not fault.
fn fresh_chunk() -> Vec<u8> {
    let mut chunk = vec![1; CHUNK];
    chunk.clear();
    chunk
}

struct Writer {
    folder: PathBuf,
    failed: Arc<AtomicBool>,
    run: u32,
    segment: u32,
    sources: Vec<Source>,
    columns: Columns,
    opened: Instant,
    result: Result<(), SamplesError>,
}

impl Writer {
    fn new(folder: PathBuf, failed: Arc<AtomicBool>) -> Writer {
        let (sources, columns, opened) = (Vec::new(), Columns::default(), Instant::now());
        Writer { folder, failed, run: 0, segment: 0, sources, columns, opened, result: Ok(()) }
    }

    fn work(mut self, inbox: &Receiver<Command>) {
        loop {
            match inbox.recv_timeout(LOOK) {
                Ok(Command::Start { run, sources }) => {
                    (self.run, self.segment, self.sources) = (run, 0, sources);
                    self.opened = Instant::now();
                    self.result = Ok(());
                }
                Ok(Command::Finish { last, done }) => {
                    self.collect();
                    self.collect_last(last);
                    self.close_segment();
                    self.sources.clear();
                    // Whoever finishes the run waits for this; if it is gone, so is the program.
                    let _ = done.send(std::mem::replace(&mut self.result, Ok(())));
                }
                Err(RecvTimeoutError::Timeout) => self.collect(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.collect();
                    self.close_segment();
                    return;
                }
            }
            if self.opened.elapsed() > SEGMENT_AGE {
                self.close_segment();
            }
        }
    }

    /// Takes every chunk that is there.
    fn collect(&mut self) {
        let mut sources = std::mem::take(&mut self.sources);
        for source in &mut sources {
            while let Ok(mut chunk) = source.full.try_recv() {
                self.unpack(&chunk, source);
                chunk.clear();
                // A lane that is gone needs no chunk.
                let _ = source.empty.try_send(chunk);
            }
        }
        self.sources = sources;
    }

    fn collect_last(&mut self, last: Vec<Vec<u8>>) {
        let mut sources = std::mem::take(&mut self.sources);
        for (source, mut chunk) in sources.iter_mut().zip(last) {
            self.unpack(&chunk, source);
            chunk.clear();
            let _ = source.empty.try_send(chunk);
        }
        self.sources = sources;
    }

    fn unpack(&mut self, mut chunk: &[u8], source: &mut Source) {
        while let Some(sample) = unpack(&mut chunk, &mut source.previous, source.process) {
            self.columns.push(&sample);
            if self.columns.len() >= SEGMENT_SAMPLES {
                self.close_segment();
            }
        }
    }

    /// Writes what there is as a Parquet file. After a failure the run's samples are dropped: the
    /// measuring threads are told, and the run ends.
    fn close_segment(&mut self) {
        self.opened = Instant::now();
        if self.columns.is_empty() {
            return;
        }
        if self.result.is_ok() {
            let path = self.folder.join(segment_name(self.run, self.segment));
            self.result = self.columns.write(self.run, &path);
            self.failed.store(self.result.is_err(), Ordering::Relaxed);
            self.segment += 1;
        }
        self.columns.clear();
    }
}

/// As `run-00012-00000.parquet`.
pub(crate) fn segment_name(run: u32, segment: u32) -> String {
    format!("run-{run:05}-{segment:05}.parquet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_can_go_to_other_threads() {
        fn needs_send<T: Send>() {}
        needs_send::<Lane>();
    }
}
