//! Trying again what fails only for a moment.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a device may be held before it counts as in use: somebody who only looks whether it is
/// free, as [`claim_block_device`] does, holds it for a moment, too, until the kernel has written out what
/// others wrote to it.
pub(crate) const A_LOOK: Duration = Duration::from_secs(1);

/// Tries again until `limit` is over, while the error is of this kind.
pub(crate) fn patiently<T>(
    kind: ErrorKind,
    limit: Duration,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == kind && begun.elapsed() < limit => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// Opens with these options, and for nobody else.
pub(crate) fn open_exclusively(path: &Path, options: &OpenOptions, flags: libc::c_int) -> io::Result<File> {
    let mut options = options.clone();
    options.custom_flags(libc::O_EXCL | flags);
    patiently(ErrorKind::ResourceBusy, A_LOOK, || options.open(path))
}

/// Opens a block device to read, and for nobody else: whether it is in use.
///
/// # Errors
/// The kernel's; [`ErrorKind::ResourceBusy`] where somebody else has claimed it.
pub fn claim_block_device(path: &Path) -> io::Result<File> {
    open_exclusively(path, OpenOptions::new().read(true), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_for_a_moment_is_tried_again_and_other_errors_are_not() {
        let mut attempts = 0;
        let mut busy_twice = || {
            attempts += 1;
            if attempts < 3 { Err(io::Error::from(ErrorKind::ResourceBusy)) } else { Ok(attempts) }
        };
        let limit = Duration::from_secs(60);
        assert_eq!(patiently(ErrorKind::ResourceBusy, limit, &mut busy_twice).unwrap(), 3);
        attempts = 0;
        let missing = patiently(ErrorKind::ResourceBusy, limit, || {
            attempts += 1;
            Err::<(), _>(io::Error::from(ErrorKind::NotFound))
        });
        assert_eq!((missing.unwrap_err().kind(), attempts), (ErrorKind::NotFound, 1));
        let busy = || Err::<(), _>(io::Error::from(ErrorKind::ResourceBusy));
        let held = patiently(ErrorKind::ResourceBusy, Duration::ZERO, busy);
        assert_eq!(held.unwrap_err().kind(), ErrorKind::ResourceBusy);
    }
}
