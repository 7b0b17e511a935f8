//! How to open a target: engine, depth, consent.

use crate::consent::Consent;

/// How the host submits IOs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoEngine {
    /// One `pread` or `pwrite` at a time; a thread for each process of a parallel pattern.
    #[default]
    Synchronous,
    /// io_uring: as many IOs in flight as the queue depth, from one thread.
    IoUring,
    /// A thread for each IO in flight. Any thread may use the device; small IOs take longer.
    Threads,
}

/// How to open a target.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// How the host submits IOs.
    pub engine: IoEngine,
    /// How many IOs may be in flight, from 1 to 4096. The synchronous engine ignores it and has one.
    pub depth: u32,
    /// The permission to write. Without it the target is opened for reading only, and every write completes with [`IoError::READ_ONLY`](flashlab_device::IoError::READ_ONLY).
    pub write: Option<Consent>,
    /// Use the page cache on purpose. A file system without direct IO uses it anyway; the identity's engine says so.
    pub buffered: bool,
    /// The target's name in its identity; `None` for its path.
    pub name: Option<String>,
}

impl OpenOptions {
    /// For a volume: several large IOs are in flight, and several threads use it.
    pub fn for_volume(consent: Consent) -> OpenOptions {
        /// Four records that are written, and as many reads.
        const DEPTH: u32 = 8;
        OpenOptions {
            engine: IoEngine::Threads,
            depth: DEPTH,
            write: Some(consent),
            ..OpenOptions::default()
        }
    }
}

impl Default for OpenOptions {
    /// Synchronous, for reading, with direct IO.
    fn default() -> OpenOptions {
        OpenOptions { engine: IoEngine::Synchronous, depth: 1, write: None, buffered: false, name: None }
    }
}
