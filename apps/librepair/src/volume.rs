//! An open volume with the thread that does its work while no call comes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use flashlab_device::Device;
use flashlab_host::{OpenOptions, consent_to_write_volume, inspect};
use flashlab_repair::{Files, MountOptions, SharedVolume, Volume, default_policy};

use crate::failure::Failure;

/// The time without a call after which the volume's own work goes on until the next call.
const IDLE: Duration = Duration::from_millis(20);

type Shared = SharedVolume<Box<dyn Device + Send>>;

/// What `flashlab_volume` is in the header.
pub struct CVolume {
    volume: Arc<Shared>,
    size: u64,
    /// The process that opened it.
    process: u32,
    ends: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl CVolume {
    pub(crate) fn open(path: &Path) -> Result<CVolume, Failure> {
        let inspection = inspect(path)?;
        let consent = consent_to_write_volume(&inspection)?;
        let device = flashlab_host::open(path, &OpenOptions::for_volume(consent))?;
        let mut volume = Volume::open(device, MountOptions::for_path(path), default_policy)?;
        if Files::are_on(&mut volume)? {
            volume.finish()?;
            return Err(Failure::new(
                libc::ENOTBLK,
                "the volume carries files of `flashlab repair mount`, which writes by address would destroy: use another volume",
            ));
        }
        let size = volume.size().0;
        let volume = Arc::new(SharedVolume::new(volume));
        let ends = Arc::new(AtomicBool::new(false));
        let worker = {
            let (volume, ends) = (Arc::clone(&volume), Arc::clone(&ends));
            std::thread::Builder::new()
                .name("flashlab volume".to_owned())
                .spawn(move || work_while_idle(&volume, &ends))
                .map_err(|error| Failure::new(libc::EAGAIN, format!("cannot start a thread: {error}")))?
        };
        Ok(CVolume { volume, size, process: std::process::id(), ends, worker: Some(worker) })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Fails in a process that was forked from the one that opened the volume.
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        match std::process::id() == self.process {
            true => Ok(()),
            false => Err(Failure::new(
                libc::EBADF,
                "another process opened the volume: after a fork only the parent may use it",
            )),
        }
    }

    /// The number of these bytes that lie in the volume.
    pub(crate) fn part(&self, offset: i64, count: usize) -> Result<usize, Failure> {
        let offset =
            u64::try_from(offset).map_err(|_| Failure::new(libc::EINVAL, "the offset is negative"))?;
        let rest = self.size.saturating_sub(offset).min(isize::MAX as u64);
        Ok(count.min(rest as usize))
    }

    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Failure> {
        Ok(self.volume.read(offset, data)?)
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        Ok(self.volume.write(offset, data)?)
    }

    pub(crate) fn discard(&self, offset: u64, length: u64) -> Result<(), Failure> {
        Ok(self.volume.discard(offset, length)?)
    }

    pub(crate) fn flush(&self) -> Result<(), Failure> {
        Ok(self.volume.flush()?)
    }

    pub(crate) fn close(self) -> Result<(), Failure> {
        Ok(self.volume.finish()?)
    }
}

impl Drop for CVolume {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            worker.thread().unpark();
            let _ = worker.join();
        }
    }
}

fn work_while_idle(volume: &Shared, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let calls = volume.calls();
        std::thread::park_timeout(IDLE);
        volume.work(calls);
    }
}
