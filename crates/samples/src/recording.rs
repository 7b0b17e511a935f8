//! Moves samples from the measuring threads to the disk.
//!
//! # Model
//! Each process of a run has a [`Lane`] with a chunk of memory, into which it packs samples. Full chunks go
//! through one bounded queue to the writer thread, and come back empty. The writer polls the queue. So
//! handing over a chunk wakes no thread and makes no system call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;

use crate::lane::{CHUNKS, Lane, Signals};
use crate::writer::{Command, SegmentTimes, Writer};
use crate::{RunFolder, SamplesError};

/// A thread that writes the samples of runs, one run after the other, into a folder.
pub struct Recording {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    signals: Arc<Signals>,
    times: SegmentTimes,
    /// Chunks of finished runs, whose memory is mapped already.
    spare: Vec<Vec<u8>>,
}

impl Recording {
    /// Starts the writer; segments go to `folder`, and into its list.
    pub fn start(folder: &RunFolder) -> Recording {
        Recording::with_segments(folder, SegmentTimes::WALL)
    }

    /// As [`Recording::start`], of a device in virtual time. A run of a killed program is measured again there, so that no time bounds
    /// a segment: with one, an hour of virtual time that passes in a second would be a thousand files.
    pub fn start_virtual(folder: &RunFolder) -> Recording {
        Recording::with_segments(folder, SegmentTimes::VIRTUAL)
    }

    fn with_segments(folder: &RunFolder, times: SegmentTimes) -> Recording {
        let (commands, inbox) = channel();
        let signals = Arc::new(Signals::default());
        let writer = Writer::new(folder.clone(), times, Arc::clone(&signals));
        let thread = std::thread::Builder::new()
            .name("samples".to_owned())
            .spawn(move || writer.work(&inbox))
            .expect("the operating system has room for one more thread");
        Recording { commands: Some(commands), thread: Some(thread), signals, times, spare: Vec::new() }
    }

    /// Begins a run of `processes` processes and returns their lanes.
    ///
    /// # Errors
    /// When the writer has ended.
    pub fn start_run(&mut self, run: u32, processes: u32) -> Result<Vec<Lane>, SamplesError> {
        self.signals.failed.store(false, Ordering::Relaxed);
        self.signals.stalls.store(0, Ordering::Relaxed);
        let (full, filled) = sync_channel(CHUNKS * processes as usize);
        let lane = |process| {
            Lane::new(process, self.times.chunk, full.clone(), Arc::clone(&self.signals), &mut self.spare)
        };
        let (lanes, emptied) = (0..processes).map(lane).unzip();
        self.send(Command::Start { run, full: filled, emptied })?;
        Ok(lanes)
    }

    /// Ends the run. When this returns, all its samples are in closed Parquet files. Returns how often
    /// measuring had to wait for the writer.
    ///
    /// # Errors
    /// If a file could not be written; earlier files are complete.
    pub fn finish_run(&mut self, lanes: Vec<Lane>) -> Result<u64, SamplesError> {
        let stalls = self.signals.stalls.load(Ordering::Relaxed);
        let mut last = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let (packed, chunks) = lane.finish();
            last.push(packed);
            self.spare.extend(chunks);
        }
        let (done, answer) = sync_channel(1);
        self.send(Command::Finish { last, done })?;
        answer.recv().map_err(|_| SamplesError::WriterGone)?.map(|()| stalls)
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
