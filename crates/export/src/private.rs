//! Names that nobody can guess: in a shared directory another user could have put a link under any other name.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// A random name, in the form of a UUID.
///
/// # Errors
/// When /proc is not mounted.
pub fn random_name() -> io::Result<String> {
    const SOURCE: &str = "/proc/sys/kernel/random/uuid";
    let text = fs::read_to_string(SOURCE)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot read {SOURCE}: {error}")))?;
    Ok(text.trim().to_owned())
}

/// A new directory in the temporary directory, which only this user can use.
///
/// # Errors
/// When the temporary directory cannot be written, or /proc is not mounted.
pub fn private_directory() -> io::Result<PathBuf> {
    let directory = std::env::temp_dir().join(format!("flashlab-{}", random_name()?));
    let made = DirBuilder::new().mode(0o700).create(&directory);
    made.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot make the directory {}: {error}", directory.display()))
    })?;
    Ok(directory)
}
