//! Retries operations that fail only for a moment.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a device may be claimed before it counts as in use. A program that only checks whether the device
/// is free, as [`claim_block_device`] does, claims it for a moment, too. The claim ends when the kernel has
/// written out the data of other programs.
pub(crate) const CLAIM_TIME: Duration = Duration::from_secs(1);

/// Retries an operation until `limit` is over, while it fails with an error of this kind.
pub(crate) fn retry<T>(
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

/// Opens a file exclusively, with these options.
pub(crate) fn open_exclusively(path: &Path, options: &OpenOptions, flags: libc::c_int) -> io::Result<File> {
    let mut options = options.clone();
    options.custom_flags(libc::O_EXCL | flags);
    retry(ErrorKind::ResourceBusy, CLAIM_TIME, || options.open(path))
}

/// Opens a block device exclusively for reading. It fails if the device is in use.
///
/// # Errors
/// The kernel's; [`ErrorKind::ResourceBusy`] if another program has claimed it.
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
        assert_eq!(retry(ErrorKind::ResourceBusy, limit, &mut busy_twice).unwrap(), 3);
        attempts = 0;
        let missing = retry(ErrorKind::ResourceBusy, limit, || {
            attempts += 1;
            Err::<(), _>(io::Error::from(ErrorKind::NotFound))
        });
        assert_eq!((missing.unwrap_err().kind(), attempts), (ErrorKind::NotFound, 1));
        let busy = || Err::<(), _>(io::Error::from(ErrorKind::ResourceBusy));
        let held = retry(ErrorKind::ResourceBusy, Duration::ZERO, busy);
        assert_eq!(held.unwrap_err().kind(), ErrorKind::ResourceBusy);
    }
}
