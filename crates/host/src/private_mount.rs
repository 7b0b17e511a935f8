//! Mounts that only this process and the programs that it starts see.
//!
//! # Model
//! A mount namespace lives as long as a process in it. With the last one the kernel unmounts what was mounted in it. Root may make one;
//! other users may in a user namespace of their own, in which they keep their numbers and gain nothing.
//!
//! # Method
//! 1. [`enter_mount_namespace`]: what others mount later arrives here, and what this process mounts stays here.
//! 2. [`mount_fuse`]: a FUSE file system over a directory. Whoever has the returned descriptor serves it.
//! 3. [`mount_subtrees`]: directories of that file system over other directories, in its place.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use crate::error::HostError;

/// Gives this process a mount namespace of its own. It must not have other threads yet.
///
/// # Errors
/// When this user may make none.
pub fn enter_mount_namespace() -> Result<(), HostError> {
    match unshare(UnshareFlags::NEWNS) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) => {
            enter_user_namespace()?
        }
        Err(error) => return Err(failed("make a mount namespace with", "unshare", error)),
    }
    let flags = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    mount_change("/", flags).map_err(|error| failed("keep mounts private in", "/", error.into()))
}

/// A user namespace in which this user and its group have the numbers that they have outside, with a mount namespace.
fn enter_user_namespace() -> Result<(), HostError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|error| {
        // Linux's word for a limit that is reached, also for one of 0.
        let error = match error.kind() {
            io::ErrorKind::StorageFull => io::Error::other("no more are allowed (user.max_user_namespaces)"),
            _ => error,
        };
        failed("make a user namespace with", "unshare", error)
    })?;
    let files = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in files {
        std::fs::write(file, text).map_err(|error| failed("write", file, error))?;
    }
    Ok(())
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: descriptors stay shared (no CLONE_FILES), which is all that the caller has to promise.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Mounts a FUSE file system over a directory, and returns the descriptor through which it is served. Nobody may close it
/// while the file system is in use.
///
/// # Errors
/// When FUSE is missing or not permitted.
pub fn mount_fuse(source: &str, directory: &Path) -> Result<OwnedFd, HostError> {
    const DEVICE: &str = "/dev/fuse";
    const DIRECTORY_MODE: &str = "40755";
    let opened: io::Result<File> = OpenOptions::new().read(true).write(true).open(DEVICE);
    let fuse = opened.map_err(|error| failed("open", DEVICE, error))?;
    let options = format!(
        "fd={},rootmode={DIRECTORY_MODE},user_id={},group_id={},allow_other,default_permissions\0",
        fuse.as_raw_fd(),
        geteuid().as_raw(),
        getegid().as_raw(),
    );
    let options =
        std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).expect("it ends with its only zero");
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    mount(source, directory, "fuse", flags, options)
        .map_err(|error| failed("mount FUSE on", directory, error.into()))?;
    Ok(fuse.into())
}

/// Mounts directories of what is mounted on `mounted` over others, and unmounts it there: pairs of a path in it and of the directory.
///
/// # Errors
/// When a directory is missing, or nobody serves the file system.
pub fn mount_subtrees(mounted: &Path, subtrees: &[(PathBuf, PathBuf)]) -> Result<(), HostError> {
    let trees = subtrees.iter().map(|(inside, over)| {
        let from = mounted.join(inside);
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, &from, flags).map_err(|error| failed("open", &from, error.into()))?;
        Ok((tree, over))
    });
    let trees: Vec<(OwnedFd, &PathBuf)> = trees.collect::<Result<_, HostError>>()?;
    unmount(mounted, UnmountFlags::DETACH).map_err(|error| failed("unmount", mounted, error.into()))?;
    for (tree, over) in trees {
        move_mount(tree, "", CWD, over, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .map_err(|error| failed("mount on", over, error.into()))?;
    }
    Ok(())
}

fn failed(attempt: &'static str, path: impl AsRef<Path>, error: io::Error) -> HostError {
    HostError::system(attempt, path.as_ref(), error)
}
