//! A device in virtual time that records its IOs, and can hold what a power failure left.
//!
//! # Model
//! The content is a base, which many states share, under layers of later writes. While nobody else has the base, writes go
//! into it.
//!
//! A fault is armed through a shared reference, because a volume owns the device. Each happens once.

use std::cell::Cell;
use std::sync::Arc;

use flashlab_base::{Bytes, Identity, Nanos, Operation};
use flashlab_device::{
    Completion, DataHandling, Device, Geometry, IoError, Request, VirtualQueue, VirtualTime,
};

/// The unit in which writes are torn.
pub(crate) const SECTOR: usize = 512;
const RESPONSE: Nanos = Nanos::from_micros(10);
const DEPTH: u32 = 64;

/// A recorded IO.
#[derive(Clone, Debug)]
pub(crate) enum LoggedIo {
    Write { offset: u64, data: Arc<[u8]> },
    Discard { offset: u64, size: usize },
    Flush,
}

/// A write over the base.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    offset: u64,
    /// `None`: zeroes.
    data: Option<Arc<[u8]>>,
    size: usize,
    /// The sectors that the medium has, by their bits; later ones repeat them.
    sectors: u128,
}

impl Layer {
    /// What is left of a recorded IO with these sectors. `None`: it is a flush.
    pub fn of(io: &LoggedIo, sectors: u128) -> Option<Layer> {
        match io {
            LoggedIo::Write { offset, data } => {
                Some(Layer { offset: *offset, size: data.len(), data: Some(Arc::clone(data)), sectors })
            }
            LoggedIo::Discard { offset, size } => {
                Some(Layer { offset: *offset, data: None, size: *size, sectors })
            }
            LoggedIo::Flush => None,
        }
    }

    /// The same data at another place.
    pub fn moved(self, offset: u64) -> Layer {
        Layer { offset, ..self }
    }

    /// Bytes at a place.
    pub fn bytes(offset: u64, data: Vec<u8>) -> Layer {
        Layer { offset, size: data.len(), data: Some(data.into()), sectors: u128::MAX }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Lays it over the bytes from `start` on.
    pub fn apply(&self, start: u64, bytes: &mut [u8]) {
        let (from, to) =
            (self.offset.max(start), (self.offset + self.size as u64).min(start + bytes.len() as u64));
        if from >= to {
            return;
        }
        let (from, to) = ((from - self.offset) as usize, (to - self.offset) as usize);
        let mut at = from;
        while at < to {
            let end = to.min((at / SECTOR + 1) * SECTOR);
            if self.sectors >> (at / SECTOR % 128) & 1 == 1 {
                let place = (self.offset + at as u64 - start) as usize;
                let target = &mut bytes[place..place + end - at];
                match &self.data {
                    Some(data) => target.copy_from_slice(&data[at..end]),
                    None => target.fill(0),
                }
            }
            at = end;
        }
    }
}

/// The device.
pub(crate) struct CrashMedia {
    base: Arc<Vec<u8>>,
    layers: Vec<Layer>,
    /// What was written, discarded and flushed, in order.
    pub log: Vec<LoggedIo>,
    queue: VirtualQueue,
    /// The recorded IO that fails with EIO.
    fails_at: Cell<Option<usize>>,
    /// Reads until the one that fails with EIO.
    read_fails_after: Cell<Option<u64>>,
    /// Whether an IO has failed.
    has_failed: Cell<bool>,
}

impl CrashMedia {
    /// A device with this content.
    pub fn new(base: Arc<Vec<u8>>, layers: Vec<Layer>) -> CrashMedia {
        CrashMedia {
            base,
            layers,
            log: Vec::new(),
            queue: VirtualQueue::new(DEPTH),
            fails_at: Cell::new(None),
            read_fails_after: Cell::new(None),
            has_failed: Cell::new(false),
        }
    }

    /// Lets the write, discard or flush fail that comes after this number of them.
    pub fn fail_after(&self, ios: u64) {
        self.fails_at.set(Some(self.log.len() + ios as usize));
    }

    /// Lets the read fail that comes after this number of them. `None`: none.
    pub fn fail_read_after(&self, reads: Option<u64>) {
        self.read_fails_after.set(reads);
    }

    /// Ends all faults. Returns whether an IO has failed since the last call.
    pub fn heal(&self) -> bool {
        self.fails_at.set(None);
        self.read_fails_after.set(None);
        self.has_failed.replace(false)
    }

    /// Whether an IO has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Whether this read fails.
    fn read_fails(&self) -> bool {
        let Some(left) = self.read_fails_after.get() else { return false };
        self.read_fails_after.set(left.checked_sub(1));
        self.has_failed.set(self.has_failed.get() || left == 0);
        left == 0
    }

    /// What the device holds.
    pub fn into_content(self) -> Vec<u8> {
        let mut content = Arc::unwrap_or_clone(self.base);
        self.layers.iter().for_each(|layer| layer.apply(0, &mut content));
        content
    }

    fn serve(&mut self, request: &mut Request) -> Result<(), IoError> {
        let (offset, size) = (request.offset.0, request.size.0 as usize);
        if request.operation != Operation::Flush {
            self.geometry().check(request.offset, request.size)?;
        }
        let io = match request.operation {
            Operation::Read if self.read_fails() => return Err(IoError::IO),
            Operation::Read => {
                let target = &mut request.buffer[..size];
                target.copy_from_slice(&self.base[offset as usize..offset as usize + size]);
                self.layers.iter().for_each(|layer| layer.apply(offset, target));
                return Ok(());
            }
            Operation::Write => LoggedIo::Write { offset, data: request.buffer[..size].into() },
            Operation::Discard => LoggedIo::Discard { offset, size },
            Operation::Flush => LoggedIo::Flush,
        };
        let fails = self.fails_at.get() == Some(self.log.len());
        if fails {
            self.fails_at.set(None);
            self.has_failed.set(true);
            // It may have reached the medium all the same; a failed flush made nothing durable.
            if matches!(io, LoggedIo::Flush) || self.log.len().is_multiple_of(2) {
                return Err(IoError::IO);
            }
        }
        if let Some(layer) = Layer::of(&io, u128::MAX) {
            match Arc::get_mut(&mut self.base) {
                Some(base) => layer.apply(0, base),
                None => self.layers.push(layer),
            }
        }
        self.log.push(io);
        if fails { Err(IoError::IO) } else { Ok(()) }
    }
}

impl Device for CrashMedia {
    fn geometry(&self) -> Geometry {
        let capacity = Bytes(self.base.len() as u64);
        Geometry { capacity, block: Bytes(SECTOR as u64), depth: DEPTH, data: DataHandling::Stored }
    }

    fn identity(&self) -> Identity {
        Identity {
            target: "crash".to_owned(),
            kind: "memory".to_owned(),
            capacity: self.geometry().capacity,
            ..Identity::default()
        }
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, mut request: Request) {
        let result = self.serve(&mut request);
        let completed = self.queue.now() + RESPONSE;
        self.queue.push(request, completed, result);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        Some(&mut self.queue)
    }
}
