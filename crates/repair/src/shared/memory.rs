//! For tests: a device in memory whose handles are used at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{Completion, DataHandling, Device, Geometry, IoError, Operation, Parallel, Request};

use crate::format::VolumeUuid;
use crate::layout::LayoutOptions;
use crate::single_log::SingleLog;
use crate::volume::{MountOptions, Volume};

const CAPACITY: Bytes = Bytes::mib(16);

/// Opens the volume on a device.
pub(crate) fn open_volume(device: SharedMemory) -> Volume<SharedMemory> {
    Volume::open(device, MountOptions::default(), |_| Box::new(SingleLog::Greedy)).unwrap()
}

/// A new volume of 2400 pages in segments that are packed soon.
pub(crate) fn new_volume() -> Volume<SharedMemory> {
    new_volume_on(&SharedMemory::new())
}

/// As [`new_volume`], on this device.
pub(crate) fn new_volume_on(device: &SharedMemory) -> Volume<SharedMemory> {
    let options = LayoutOptions {
        capacity: CAPACITY,
        page: Bytes::kib(4),
        segment: Bytes::kib(256),
        logical_pages: 2400,
        checkpoint_interval: Bytes::mib(1),
    };
    Volume::create(device.handle(), VolumeUuid([7; 16]), options).unwrap();
    open_volume(device.handle())
}

/// A device in memory; all handles on it share the content.
pub(crate) struct SharedMemory {
    content: Arc<Mutex<Vec<u8>>>,
    pub fails_flushes: Arc<AtomicBool>,
    done: Option<Completion>,
    now: Nanos,
}

impl SharedMemory {
    pub fn new() -> SharedMemory {
        let content = Arc::new(Mutex::new(vec![0; CAPACITY.0 as usize]));
        SharedMemory { content, fails_flushes: Arc::default(), done: None, now: Nanos::ZERO }
    }

    pub fn handle(&self) -> SharedMemory {
        let (content, fails_flushes) = (Arc::clone(&self.content), Arc::clone(&self.fails_flushes));
        SharedMemory { content, fails_flushes, done: None, now: Nanos::ZERO }
    }
}

impl SharedMemory {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.content.lock().unwrap()
    }
}

impl Device for SharedMemory {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: CAPACITY, block: Bytes(512), depth: 1, data: DataHandling::Stored }
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn submit(&mut self, mut request: Request) {
        let (offset, size) = (request.offset.0 as usize, request.size.0 as usize);
        let mut result = Ok(());
        match request.operation {
            Operation::Read => {
                // Others write, discard and pack meanwhile, also on one CPU.
                std::thread::yield_now();
                request.buffer[..size].copy_from_slice(&self.lock()[offset..offset + size]);
            }
            Operation::Write => {
                self.lock()[offset..offset + size].copy_from_slice(&request.buffer[..size]);
            }
            Operation::Discard => self.lock()[offset..offset + size].fill(0),
            Operation::Flush => {
                std::thread::yield_now();
                if self.fails_flushes.load(Ordering::Relaxed) {
                    result = Err(IoError::IO);
                }
            }
        }
        self.now += Nanos(1000);
        let (submitted, completed) = (self.now, self.now);
        self.done =
            Some(Completion { tag: request.tag, submitted, completed, result, buffer: request.buffer });
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        if self.done.is_none() && until != Nanos::MAX {
            self.now = self.now.max(until);
        }
        self.done.take()
    }

    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        Some(self)
    }
}

impl Parallel for SharedMemory {
    fn lanes(&mut self, count: u32) -> std::io::Result<Vec<Box<dyn Device + Send>>> {
        Ok((0..count).map(|_| Box::new(self.handle()) as Box<dyn Device + Send>).collect())
    }
}
