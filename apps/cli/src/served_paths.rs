//! The paths at which servers are found: control sockets and directories. What is wrong with one, and what to do.

use std::fmt::Display;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::{fs, io};

use anyhow::{Result, bail};

use crate::exit::Usage;
use crate::output_part::folder_of;

/// Fails if no control socket can be made there. Call it before a volume is opened.
pub fn check_control(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let wrong = if path.is_dir() {
        Some("it is a directory")
    } else if !folder_of(path).is_dir() {
        Some("its folder does not exist")
    } else {
        let is_other = |found: fs::Metadata| !found.file_type().is_socket();
        path.symlink_metadata().is_ok_and(is_other).then_some("it exists, and is no socket")
    };
    match wrong {
        Some(why) => bail!(no_control_socket(path, &why)),
        None => Ok(()),
    }
}

/// Why there is no control socket, and what to do.
pub fn no_control_socket(path: &Path, why: &dyn Display) -> Usage {
    Usage(format!(
        "cannot make the control socket {}: {why}; --control takes the name of a new socket in a folder that exists",
        path.display()
    ))
}

/// What to do about a directory that cannot be used for this reason; empty: nothing that is known.
pub fn advice_on_directory(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotConnected => {
            "; the server of the files that were mounted there was killed: mount them again with `flashlab repair mount`, or give the \
             directory beneath back with `umount`"
        }
        _ => "",
    }
}
