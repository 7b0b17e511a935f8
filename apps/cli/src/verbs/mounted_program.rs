//! `flashlab mounted-program`: the process that becomes the program of `repair run`, which alone starts it.
//!
//! # Method
//! 1. Standard input is a socket, through which the program's standard input comes.
//! 2. It enters a mount namespace of its own, mounts FUSE over the first directory, and passes the descriptor to `repair run`.
//! 3. When that serves the files, it makes the directories on the volume that are missing, and copies files in.
//! 4. It mounts each of them over its directory, and becomes the program.
//!
//! # Invariants
//! - It keeps no descriptor of FUSE or of a directory beneath. So the files' requests fail when their server ends, whoever is left.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_export::fuse::FILES_NAME;
use flashlab_export::merged::MERGED_NAME;
use flashlab_host::{enter_mount_namespace, mount_fuse, mount_subtrees};
use signal_hook::consts::SIGTERM;

use super::repair::copy_in::NewDirectory;
use super::repair::managed::{ManagedDirectory, managed_directories};
use super::repair::passed;
use crate::exit::{Refused, Usage};
use crate::interrupt::hangup;

/// Become the program of `repair run`: started by it
#[derive(Args)]
pub struct MountedProgram {
    /// As `repair run` has it
    #[arg(long, required = true)]
    files: Vec<PathBuf>,
    /// Copy what the directories hold to the volume
    #[arg(long)]
    copy_in: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl MountedProgram {
    /// Becomes the program.
    pub fn run(self) -> Result<()> {
        let socket = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
        let (input, _) = passed::receive(&socket).context("only `flashlab repair run` starts this")?;
        rustix::stdio::dup2_stdin(&input).context("cannot take the program's standard input")?;
        let work_directory = std::env::current_dir();
        enter_mount_namespace().map_err(not_possible)?;
        let managed = managed_directories(&self.files)?;
        let beneath: Vec<File> = managed.iter().map(open_beneath).collect::<Result<_>>()?;
        let mounted = &managed[0].path;
        let fuse = mount_fuse(FILES_NAME, mounted).map_err(not_possible)?;
        let namespace = fs::read_link("/proc/self/ns/mnt").context("cannot read /proc/self/ns/mnt")?;
        passed::send(&socket, &fuse, &namespace.to_string_lossy()).context("repair run has ended")?;
        drop(fuse);
        if (&socket).read(&mut [0]).unwrap_or(0) == 0 {
            // Whoever started this has said why.
            std::process::exit(1);
        }
        // The program has none of these handlers: a new program begins without those of the old one.
        let ends = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM].into_iter().chain(hangup()) {
            signal_hook::flag::register(signal, Arc::clone(&ends)).context("cannot listen to signals")?;
        }
        let mut subtrees = Vec::new();
        for (index, (directory, beneath)) in managed.iter().zip(beneath).enumerate() {
            NewDirectory { volume: mounted, directory, beneath, ends: &ends }.prepare(self.copy_in)?;
            let inside = match directory.is_whole() {
                true => directory.on_volume().to_owned(),
                false => PathBuf::from(format!("{MERGED_NAME}{index}")),
            };
            subtrees.push((inside, directory.path.clone()));
        }
        mount_subtrees(mounted, &subtrees)?;
        if let Ok(path) = work_directory {
            // It may be a directory that another one is mounted over now.
            std::env::set_current_dir(&path).map_err(|error| {
                Usage(format!(
                    "the current directory {} is not on the volume ({error}): start in another one",
                    path.display()
                ))
            })?;
        }
        if ends.load(Ordering::Relaxed) {
            bail!("a signal ended it before the program began");
        }
        let error = Command::new(&self.command[0]).args(&self.command[1..]).exec();
        bail!(Usage(format!("cannot start {}: {error}", Path::new(&self.command[0]).display())))
    }
}

/// Why there is no private mount here, and what to do.
fn not_possible(error: flashlab_host::HostError) -> Refused {
    let advice = match Path::new("/dev/fuse").exists() {
        true => "run it as root, or use `flashlab repair mount`",
        // A mount for all processes needs it as well.
        false => {
            "there is no /dev/fuse: load the driver with `modprobe fuse`, or give the container the device (`docker run --device \
             /dev/fuse`)"
        }
    };
    Refused(format!(
        "{error}: `repair run` mounts with FUSE where only the program sees it, for which it needs /dev/fuse, and root or user \
         namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0); {advice}; nothing was \
         started"
    ))
}

fn open_beneath(directory: &ManagedDirectory) -> Result<File> {
    File::open(&directory.path).with_context(|| format!("cannot open {}", directory.path.display()))
}
