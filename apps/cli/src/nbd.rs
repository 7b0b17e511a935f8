//! `--nbd`: runs nbdkit as a child process, with flashlab's plugin or over a file that is served.
//!
//! # Invariants
//! - nbdkit does not outlive this process, however this process ends.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flashlab_export::nbd::NbdClient;
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;

use crate::exit::{Refused, Usage};

/// How many requests of one client are served at the same time; further ones wait in the socket.
const THREADS: &str = "64";

/// What nbdkit serves.
pub enum Served<'a> {
    /// The simulated device of these keys, with flashlab's plugin.
    Device(&'a [(&'static str, String)]),
    /// A file, with nbdkit's own plugin.
    File(&'a Path),
}

/// Serves a disk until one of `signals` arrives. `ready` gets the address for clients.
pub fn serve(
    socket: &Path,
    served: Served<'_>,
    signals: &mut Signals,
    ready: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let socket = std::path::absolute(socket).context("cannot tell where the socket is")?;
    let mut command = nbdkit(&socket);
    match served {
        Served::Device(keys) => {
            command.arg(plugin()?).args(keys.iter().map(|(key, value)| format!("{key}={value}")));
        }
        Served::File(path) => {
            command.arg("file").arg(path);
        }
    }
    make_free(&socket)?;
    signals.add_signal(SIGCHLD).context("cannot listen to the end of nbdkit")?;
    let mut nbdkit = Nbdkit { process: start(command)?, socket, inode: None };
    nbdkit.wait_until_ready(signals)?;
    nbdkit.inode = inode(&nbdkit.socket);
    let uri = format!("nbd+unix:///?socket={}", nbdkit.socket.display());
    ready(Path::new(&uri))?;
    let mut asked = false;
    for signal in signals.forever() {
        match (signal, nbdkit.process.try_wait().context("cannot wait for nbdkit")?) {
            // It ended because of a signal, or of a command on the control socket, which belongs to nbdkit.
            (_, Some(status)) if status.success() => break,
            (_, Some(status)) => return Err(ended(status)),
            (SIGCHLD, None) => {}
            // Somebody is in a hurry.
            (_, None) if asked => nbdkit.process.kill().context("cannot end nbdkit")?,
            (_, None) => {
                asked = true;
                nbdkit.ask_to_end();
            }
        }
    }
    Ok(())
}

/// A running nbdkit. When this is dropped, it is killed and its socket removed.
struct Nbdkit {
    process: Child,
    socket: PathBuf,
    /// The inode of the socket once nbdkit listens on it. Another server may have replaced it since.
    inode: Option<u64>,
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|metadata| metadata.ino())
}

impl Nbdkit {
    /// Waits until clients may connect, which is after the transport latency was measured.
    fn wait_until_ready(&mut self, signals: &mut Signals) -> Result<()> {
        loop {
            match NbdClient::connect(&self.socket, "") {
                Ok(_) => return Ok(()),
                Err(error)
                    if !matches!(
                        error.kind(),
                        ErrorKind::NotFound
                            | ErrorKind::ConnectionRefused
                            | ErrorKind::ConnectionReset
                            | ErrorKind::BrokenPipe
                            | ErrorKind::UnexpectedEof
                    ) =>
                {
                    return Err(error).context("nbdkit does not serve the disk");
                }
                Err(_) => {}
            }
            if let Some(status) = self.process.try_wait().context("cannot wait for nbdkit")? {
                return Err(ended(status));
            }
            if signals.pending().any(|signal| signal != SIGCHLD) {
                bail!("interrupted");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask_to_end(&self) {
        if let Some(process) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            // If it has already ended, the next wait reports that.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        // After a normal end there is no process to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if self.inode.is_none() || self.inode == inode(&self.socket) {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

/// The command without what it serves.
fn nbdkit(socket: &Path) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--exit-with-parent", "--threads", THREADS, "--unix"]).arg(socket);
    command
}

fn start(mut command: Command) -> Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Usage(
            "there is no program nbdkit, which serves NBD: install it (the package is nbdkit), or serve with --loop"
                .to_owned(),
        )
        .into(),
        _ => anyhow::Error::new(error).context("cannot start nbdkit"),
    })
}

/// The path of the plugin: where the build or an installation puts it, or where the user says.
fn plugin() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where flashlab itself is")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let named = std::env::var_os("FLASHLAB_NBDKIT_PLUGIN").map(PathBuf::from);
    let places = match named {
        Some(named) => vec![named],
        None => vec![
            folder.join("libflashlab_nbdkit.so"),
            folder.join("../lib/nbdkit/plugins/nbdkit-flashlab-plugin.so"),
        ],
    };
    match places.iter().find(|place| place.is_file()) {
        Some(place) => std::path::absolute(place).context("cannot tell where the plugin is"),
        None => {
            let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            bail!(Usage(format!(
                "flashlab's plugin for nbdkit is not at {}: build it with `cargo build --release --package \
                 flashlab-nbdkit-plugin`, or name its place in FLASHLAB_NBDKIT_PLUGIN",
                looked.join(" or ")
            )))
        }
    }
}

/// Removes the socket of a killed server.
fn make_free(socket: &Path) -> Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(socket) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        bail!(Refused(format!("{} exists and is no socket: give another path to --nbd", socket.display())));
    }
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(socket)
            .with_context(|| format!("cannot remove {}, which a server left", socket.display())),
        _ => bail!(Refused(format!(
            "a server listens on {} already: end it first, or give another path to --nbd",
            socket.display()
        ))),
    }
}

fn ended(status: ExitStatus) -> anyhow::Error {
    anyhow::anyhow!("nbdkit ended ({status}): what it says above is why")
}
