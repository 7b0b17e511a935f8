//! What happens when a process starts with this library.

use std::ffi::{CStr, CString, c_int};

use flashlab_repair::{CALLS_PATTERNS, CALLS_SOCKET, DESCRIPTOR_NAME};

use crate::connection;
use crate::descriptors::{self, Managed};
use crate::kernel;
use crate::paths;
use crate::refused;
use crate::streams;

/// Descriptors that a process may have inherited are looked for below this one.
const INHERITED_MAX: c_int = 1024;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let (Some(socket), Some(patterns)) = (variable(CALLS_SOCKET), variable(CALLS_PATTERNS)) else { return };
    if !connection::set_address(socket) || !paths::set_patterns(patterns) {
        kernel::say(&[b"the environment of flashlab repair run was changed: this process is not started"]);
        // SAFETY: it ends the process, which has not begun.
        unsafe { libc::_exit(126) };
    }
    refused::refuse_asynchronous_io();
    adopt();
    streams::replace_standard_streams();
}

fn variable(name: &str) -> Option<&'static [u8]> {
    let name = CString::new(name).ok()?;
    // SAFETY: the environment's strings stay, and end with zero bytes.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

/// Finds the descriptors of managed files that this program inherited over `exec`.
fn adopt() {
    let mut path = [0; 128];
    for fd in 0..INHERITED_MAX {
        let Some(length) = kernel::path_of(fd, &mut path) else { continue };
        let Some(name) = path[..length].strip_prefix(b"/memfd:") else { continue };
        let Some(name) = name.strip_prefix(DESCRIPTOR_NAME.as_bytes()) else { continue };
        let digits = name.iter().take_while(|byte| byte.is_ascii_digit());
        let file = digits.fold(0_u64, |number, digit| number.wrapping_mul(10) + u64::from(digit - b'0'));
        let flags = kernel::fcntl(fd, libc::F_GETFL, 0);
        descriptors::put(fd, Managed::new(file, flags));
    }
    connection::hold_all();
}
