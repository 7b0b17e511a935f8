//! A live device in virtual time: the server computes when each request is done, and waits for nothing.
//!
//! # Model
//! A request passes FUSE and the loop device before the server gets it, and so does its answer. Both directions overlap with
//! the service of other requests. FUSE splits what is larger than [`FUSE_MAX`].
//!
//! # Invariants
//! - The server gets requests in the order of their submission, with times that do not decrease.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::thread;
use std::time::Duration;

use flashlab_base::{Bytes, Identity, Nanos, Prng, Seed};
use flashlab_device::{
    Completion, DataHandling, Device, Geometry, IoError, Operation, Request, VirtualQueue,
};

use super::{DEPTH, LiveModel, serve};

/// The largest request that the kernel passes to a FUSE server, with libfuse's defaults.
const FUSE_MAX: Bytes = Bytes::kib(128);
/// Each way takes this time, and up to [`WAY_JITTER`] more: half of what a read of 8 KiB took on this page's first machine beyond
/// the time of the server.
const WAY: Nanos = Nanos::from_micros(20);
const WAY_JITTER: Nanos = Nanos::from_micros(10);

/// A server in virtual time. It ends with this.
pub(super) struct Served {
    capacity: Bytes,
    process: Child,
    socket: UnixStream,
    queue: VirtualQueue,
    jitter: Prng,
    _folder: tempfile::TempDir,
}

impl Served {
    /// Starts a server.
    pub(super) fn new(model: LiveModel, jitter: u64, seed: u64) -> anyhow::Result<Served> {
        let folder = tempfile::tempdir()?;
        let process = serve(folder.path(), model, jitter, seed, &["virtual"])?;
        // The file appears a little before the server listens.
        let connect = || UnixStream::connect(folder.path().join("socket"));
        let socket = connect().or_else(|_| {
            thread::sleep(Duration::from_millis(200));
            connect()
        })?;
        let (queue, jitter) = (VirtualQueue::new(DEPTH), Prng::new(Seed(seed).derive("way", 0)));
        Ok(Served { capacity: model.capacity(), process, socket, queue, jitter, _folder: folder })
    }

    fn way(&mut self) -> Nanos {
        WAY + Nanos(self.jitter.below(WAY_JITTER.0))
    }

    /// When the server is done with a request that arrives at this time.
    fn done(&mut self, request: &Request, arrival: Nanos) -> std::io::Result<Nanos> {
        let kind = match request.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            _ => 3,
        };
        let (mut at, mut done) = (0, arrival);
        loop {
            let size = (request.size.0 - at).min(FUSE_MAX.0);
            let numbers = [arrival.0, kind, request.offset.0 + at, size];
            self.socket.write_all(&numbers.map(u64::to_be_bytes).concat())?;
            if kind == 1 {
                let range = at as usize..(at + size) as usize;
                self.socket.write_all(&request.buffer[range])?;
            }
            let mut answer = [0; 8];
            self.socket.read_exact(&mut answer)?;
            done = done.max(Nanos(u64::from_be_bytes(answer)));
            at += size;
            if at >= request.size.0 {
                return Ok(done);
            }
        }
    }
}

impl Device for Served {
    fn geometry(&self) -> Geometry {
        Geometry {
            capacity: self.capacity,
            block: Bytes(512),
            depth: DEPTH,
            data: DataHandling::AffectsTiming,
        }
    }

    fn identity(&self) -> Identity {
        Identity { target: "served".to_owned(), kind: "served".to_owned(), ..Identity::default() }
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, request: Request) {
        let fits = match request.operation {
            Operation::Flush => Ok(()),
            _ => self.geometry().check(request.offset, request.size),
        };
        let arrival = self.queue.now() + self.way();
        let served = fits.and_then(|()| self.done(&request, arrival).map_err(|_| IoError::GONE));
        let done = served.unwrap_or(arrival) + self.way();
        self.queue.push(request, done, served.map(drop));
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
