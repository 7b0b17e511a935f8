//! Finds the programs that have a device or file open for writing.
//!
//! # Model
//! `/proc/PID/fd` has a link for each open file of a process, and `/proc/PID/fdinfo` the flags that it was opened with. A
//! program that has the target open for writing may write to it while it is measured, or loses what it wrote before.
//! It need not have opened it exclusively: `dd`, an editor of partitions and virtual machines do not.
//!
//! # Limits
//! - Only root sees the files of other users' processes, and a container sees its own processes alone.
//! - A file that was mapped and then closed is not found.
//! - Programs such as udev and `losetup --find` open any device for a moment: what is closed again soon does not count ([`Writer::lasts`]).
//!
//! # Invariants
//! - Nothing is opened but files of `/proc`, and no file system is asked that might not answer: the kernel says what it knows.
//! - This process is left out, and its children until they run their programs.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::node::Node;
use crate::process_status::ProcessStatus;

/// A process that has a file or device open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) node: Node,
    pub(crate) process: u32,
    /// The name of its program.
    pub(crate) program: String,
}

/// How long a program may have a device open that only looks at it.
const MOMENT: Duration = Duration::from_millis(300);

impl Writer {
    /// Whether the process has it open for more than a moment. Waits for that moment.
    pub(crate) fn lasts(&self) -> bool {
        thread::sleep(MOMENT);
        let folder = PathBuf::from(format!("/proc/{}", self.process));
        open_for_writing(&folder).any(|node| node == self.node)
    }
}

/// All files and block devices that other processes have open for writing, each process once a file.
pub(crate) fn writers() -> Vec<Writer> {
    let own = std::process::id();
    let mut writers: Vec<Writer> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(process) = process.filter(|&process| process != own) else { continue };
        let folder = entry.path();
        let program = || {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            name.trim().chars().filter(|character| !character.is_control()).collect()
        };
        let before = writers.len();
        for node in open_for_writing(&folder) {
            if !writers[before..].iter().any(|known| known.node == node)
                && !is_copy_of_this((process, &folder), own)
            {
                writers.push(Writer { node, process, program: program() });
            }
        }
    }
    writers
}

/// The files and block devices that the process of a folder of `/proc` has open for writing.
fn open_for_writing(folder: &Path) -> impl Iterator<Item = Node> {
    let descriptors = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| {
        // Sockets, pipes and the like are no targets.
        let is_path =
            fs::read_link(descriptor.path()).is_ok_and(|link| link.as_os_str().as_bytes().starts_with(b"/"));
        let is_target = is_path && is_for_writing(&folder.join("fdinfo").join(descriptor.file_name()));
        is_target.then(|| Node::known_at(&descriptor.path())).flatten()
    })
}

/// Whether a process is a child that this one has just made, before it runs its program: it has all open files of this one until
/// then.
fn is_copy_of_this((process, folder): (u32, &Path), own: u32) -> bool {
    let parent = ProcessStatus::of(process).map(|status| status.parent);
    let program = |path: &Path| fs::read_link(path).ok();
    parent == Some(own) && program(&folder.join("exe")) == program(Path::new("/proc/self/exe"))
}

/// Whether the flags in a file of `/proc/PID/fdinfo` are those of an open file that takes writes.
fn is_for_writing(fdinfo: &Path) -> bool {
    let text = fs::read_to_string(fdinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i64::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| {
        let access = flags & i64::from(libc::O_ACCMODE);
        let is_path_only = flags & i64::from(libc::O_PATH) != 0;
        !is_path_only && access != i64::from(libc::O_RDONLY)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::process::{Command, Stdio};

    use super::*;

    /// The writers of this file among the processes of the machine.
    fn of(path: &Path) -> Vec<Writer> {
        let node = Node::at(path).unwrap();
        writers().into_iter().filter(|writer| writer.node == node).collect()
    }

    #[test]
    fn another_program_is_found_and_readers_and_this_process_are_not() {
        let path = std::env::temp_dir().join(format!("flashlab-writers-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        assert_eq!(of(&path), [], "this process has it open");
        let start = |stdin: Stdio| Command::new("sleep").arg("60").stdin(stdin).spawn().unwrap();
        let mut reader = start(fs::File::open(&path).unwrap().into());
        assert_eq!(of(&path), []);
        let mut writer = start(file.into());
        let found = of(&path);
        let process = writer.id();
        assert!(found.iter().all(Writer::lasts), "{found:?}");
        for child in [&mut reader, &mut writer] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found.iter().map(|writer| writer.process).collect::<Vec<_>>(), [process]);
        assert_eq!(of(&path), []);
        assert!(!found.iter().any(Writer::lasts), "what has ended does not write");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn flags_are_octal_and_damaged_ones_are_no_writers() {
        let path = std::env::temp_dir().join(format!("flashlab-fdinfo-{}", std::process::id()));
        for (text, expected) in [
            ("pos:\t0\nflags:\t0100002\nmnt_id:\t9\n", true),
            ("flags:\t0100001\n", true),
            ("flags:\t0100000\n", false),
            ("flags:\t012000002\n", false),
            ("flags:\tx\n", false),
            ("", false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(is_for_writing(&path), expected, "{text}");
        }
        fs::remove_file(path).unwrap();
    }
}
