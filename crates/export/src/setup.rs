//! Starts a live disk from a [`Setup`], and saves it when it stops.
//!
//! # Model
//! With a backing file `FILE`, `FILE` contains the disk's bytes. `FILE.flashlab` next to it contains the
//! state of the simulated device, and says that flashlab made `FILE` (module `backing`). When the server
//! stops, it writes the state to a new file, which then replaces the old one. So a killed server leaves a
//! complete state. An old state loses no data, because it decides when IOs complete and not what they return.
//!
//! # Invariants
//! - A file that flashlab did not make is not written to without permission.
//! - [`Setup::check`] finds errors before anything is created.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

use crate::backing::{BackingFile, OpenBacking, StateFile};
use crate::control::ControlServer;
use crate::error::ExportError;
use crate::fault_rules::{FaultInjector, FaultRule};
use crate::http::serve_metrics;
use crate::live::LiveDisk;
use crate::recorder::{Recorder, RecordingDestination};
use crate::store::DataStore;

/// Where the bytes of the disk are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataPlacement {
    /// In memory, until the server stops.
    Memory,
    /// In a file that survives the server.
    File {
        /// The file.
        path: PathBuf,
        /// Whether it may be a file that flashlab did not make.
        may_overwrite: bool,
    },
    /// Nowhere: reads return zeroes, only the response times are real.
    Nowhere,
}

/// A simulated device, and how to serve it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device, with the capacity of the disk.
    pub profile: Profile,
    /// A saved state of the device to start from.
    pub state: Option<Vec<u8>>,
    /// Where the bytes are stored.
    pub data: DataPlacement,
    /// The most unflushed bytes that a power loss undoes.
    pub volatile: Bytes,
    /// The fault rules that are armed from the start.
    pub faults: Vec<FaultRule>,
    /// The seed of fault rules without a seed of their own.
    pub seed: Seed,
    /// The path of the control socket.
    pub control: Option<PathBuf>,
    /// The port of the metrics, on the loopback interface only.
    pub metrics: Option<u16>,
    /// Where reads and writes are recorded.
    pub record: Option<RecordingDestination>,
}

/// A live disk with its control socket and recording, and what must be saved when it stops.
pub struct DiskServer {
    /// The disk.
    pub disk: Arc<LiveDisk>,
    /// Messages for the user about how it started.
    pub notices: Vec<String>,
    beside: Option<StateFile>,
    control: Option<ControlServer>,
    recorder: Option<Recorder>,
}

impl Setup {
    /// Checks that the backing file may be used and that memory suffices for a full disk; makes nothing.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn check(&self) -> Result<(), ExportError> {
        check_memory(&self.profile, &self.data, self.volatile)?;
        let capacity = self.profile.capacity;
        if let Some(reason) = self.faults.iter().find_map(|rule| rule.never_fires(capacity, Nanos::ZERO)) {
            return Err(ExportError::Key(format!("a fault would never happen: {reason}")));
        }
        match &self.data {
            DataPlacement::Nowhere | DataPlacement::Memory => Ok(()),
            DataPlacement::File { path, may_overwrite } => BackingFile::new(path, *may_overwrite).check(),
        }
    }

    /// Starts the disk.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn start(self) -> Result<DiskServer, ExportError> {
        self.check()?;
        let mut notices = Vec::new();
        let mut backing = self.backing()?;
        let saved = backing.as_mut().map(|opened| std::mem::take(&mut opened.state)).unwrap_or_default();
        let device = self.device(&saved, &mut notices)?;
        let (file, beside) = backing.map(|opened| (opened.file, opened.beside)).unzip();
        let store = self.store(file)?;
        if let Some(beside) = &beside {
            // This marks the backing file as flashlab's, also if the server is killed.
            beside.save(&saved)?;
        }
        let disk = Arc::new(LiveDisk::new(Box::new(device), store));
        disk.with_faults(|faults| *faults = FaultInjector::with_seed(self.seed));
        self.faults.into_iter().for_each(|rule| disk.arm(rule));
        let control = self.control.map(|path| {
            let listening = ControlServer::listen(&path, disk.clone());
            listening.map_err(|source| ExportError::Control(path, source))
        });
        if let Some(port) = self.metrics {
            let address = serve_metrics(port, Arc::clone(&disk));
            let address = address.map_err(ExportError::io("serve metrics on port", port))?;
            notices.push(format!("metrics: http://{address}/metrics"));
        }
        let recorder = self.record.map(|destination| Recorder::start(&destination, Arc::clone(&disk)));
        Ok(DiskServer {
            disk,
            notices,
            beside,
            control: control.transpose()?,
            recorder: recorder.transpose().map_err(ExportError::Record)?,
        })
    }

    /// The device in its state: the given one, or the one that an earlier server saved, or new.
    fn device(&self, saved: &[u8], notices: &mut Vec<String>) -> Result<SimulatedDevice, ExportError> {
        if let Some(state) = &self.state {
            let device = FlashDevice::restore(&self.profile, state);
            let device = device.map_err(|error| ExportError::State(error.to_string()))?;
            return Ok(SimulatedDevice::Flash(Box::new(device)));
        }
        if saved.is_empty() {
            return Ok(self.profile.device()?);
        }
        match FlashDevice::restore(&self.profile, saved) {
            Ok(device) => {
                notices.push("the device begins in the state of its last clean end".to_owned());
                Ok(SimulatedDevice::Flash(Box::new(device)))
            }
            Err(error) => {
                notices.push(format!("the state beside the data is not used: {error}"));
                Ok(self.profile.device()?)
            }
        }
    }

    fn backing(&self) -> Result<Option<OpenBacking>, ExportError> {
        let DataPlacement::File { path, may_overwrite } = &self.data else { return Ok(None) };
        BackingFile::new(path, *may_overwrite).open(self.profile.largest_state()?).map(Some)
    }

    /// Where the bytes are stored; `file` is the open backing file.
    fn store(&self, file: Option<File>) -> Result<Option<DataStore>, ExportError> {
        let capacity = self.profile.capacity.round_down(self.profile.block);
        let store = match (&self.data, file) {
            (DataPlacement::File { path, .. }, Some(file)) => DataStore::file(file, capacity, self.volatile)
                .map_err(|source| ExportError::backing_file(path, source))?,
            (DataPlacement::Nowhere, _) => return Ok(None),
            _ => DataStore::memory(capacity, self.volatile)
                .map_err(ExportError::io("make", "memory for the data"))?,
        };
        Ok(Some(store))
    }
}

impl DiskServer {
    /// The path of the control socket, if there is one.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(ControlServer::path)
    }

    /// Stops the server after the last IO: makes all data durable and saves the state of the device.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn stop(self) -> Result<(), ExportError> {
        let recorded = self.recorder.map_or(Ok(()), Recorder::end);
        self.disk.flush().map_err(ExportError::io("flush", "the data"))?;
        if let Some(beside) = &self.beside {
            beside.save(&self.disk.state().unwrap_or_default())?;
        }
        recorded.map_err(ExportError::Record)
    }
}

/// Refuses a device whose tables do not fit into memory, and a disk that a program could not fill.
fn check_memory(profile: &Profile, data: &DataPlacement, volatile: Bytes) -> Result<(), ExportError> {
    let Some(available) = flashlab_host::available_memory() else { return Ok(()) };
    let tables = profile.fits_memory(available)?;
    // The store copies each block that a power loss may undo.
    let copies = volatile.min(profile.capacity).0;
    let data = match data {
        DataPlacement::Memory => profile.capacity.0.saturating_add(copies),
        DataPlacement::File { .. } => copies,
        DataPlacement::Nowhere => 0,
    };
    match Bytes(tables.0.saturating_add(data)) > available {
        true => Err(ExportError::Memory { capacity: profile.capacity, tables, available }),
        false => Ok(()),
    }
}
