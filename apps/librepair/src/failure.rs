//! Errors as C programs see them: `errno`, and a message of the thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use flashlab_host::HostError;
use flashlab_repair::RepairError;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    errno: c_int,
    message: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, message: impl Into<String>) -> Failure {
        Failure { errno, message: message.into() }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Failure {
        let errno = match &error {
            HostError::System { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
            HostError::Refused { .. } | HostError::Locked { .. } | HostError::TargetChanged { .. } => {
                libc::EBUSY
            }
            HostError::WrongConsent { .. } => libc::EMEDIUMTYPE,
            _ => libc::EINVAL,
        };
        Failure::new(errno, error.to_string())
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Failure {
        let errno = match &error {
            RepairError::NoVolume => libc::EMEDIUMTYPE,
            RepairError::NoSuperblock | RepairError::Damaged { .. } | RepairError::Truncated { .. } => {
                libc::EUCLEAN
            }
            RepairError::OtherVersion(_) => libc::EPROTONOSUPPORT,
            RepairError::Memory { .. } => libc::ENOMEM,
            other => other.io_error().errno,
        };
        Failure::new(errno, error.to_string())
    }
}

/// What a function returns: its value, or `failed` with `errno` and the message set.
pub fn answer<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(libc::EIO, "flashlab failed inside; the volume takes no more calls"),
    };
    let message = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
    MESSAGE.with(|last| *last.borrow_mut() = message);
    // SAFETY: the C library's errno of this thread.
    unsafe { *libc::__errno_location() = failure.errno };
    failed
}

/// The message of this thread's last failure.
pub fn last_message() -> *const c_char {
    MESSAGE.with(|last| last.borrow().as_ptr())
}
