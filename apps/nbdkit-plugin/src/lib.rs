//! A simulated flash device as a plugin of nbdkit.
//!
//! # Model
//! nbdkit owns the process and calls the plugin, in this order:
//! 1. `config` for each key of the command line, then `get_ready`, which checks them;
//! 2. `after_fork`, which starts the disk: threads do not survive a fork;
//! 3. `open` for each connection, and a method such as `read_at` for each request, in a thread of the request. That
//!    thread waits until the answer is due;
//! 4. `unload`, which saves the disk.
//!
//! Between 2 and 3 the plugin measures the transport latency as a client of its own socket (module
//! `transport_latency`). Other connections wait for that.
//!
//! # Invariants
//! - an idle client does not delay the end: one second after SIGTERM or SIGINT the plugin saves the disk and ends the
//!   process, although nbdkit would wait until the client leaves.

mod transport_latency;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};
use flashlab_export::nbd::{PROBE_EXPORT, PROBE_EXPORT_RESPONSE};
use flashlab_export::{Data, DiskServer, ExportError, Io, LiveDisk, Setup, calibrate_lead, wait_until};
use nbdkit::{Error, Flags, FuaFlags, Result, Server, ThreadModel, plugin};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The time that nbdkit gets to end by itself after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// The state that nbdkit's calls share: most of them are functions without an object.
static PLUGIN: Mutex<Plugin> =
    Mutex::new(Plugin { keys: Vec::new(), setup: None, server: None, connection: None, is_open: false });
/// Signalled when `connection` or `is_open` of the plugin was set.
static READY: Condvar = Condvar::new();

struct Plugin {
    keys: Vec<(String, String)>,
    setup: Option<Setup>,
    server: Option<DiskServer>,
    /// The prototype of each connection.
    connection: Option<Connection>,
    /// Whether clients may connect: the transport latency was measured, or cannot be.
    is_open: bool,
}

/// A client's connection to the disk.
#[derive(Clone)]
struct Connection {
    disk: Arc<LiveDisk>,
    lead: Nanos,
    /// Whether it measures the transport latency: its requests reach no data.
    is_probe: bool,
}

fn plugin() -> MutexGuard<'static, Plugin> {
    // A panic leaves none of its fields half changed.
    PLUGIN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a notice. nbdkit's standard error is the terminal while it runs in the foreground.
fn print_notice(notice: &str) {
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
        let server = setup.start().map_err(refuse)?;
        server.notices.iter().for_each(|notice| print_notice(notice));
        let disk = Arc::clone(&server.disk);
        let control = server.control().map(Path::to_owned);
        plugin.server = Some(server);
        let signals = Signals::new([SIGTERM, SIGINT])?;
        thread::Builder::new().name("end".to_owned()).spawn(|| end_after_signal(signals))?;
        thread::Builder::new()
            .name("latency probe".to_owned())
            .spawn(move || open(disk, control.as_deref()))?;
        Ok(())
    }

    fn open(_readonly: bool) -> Result<Box<dyn Server>> {
        let is_probe = nbdkit::export_name().is_ok_and(|name| name == PROBE_EXPORT);
        let mut plugin = plugin();
        loop {
            match &plugin.connection {
                Some(connection) if plugin.is_open || is_probe => {
                    return Ok(Box::new(Connection { is_probe, ..connection.clone() }));
                }
                _ => plugin = READY.wait(plugin).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn unload() {
        stop_disk();
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
        if self.is_probe {
            data.fill(0);
            return self.answer_probe();
        }
        self.serve(Operation::Read, offset, data.len() as u64, false, Data::Read(data))
    }

    fn write_at(&self, data: &[u8], offset: u64, flags: Flags) -> Result<()> {
        if self.is_probe {
            return self.answer_probe();
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
    /// Waits until the answer to a probe IO is due.
    fn answer_probe(&self) -> Result<()> {
        let clock = self.disk.clock();
        wait_until(clock, self.lead, clock.now() + PROBE_EXPORT_RESPONSE);
        Ok(())
    }

    /// Performs a request and waits until its answer is due.
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
            // nbdkit would send EINVAL for errors that the NBD protocol has no number for.
            let known = [libc::EPERM, libc::EIO, libc::ENOMEM, libc::EINVAL, libc::ENOSPC, libc::EROFS];
            let sent = if known.contains(&errno) { errno } else { libc::EIO };
            Error::new(sent, std::io::Error::from_raw_os_error(errno))
        })
    }
}

/// Measures the transport latency, then lets clients connect.
fn open(disk: Arc<LiveDisk>, control: Option<&Path>) {
    let lead = calibrate_lead(disk.clock());
    plugin().connection = Some(Connection { disk: Arc::clone(&disk), lead, is_probe: false });
    READY.notify_all();
    match transport_latency::measure(&disk, control) {
        Ok(latency) => {
            disk.set_transport_latency(latency);
            let read_us = latency.read.of(Bytes::kib(4)).0 as f64 / 1e3;
            print_notice(&format!("transport latency of a 4 KiB read: {read_us:.0} us"));
        }
        Err(why) => {
            print_notice(&format!("the transport latency is not subtracted from response times: {why}"))
        }
    }
    plugin().is_open = true;
    READY.notify_all();
}

/// Ends the process one [`GRACE`] after a signal, unless nbdkit did so before.
fn end_after_signal(mut signals: Signals) {
    signals.forever().next();
    thread::sleep(GRACE);
    stop_disk();
    std::process::exit(0);
}

/// Stops the disk and saves it. A second call does nothing.
fn stop_disk() {
    let mut plugin = plugin();
    if let Some(server) = plugin.server.take()
        && let Err(error) = server.stop()
    {
        print_notice(&error.to_string());
        std::process::exit(1);
    }
}

fn refuse(error: ExportError) -> Error {
    Error::new(libc::EINVAL, error.to_string())
}
