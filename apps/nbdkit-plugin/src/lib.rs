//! A simulated flash device as a plugin of nbdkit.
//!
//! # Model
//! nbdkit calls `config` for each key, `get_ready`, `after_fork`, then `open` for each connection and a method for each
//! request, in a thread of the request's own, and at the end `unload`. The disk is made after the fork, because threads
//! do not survive one. A request's thread waits until its answer is due.
//!
//! The way to the disk is measured by this process itself, as a client of its own socket (module `way`), before any
//! other connection is let in.
//!
//! # Invariants
//! - an idle client does not hold up the end: some time after SIGTERM or SIGINT what was written is saved and the
//!   process ends, also where nbdkit would wait for the client to leave.

mod way;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};
use flashlab_export::nbd::{MEASURED_RESPONSE, MEASURING};
use flashlab_export::{Data, ExportError, Io, LiveDisk, Session, Setup, calibrate_lead, wait_until};
use nbdkit::{Error, Flags, FuaFlags, Result, Server, ThreadModel, plugin};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long nbdkit may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// What nbdkit's calls, which carry no state, leave for each other.
static PLUGIN: Mutex<Plugin> =
    Mutex::new(Plugin { keys: Vec::new(), setup: None, session: None, connection: None, measured: false });
/// The plugin's `connection` or `measured` was set.
static READY: Condvar = Condvar::new();

struct Plugin {
    keys: Vec<(String, String)>,
    setup: Option<Setup>,
    session: Option<Session>,
    /// What connections are copies of.
    connection: Option<Connection>,
    /// The way was measured, or cannot be: clients may come in.
    measured: bool,
}

/// A client's connection to the disk.
#[derive(Clone)]
struct Connection {
    disk: Arc<LiveDisk>,
    lead: Nanos,
    /// Whether it is the one that is measured: it reaches no data.
    measuring: bool,
}

fn plugin() -> MutexGuard<'static, Plugin> {
    // Nothing in it is half done when somebody panics.
    PLUGIN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a person is told; nbdkit's standard error is the terminal while it is in the foreground.
fn tell(notice: &str) {
    eprintln!("flashlab: {notice}");
}

impl Server for Connection {
    fn name() -> &'static str {
        "flashlab"
    }

    fn longname() -> Option<&'static str> {
        Some("flashlab's simulated flash devices")
    }

    fn version() -> Option<&'static str> {
        Some(env!("CARGO_PKG_VERSION"))
    }

    fn description() -> Option<&'static str> {
        Some("A disk that answers when a simulated flash device would.")
    }

    fn config_help() -> Option<&'static str> {
        Some(flashlab_export::KEYS_HELP)
    }

    fn magic_config_key() -> Option<&'static str> {
        Some("target")
    }

    fn thread_model() -> Result<ThreadModel> {
        Ok(ThreadModel::Parallel)
    }

    fn config(key: &str, value: &str) -> Result<()> {
        let value = match key {
            // nbdkit leaves the directory when it goes into the background.
            "backing" | "control" | "record" => std::path::absolute(Path::new(value))?.display().to_string(),
            _ => value.to_owned(),
        };
        plugin().keys.push((key.to_owned(), value));
        Ok(())
    }

    fn get_ready() -> Result<()> {
        let mut plugin = plugin();
        let keys = plugin.keys.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let setup = Setup::from_keys(keys).map_err(refuse)?;
        setup.check().map_err(refuse)?;
        plugin.setup = Some(setup);
        Ok(())
    }

    fn after_fork() -> Result<()> {
        let mut plugin = plugin();
        let setup = plugin.setup.take().expect("get_ready was called");
        let session = setup.begin().map_err(refuse)?;
        session.notices.iter().for_each(|notice| tell(notice));
        let disk = Arc::clone(&session.disk);
        let control = session.control().map(Path::to_owned);
        plugin.session = Some(session);
        let signals = Signals::new([SIGTERM, SIGINT])?;
        thread::Builder::new().name("end".to_owned()).spawn(|| end_at(signals))?;
        thread::Builder::new().name("way".to_owned()).spawn(move || open(disk, control.as_deref()))?;
        Ok(())
    }

    fn open(_readonly: bool) -> Result<Box<dyn Server>> {
        let measuring = nbdkit::export_name().is_ok_and(|name| name == MEASURING);
        let mut plugin = plugin();
        loop {
            match &plugin.connection {
                Some(connection) if plugin.measured || measuring => {
                    return Ok(Box::new(Connection { measuring, ..connection.clone() }));
                }
                _ => plugin = READY.wait(plugin).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn unload() {
        end();
    }

    fn get_size(&self) -> Result<i64> {
        i64::try_from(self.disk.geometry().capacity.0)
            .map_err(|_| Error::new(libc::EOVERFLOW, "the disk is larger than NBD can say"))
    }

    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_fua(&self) -> Result<FuaFlags> {
        Ok(FuaFlags::Native)
    }

    fn can_write(&self) -> Result<bool> {
        Ok(true)
    }

    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<()> {
        if self.measuring {
            data.fill(0);
            return self.be_measured();
        }
        self.serve(Operation::Read, offset, data.len() as u64, false, Data::Read(data))
    }

    fn write_at(&self, data: &[u8], offset: u64, flags: Flags) -> Result<()> {
        if self.measuring {
            return self.be_measured();
        }
        let durable = flags.contains(Flags::FUA);
        self.serve(Operation::Write, offset, data.len() as u64, durable, Data::Write(data))
    }

    fn trim(&self, count: u32, offset: u64, flags: Flags) -> Result<()> {
        self.serve(Operation::Discard, offset, count.into(), flags.contains(Flags::FUA), Data::Nothing)
    }

    fn zero(&self, count: u32, offset: u64, flags: Flags) -> Result<()> {
        // As with an NVMe drive's Write Zeroes, nothing is transferred, and what was discarded reads as zeroes.
        self.trim(count, offset, flags)
    }

    fn flush(&self) -> Result<()> {
        self.serve(Operation::Flush, 0, 0, false, Data::Nothing)
    }
}

mod registration {
    // The macro's function has no documentation.
    #![allow(missing_docs)]

    use super::*;

    plugin!(Connection {
        after_fork,
        can_fua,
        can_multi_conn,
        can_write,
        config,
        config_help,
        flush,
        get_ready,
        thread_model,
        trim,
        unload,
        write_at,
        zero
    });
}

impl Connection {
    /// Answers when an IO of the measurement is due.
    fn be_measured(&self) -> Result<()> {
        let clock = self.disk.clock();
        wait_until(clock, self.lead, clock.now() + MEASURED_RESPONSE);
        Ok(())
    }

    /// Serves a request, from its arrival until its answer is due.
    fn serve(
        &self,
        operation: Operation,
        offset: u64,
        size: u64,
        durable: bool,
        data: Data<'_>,
    ) -> Result<()> {
        let clock = self.disk.clock();
        let (offset, size) = (Bytes(offset), Bytes(size));
        let answer = self.disk.begin(clock.now(), Io { operation, offset, size, durable, data });
        wait_until(clock, self.lead, answer.due);
        self.disk.finish(&answer, clock.now()).map_err(|IoError { errno }| {
            // Of the errors that NBD knows no number for, nbdkit would make invalid arguments.
            let known = [libc::EPERM, libc::EIO, libc::ENOMEM, libc::EINVAL, libc::ENOSPC, libc::EROFS];
            let sent = if known.contains(&errno) { errno } else { libc::EIO };
            Error::new(sent, std::io::Error::from_raw_os_error(errno))
        })
    }
}

/// Measures the way and lets clients in.
fn open(disk: Arc<LiveDisk>, control: Option<&Path>) {
    let lead = calibrate_lead(disk.clock());
    plugin().connection = Some(Connection { disk: Arc::clone(&disk), lead, measuring: false });
    READY.notify_all();
    match way::measure(&disk, control) {
        Ok(overhead) => {
            disk.set_overhead(overhead);
            let cost = overhead.read.of(Bytes::kib(4)).0 as f64 / 1e3;
            tell(&format!("an IO of 4 KiB costs {cost:.0} us on its way to the program"));
        }
        Err(why) => tell(&format!("what NBD itself costs is not taken off the response times: {why}")),
    }
    plugin().measured = true;
    READY.notify_all();
}

/// Ends the process some time after a signal, if nbdkit has not by then.
fn end_at(mut signals: Signals) {
    signals.forever().next();
    thread::sleep(GRACE);
    end();
    std::process::exit(0);
}

/// Saves what is to be kept; the second time there is nothing left to do.
fn end() {
    let mut plugin = plugin();
    if let Some(session) = plugin.session.take()
        && let Err(error) = session.end()
    {
        tell(&error.to_string());
        std::process::exit(1);
    }
}

fn refuse(error: ExportError) -> Error {
    Error::new(libc::EINVAL, error.to_string())
}
