//! The process that clears up behind a server, also behind one that was killed.
//!
//! # Model
//! `flashlab serve` starts the same program once more, with a pipe whose other end only the server holds. That process
//! makes the server's own directory, says where, and waits until the pipe is closed: at the server's end, however it
//! came. Before a server mounts its disk it writes into the pipe where. What is left then is taken down: loop devices
//! over the disk's file, the mount, the directory. Programs that use the disk keep a dead one, whose IOs fail.
//!
//! # Invariants
//! - a server that is killed at any moment leaves nothing behind but what its users hold;
//! - nothing is removed but what servers make.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flashlab_export::LoopDevice;
use flashlab_export::fuse::{FILE, unmount_abandoned};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The process, as its server has it; when this is dropped it clears up.
pub struct Caretaker {
    process: Child,
    pipe: Option<ChildStdin>,
    directory: PathBuf,
}

impl Caretaker {
    /// Starts it.
    pub fn start() -> Result<Caretaker> {
        // This program, also where its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("flashlab");
        // Ctrl-C is for the server.
        command.arg("caretaker").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("cannot start the process that clears up at the end")?;
        let (pipe, answer) = (process.stdin.take(), process.stdout.take());
        let mut directory = Vec::new();
        BufReader::new(answer.context("its output is piped")?).read_until(0, &mut directory)?;
        if directory.pop() != Some(0) {
            bail!("cannot make a directory in {}", env::temp_dir().display());
        }
        Ok(Caretaker { process, pipe, directory: OsString::from_vec(directory).into() })
    }

    /// A directory of the server's own, for the control socket and a mount that nobody named.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Tells that the disk is about to be mounted on `directory`, whose path is canonical.
    pub fn will_mount(&mut self, directory: &Path) -> Result<()> {
        let pipe = self.pipe.as_mut().context("the pipe is open until the end")?;
        pipe.write_all(directory.as_os_str().as_bytes())
            .context("the process that clears up at the end is gone")
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // What hangs on this process, as a loop device on a disk that stalls, it can only clear up when this one is gone.
        for _ in 0..400 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// `flashlab caretaker`, which only a server starts.
pub fn caretaker() -> Result<()> {
    // Whoever ends everything at once means the server, and needs what comes after it.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default()).context("cannot put signals aside")?;
    }
    let directory = make_directory().context("cannot make a directory")?;
    // A server that is gone already does not hear it.
    let _ = io::stdout().write_all(&[directory.as_os_str().as_bytes(), b"\0"].concat());
    let _ = io::stdout().flush();
    // The directory that the server was started in may be unmounted meanwhile.
    let _ = env::set_current_dir("/");
    let mut mount = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut mount);
    let mount = PathBuf::from(OsString::from_vec(mount));
    if mount.is_absolute() {
        take_down(&mount);
    }
    // What is not empty stays: it is not ours to delete.
    let _ = fs::remove_file(directory.join("control"));
    let _ = fs::remove_dir(directory.join("mount"));
    let _ = fs::remove_dir(&directory);
    Ok(())
}

/// Takes down what stands on the mount, and the mount; it is tried again for a while, as the kernel may be slow with
/// what a killed process held.
fn take_down(mount: &Path) {
    for _ in 0..100 {
        drop(LoopDevice::all_over(&mount.join(FILE)));
        if unmount_abandoned(mount).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn make_directory() -> io::Result<PathBuf> {
    let own = std::path::absolute(env::temp_dir())?.join(format!("flashlab-{}", std::process::id()));
    // One that was killed itself, and had the same number, may have left its directory.
    let others = (2..1000).map(|number| own.with_extension(number.to_string()));
    let free = std::iter::once(own.clone())
        .chain(others)
        .map(|directory| fs::create_dir(&directory).map(|()| directory))
        .find(|made| !matches!(made, Err(error) if error.kind() == ErrorKind::AlreadyExists));
    free.unwrap_or_else(|| Err(ErrorKind::AlreadyExists.into()))
}
