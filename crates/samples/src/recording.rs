//! The way of a sample from the measuring thread to the disk.
//!
//! # Model
//! Each process of a run has a [`Lane`] with a chunk of memory that it packs samples into. Full chunks
//! go through a bounded queue to the writer thread, and come back empty. The writer looks at the
//! queues from time to time, so that handing over a chunk wakes nobody and makes no system call.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashlab_base::Nanos;

use crate::packing::{LONGEST, Previous, pack, unpack};
use crate::{Columns, Sample, SamplesError};

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
    signals: Arc<Signals>,
}

/// What the writer and the lanes tell each other, beside chunks.
#[derive(Default)]
struct Signals {
    /// The writer: samples cannot be written any more.
    failed: AtomicBool,
    /// The lanes: how often one had to wait for the writer.
    stalls: AtomicU64,
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
            self.signals.stalls.fetch_add(1, Ordering::Relaxed);
        }
        while empty.is_none() {
            empty = match self.empty.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if !self.signals.failed.load(Ordering::Relaxed) => None,
                Ok(chunk) => Some(chunk),
                // Nothing will be written any more: the disk is full, or the writer is gone.
                Err(_) => {
                    self.chunk.clear();
                    return ControlFlow::Break(());
                }
            };
        }
        let mut chunk = std::mem::replace(&mut self.chunk, empty.unwrap_or_default());
        // There is room for every chunk of the lane: the queue is as long as there are chunks.
        loop {
            match self.full.try_send(chunk) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) => chunk = back,
                Err(TrySendError::Disconnected(_)) => return ControlFlow::Break(()),
            }
            std::thread::yield_now();
        }
        match self.signals.failed.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
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
    /// Each process's last chunk; answered when everything is in closed files.
    Finish {
        last: Vec<(u32, Vec<u8>)>,
        done: SyncSender<Result<(), SamplesError>>,
    },
}

/// A thread that writes the samples of runs, one run after the other, into a folder.
pub struct Recording {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    signals: Arc<Signals>,
    /// Chunks of finished runs, whose memory is mapped already.
    spare: Vec<Vec<u8>>,
}

impl Recording {
    /// Starts the writer; segments go to `folder`, which exists.
    pub fn start(folder: &Path) -> Recording {
        let (commands, inbox) = channel();
        let signals = Arc::new(Signals::default());
        let writer = Writer::new(folder.to_owned(), Arc::clone(&signals));
        let thread = std::thread::Builder::new()
            .name("samples".to_owned())
            .spawn(move || writer.work(&inbox))
            .expect("the operating system has room for one more thread");
        Recording { commands: Some(commands), thread: Some(thread), signals, spare: Vec::new() }
    }

    /// Begins a run of `processes` processes and returns their lanes.
    ///
    /// # Errors
    /// When the writer has ended.
    pub fn start_run(&mut self, run: u32, processes: u32) -> Result<Vec<Lane>, SamplesError> {
        self.signals.failed.store(false, Ordering::Relaxed);
        self.signals.stalls.store(0, Ordering::Relaxed);
        let mut spare = std::mem::take(&mut self.spare);
        let (lanes, sources) = (0..processes).map(|process| self.lane(process, &mut spare)).unzip();
        self.send(Command::Start { run, sources })?;
        Ok(lanes)
    }

    fn lane(&self, process: u32, spare: &mut Vec<Vec<u8>>) -> (Lane, Source) {
        let (full, full_out) = sync_channel(CHUNKS);
        let (empty_in, empty) = sync_channel(CHUNKS);
        for _ in 1..CHUNKS {
            let chunk = spare.pop().unwrap_or_else(fresh_chunk);
            empty_in.try_send(chunk).expect("an empty queue has room for every chunk of its lane");
        }
        let chunk = spare.pop().unwrap_or_else(fresh_chunk);
        let signals = Arc::clone(&self.signals);
        let (since, previous) = (Nanos::ZERO, Previous::default());
        let lane = Lane { process, chunk, since, previous, full, empty, signals };
        (lane, Source { process, previous, full: full_out, empty: empty_in })
    }

    /// Ends the run: when this returns, all its samples are in closed Parquet files. Returns how often
    /// measuring had to wait for the writer.
    ///
    /// # Errors
    /// When a file could not be written; those before it are whole.
    pub fn finish_run(&mut self, mut lanes: Vec<Lane>) -> Result<u64, SamplesError> {
        let stalls = self.signals.stalls.load(Ordering::Relaxed);
        let last = lanes.iter_mut().map(|lane| (lane.process, std::mem::take(&mut lane.chunk))).collect();
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
    signals: Arc<Signals>,
    run: u32,
    segment: u32,
    sources: Vec<Source>,
    columns: Columns,
    opened: Instant,
    result: Result<(), SamplesError>,
}

impl Writer {
    fn new(folder: PathBuf, signals: Arc<Signals>) -> Writer {
        let (sources, columns, opened) = (Vec::new(), Columns::default(), Instant::now());
        Writer { folder, signals, run: 0, segment: 0, sources, columns, opened, result: Ok(()) }
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

    fn collect_last(&mut self, last: Vec<(u32, Vec<u8>)>) {
        let mut sources = std::mem::take(&mut self.sources);
        for (process, mut chunk) in last {
            let Some(source) = sources.get_mut(process as usize) else { continue };
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
            self.signals.failed.store(self.result.is_err(), Ordering::Relaxed);
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
    use flashlab_base::{Bytes, Mode};

    use super::*;

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
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording::start(folder.path());
        // This test is the writer, and takes nothing until the lane has to wait.
        let (mut lane, mut source) = recording.lane(0, &mut Vec::new());
        let count = (CHUNKS * CHUNK) as u64;
        let (end_of_run, ended) = channel();
        let measuring = std::thread::spawn(move || {
            (0..count).for_each(|position| assert!(lane.record(&sample(position)).is_continue()));
            end_of_run.send(std::mem::take(&mut lane.chunk)).unwrap();
        });
        while recording.signals.stalls.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let mut seen = Vec::new();
        let mut last = None;
        while last.is_none() {
            last = ended.try_recv().ok();
            let chunks = source.full.try_iter().collect::<Vec<_>>();
            for mut chunk in chunks.into_iter().chain(last.clone()) {
                let mut bytes = &chunk[..];
                seen.extend(std::iter::from_fn(|| unpack(&mut bytes, &mut source.previous, 0)));
                chunk.clear();
                let _ = source.empty.try_send(chunk);
            }
        }
        measuring.join().unwrap();
        assert!(seen.iter().copied().eq((0..count).map(sample)));
    }

    #[test]
    fn a_lane_whose_writer_is_gone_ends_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording::start(folder.path());
        let (mut lane, source) = recording.lane(0, &mut Vec::new());
        drop(source);
        let positions = 0..(CHUNKS * CHUNK) as u64;
        assert!(positions.map(sample).any(|sample| lane.record(&sample).is_break()));
    }

    #[test]
    fn lanes_can_go_to_other_threads() {
        fn needs_send<T: Send>() {}
        needs_send::<Lane>();
    }
}
