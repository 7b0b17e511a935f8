//! The caretaker process cleans up when a server ends, even if the server was killed.
//!
//! # Method
//! 1. `flashlab serve` starts the same program again, with a pipe. Only the server has the other end of the
//!    pipe.
//! 2. The caretaker creates a directory for the server, and reports its path.
//! 3. Before the server mounts its disk, it writes the mount point to the pipe.
//! 4. The caretaker waits until the pipe is closed. That is the end of the server, for whatever reason.
//! 5. It removes what is left: loop devices over the disk's file, the mount, the directory. Programs that
//!    still use the disk get errors.
//!
//! # Invariants
//! - If a server is killed at any moment, only what its users have open stays.
//! - Only what servers create is removed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flashlab_export::fuse::{FILE, unmount_abandoned};
use flashlab_export::{LoopDevice, random_name};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The caretaker process, as its server sees it. When this is dropped, the caretaker cleans up.
pub struct Caretaker {
    process: Child,
    pipe: Option<ChildStdin>,
    directory: PathBuf,
}

impl Caretaker {
    /// Starts it.
    pub fn start() -> Result<Caretaker> {
        // This program, even if its file was replaced in the meantime.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("flashlab");
        // Ctrl-C is for the server.
        command.arg("caretaker").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("cannot start the process that cleans up at the end")?;
        let (pipe, answer) = (process.stdin.take(), process.stdout.take());
        let mut directory = Vec::new();
        BufReader::new(answer.context("its output is piped")?).read_until(0, &mut directory)?;
        if directory.pop() != Some(0) {
            bail!("cannot make a directory in {}", env::temp_dir().display());
        }
        Ok(Caretaker { process, pipe, directory: OsString::from_vec(directory).into() })
    }

    /// A directory of the server, for the control socket and for a mount without a name.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reports that the disk is about to be mounted on `directory`, whose path is canonical.
    pub fn will_mount(&mut self, directory: &Path) -> Result<()> {
        let pipe = self.pipe.as_mut().context("the pipe is open until the end")?;
        pipe.write_all(directory.as_os_str().as_bytes())
            .context("the process that cleans up at the end is gone")
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // If a resource depends on this process, such as a loop device on a stalled disk, the caretaker can
        // remove it only after this process has ended.
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
    // A signal to all processes is meant for the server. The caretaker has to survive it.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default()).context("cannot ignore signals")?;
    }
    let directory = make_directory().context("cannot make a directory")?;
    // If the server has already ended, it does not read this.
    let _ = io::stdout().write_all(&[directory.as_os_str().as_bytes(), b"\0"].concat());
    let _ = io::stdout().flush();
    // The directory in which the server was started may be unmounted later.
    let _ = env::set_current_dir("/");
    let mut mount = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut mount);
    let mount = PathBuf::from(OsString::from_vec(mount));
    if mount.is_absolute() {
        remove_disk(&mount);
    }
    // A directory that is not empty stays, because its content is not ours.
    remove_sockets(&directory);
    let _ = fs::remove_dir(directory.join("mount"));
    let _ = fs::remove_dir(&directory);
    Ok(())
}

/// Removes the sockets of the server.
fn remove_sockets(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket())) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Detaches the loop devices on the mount, and unmounts it. It retries for a while, because the kernel may be
/// slow to release what a killed process had open.
fn remove_disk(mount: &Path) {
    for _ in 0..100 {
        drop(LoopDevice::all_over(&mount.join(FILE)));
        if unmount_abandoned(mount).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Other users may look for the disk in it. Nobody can guess its name, and make another file of that name first.
fn make_directory() -> io::Result<PathBuf> {
    let directory = std::path::absolute(env::temp_dir())?.join(format!("flashlab-{}", random_name()?));
    fs::create_dir(&directory).map(|()| directory)
}
