//! From what a person asks for to a live disk, and back to files at the end.
//!
//! # Model
//! A backing file `FILE` holds the data; `FILE.flashlab` beside it says that flashlab made it, and holds the state of
//! the simulated device as it was at the last clean end. The state is written to a new file first, which then takes the
//! old one's place: whenever the server is killed there is a whole one. It says when IOs are done and never what they
//! return, so that an old state costs no data.
//!
//! # Invariants
//! - a file that flashlab did not make is not written to without permission;
//! - what is at fault is told before anything is made.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flashlab_base::{Bytes, Seed};
use flashlab_samples::SamplesError;
use flashlab_sim::{FlashDevice, Profile, ProfileError, SimulatedDevice};

use crate::control::Control;
use crate::faults::{Fault, Faults};
use crate::live::LiveDisk;
use crate::recorder::{RecordTo, Recorder};
use crate::status::serve_metrics;
use crate::store::Store;

/// Where the data is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In memory, until the end.
    Memory,
    /// In a file that survives; the flag permits one that flashlab did not make.
    File {
        /// The file.
        path: PathBuf,
        /// Whether it may be one that flashlab did not make.
        foreign: bool,
    },
    /// Nowhere: only the times are real.
    Nothing,
}

/// A simulated device that is to be served.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device, with the capacity that is asked for.
    pub profile: Profile,
    /// A saved state to begin with, as bytes.
    pub state: Option<Vec<u8>>,
    /// Where the data is kept.
    pub keep: Keep,
    /// How much can be lost at most when the power fails: of what was written and not flushed.
    pub volatile: Bytes,
    /// What goes wrong from the beginning.
    pub faults: Vec<Fault>,
    /// What faults are drawn with that bring no seed of their own.
    pub seed: Seed,
    /// Where the control socket is made.
    pub control: Option<PathBuf>,
    /// The port of the metrics, on this machine alone.
    pub metrics: Option<u16>,
    /// Where every read and write is recorded.
    pub record: Option<RecordTo>,
}

/// A disk that is served, with what is to be saved at its end.
pub struct Session {
    /// The disk.
    pub disk: Arc<LiveDisk>,
    /// What to tell a person about how it began.
    pub notices: Vec<String>,
    sidecar: Option<PathBuf>,
    control: Option<Control>,
    recorder: Option<Recorder>,
}

impl Setup {
    /// Whether the disk may be made and could be filled; makes nothing.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn check(&self) -> Result<(), ExportError> {
        check_memory(&self.profile, &self.keep, self.volatile)?;
        match &self.keep {
            Keep::Nothing | Keep::Memory => Ok(()),
            Keep::File { path, foreign } => check_owner(path, &sidecar_of(path), *foreign),
        }
    }

    /// Makes the disk.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn begin(self) -> Result<Session, ExportError> {
        self.check()?;
        let Setup { profile, state, keep, volatile, faults, seed, control, metrics, record } = self;
        let capacity = profile.capacity.round_down(profile.block);
        let mut notices = Vec::new();
        let sidecar = match &keep {
            Keep::File { path, .. } => Some(sidecar_of(path)),
            Keep::Nothing | Keep::Memory => None,
        };
        let kept = match &sidecar {
            Some(sidecar) if sidecar.exists() => {
                Some(fs::read(sidecar).map_err(ExportError::io("read", sidecar.display()))?)
            }
            _ => None,
        };
        let kept = kept.filter(|state| !state.is_empty());
        let device = match (&kept, &state) {
            (Some(kept), None) => match FlashDevice::restore(&profile, kept) {
                Ok(device) => {
                    notices.push("the device begins in the state of its last clean end".to_owned());
                    SimulatedDevice::Flash(Box::new(device))
                }
                Err(error) => {
                    notices.push(format!("the state beside the data is not used: {error}"));
                    profile.device()?
                }
            },
            (_, Some(state)) => {
                let device = FlashDevice::restore(&profile, state);
                let device = device.map_err(|error| ExportError::State(error.to_string()))?;
                SimulatedDevice::Flash(Box::new(device))
            }
            (None, None) => profile.device()?,
        };
        let store = match &keep {
            Keep::Nothing => None,
            Keep::Memory => Some(
                Store::memory(capacity, volatile).map_err(ExportError::io("make", "memory for the data"))?,
            ),
            Keep::File { path, .. } => {
                let store = Store::file(path, capacity, volatile);
                Some(store.map_err(|source| match source.kind() {
                    ErrorKind::WouldBlock => ExportError::Busy(path.clone()),
                    ErrorKind::InvalidInput => ExportError::Size(path.clone(), source.to_string()),
                    _ => ExportError::Io { action: "open", what: path.display().to_string(), source },
                })?)
            }
        };
        if let Some(sidecar) = sidecar.as_ref().filter(|sidecar| !sidecar.exists()) {
            // From now on the file is known as ours, also when the server is killed.
            fs::write(sidecar, b"").map_err(ExportError::io("write", sidecar.display()))?;
        }
        let disk = Arc::new(LiveDisk::new(Box::new(device), store));
        disk.with_faults(|none| *none = Faults::with_seed(seed));
        faults.into_iter().for_each(|fault| disk.arm(fault));
        let control = control.map(|path| {
            let listening = Control::listen(&path, Arc::clone(&disk));
            listening.map_err(|source| ExportError::Control(path, source))
        });
        if let Some(port) = metrics {
            let address = serve_metrics(port, Arc::clone(&disk));
            let address = address.map_err(ExportError::io("serve metrics on port", port))?;
            notices.push(format!("metrics: http://{address}/metrics"));
        }
        let recorder = record.map(|to| Recorder::start(&to, Arc::clone(&disk)));
        Ok(Session {
            disk,
            notices,
            sidecar,
            control: control.transpose()?,
            recorder: recorder.transpose().map_err(ExportError::Record)?,
        })
    }
}

impl Session {
    /// Where the control socket is, if there is one.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(Control::path)
    }

    /// Ends the session: what was written is durable, and the device's state is beside it. Nothing is in flight.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn end(self) -> Result<(), ExportError> {
        let recorded = self.recorder.map_or(Ok(()), Recorder::end);
        self.disk.flush().map_err(ExportError::io("flush", "the data"))?;
        if let Some(sidecar) = &self.sidecar {
            let state = self.disk.state().unwrap_or_default();
            replace(sidecar, &state).map_err(ExportError::io("write", sidecar.display()))?;
        }
        recorded.map_err(ExportError::Record)
    }
}

/// Puts `bytes` in the place of the file's content, whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file = fs::File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

fn sidecar_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".flashlab");
    PathBuf::from(name)
}

fn check_owner(path: &Path, sidecar: &Path, foreign: bool) -> Result<(), ExportError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(ExportError::Io { action: "open", what: path.display().to_string(), source }),
        Ok(metadata) if !metadata.is_file() => Err(ExportError::NoFile(path.to_owned())),
        Ok(metadata) if metadata.len() > 0 && !sidecar.exists() && !foreign => {
            Err(ExportError::Foreign(path.to_owned()))
        }
        Ok(_) => Ok(()),
    }
}

/// Refuses a device whose tables would not fit, and a disk that could never be filled.
fn check_memory(profile: &Profile, keep: &Keep, volatile: Bytes) -> Result<(), ExportError> {
    let Some(available) = flashlab_host::available_memory() else { return Ok(()) };
    let tables = profile.fits_memory(available)?;
    // What can be taken back is held twice.
    let twice = volatile.min(profile.capacity).0;
    let data = match keep {
        Keep::Memory => profile.capacity.0.saturating_add(twice),
        Keep::File { .. } => twice,
        Keep::Nothing => 0,
    };
    match Bytes(tables.0.saturating_add(data)) > available {
        true => Err(ExportError::Memory { capacity: profile.capacity, tables, available }),
        false => Ok(()),
    }
}

/// Why a disk is not served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// A key or its value cannot be used.
    Key(String),
    /// The profile's parts do not fit together.
    Profile(ProfileError),
    /// A state that is none of this device.
    State(String),
    /// The data does not fit into memory.
    Memory {
        /// What is asked for.
        capacity: Bytes,
        /// What the device's tables take.
        tables: Bytes,
        /// What there is.
        available: Bytes,
    },
    /// Another server has the backing file.
    Busy(PathBuf),
    /// The backing file holds a disk of another size.
    Size(PathBuf, String),
    /// The backing file was not made by flashlab.
    Foreign(PathBuf),
    /// The control socket cannot be made there.
    Control(PathBuf, io::Error),
    /// The recording cannot be made.
    Record(SamplesError),
    /// The backing file is no regular file.
    NoFile(PathBuf),
    /// The operating system refused.
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl ExportError {
    /// Why a size and a saved state do not go together.
    pub const STATE_AND_SIZE: &str =
        "--size makes another device than the one that the state is of: leave one of them away";

    pub(crate) fn io(action: &'static str, what: impl fmt::Display) -> impl FnOnce(io::Error) -> ExportError {
        move |source| ExportError::Io { action, what: what.to_string(), source }
    }
}

impl From<ProfileError> for ExportError {
    fn from(error: ProfileError) -> ExportError {
        ExportError::Profile(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Key(error) => f.write_str(error),
            ExportError::Profile(error) => error.fmt(f),
            ExportError::Record(error) => error.fmt(f),
            ExportError::State(error) => write!(f, "the state cannot be used: {error}"),
            ExportError::Memory { capacity, tables, available } => write!(
                f,
                "a disk of {capacity}, with {tables} of tables, does not fit into the {available} of memory that are \
                 free: give a smaller --size, keep the data in a file with --backing FILE, or keep none with --no-data"
            ),
            ExportError::Busy(path) => {
                write!(f, "another flashlab serves {}: end it first, or give another file", path.display())
            }
            ExportError::Size(path, has) => {
                write!(f, "{}: {has}; give that --size, or another --backing file", path.display())
            }
            ExportError::Foreign(path) => write!(
                f,
                "{} exists and was not made by flashlab serve: give --overwrite-file if it may be written to",
                path.display()
            ),
            ExportError::Control(path, source) if source.kind() == ErrorKind::AddrInUse => write!(
                f,
                "cannot make the control socket {}: there is something already; if it is the socket of a server that was \
                     killed, remove it",
                path.display()
            ),
            ExportError::Control(path, source) => {
                write!(f, "cannot make the control socket {}: {source}", path.display())
            }
            ExportError::NoFile(path) => {
                write!(f, "{} is no regular file: a backing file is one", path.display())
            }
            ExportError::Io { action, what, source } => write!(f, "cannot {action} {what}: {source}"),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExportError::Profile(error) => Some(error),
            ExportError::Record(error) => Some(error),
            ExportError::Io { source, .. } | ExportError::Control(_, source) => Some(source),
            _ => None,
        }
    }
}
