//! A volume for programs in C: the functions of `include/flashlab_volume.h`.
//!
//! # Model
//! (Stoica et al., "Evaluating and Repairing Write Performance on Flash Devices", DaMoN 2009, section 3: a library with
//! `pread` and `pwrite`.) Each function checks its arguments, calls the [`SharedVolume`](flashlab_repair::SharedVolume), and turns an error into `errno`
//! and a message of the thread. A thread of the volume packs while no call comes.
//!
//! # Invariants
//! - Nothing unwinds into C: a panic is EIO, and every later call on the volume fails.
//! - A process that was forked cannot write to the volume: the map has one owner.

mod failure;
mod volume;

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

pub use volume::CVolume;

use failure::{Failure, answer};

/// See the header.
///
/// # Safety
/// `path` is a string that ends with a zero byte, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashlab_volume_open(path: *const c_char) -> *mut CVolume {
    let open = || {
        if path.is_null() {
            return Err(Failure::new(libc::EFAULT, "the path is NULL"));
        }
        // SAFETY: it is not null, so it is a string, as the caller promises.
        let path = unsafe { CStr::from_ptr(path) };
        let volume = CVolume::open(Path::new(OsStr::from_bytes(path.to_bytes())))?;
        Ok(Box::into_raw(Box::new(volume)))
    };
    answer(ptr::null_mut(), open)
}

/// See the header.
///
/// # Safety
/// `volume` comes from [`flashlab_volume_open`] and was not closed, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashlab_volume_size(volume: *const CVolume) -> u64 {
    // SAFETY: as the caller promises.
    answer(0, || Ok(unsafe { used(volume) }?.size()))
}

/// See the header.
///
/// # Safety
/// As for [`flashlab_volume_size`], and `buffer` has `count` bytes that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashlab_volume_pread(
    volume: *mut CVolume,
    buffer: *mut c_void,
    count: usize,
    offset: i64,
) -> isize {
    answer(-1, || {
        // SAFETY: as the caller promises.
        let volume = unsafe { used(volume) }?;
        let count = volume.part(offset, count)?;
        if count == 0 {
            return Ok(0);
        }
        if buffer.is_null() {
            return Err(Failure::new(libc::EFAULT, "the buffer is NULL"));
        }
        // SAFETY: the caller promises these bytes; what they hold is overwritten.
        let data = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count) };
        volume.read(offset as u64, data)?;
        Ok(count as isize)
    })
}

/// See the header.
///
/// # Safety
/// As for [`flashlab_volume_size`], and `buffer` has `count` bytes that nobody changes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashlab_volume_pwrite(
    volume: *mut CVolume,
    buffer: *const c_void,
    count: usize,
    offset: i64,
) -> isize {
    answer(-1, || {
        // SAFETY: as the caller promises.
        let volume = unsafe { used(volume) }?;
        let part = volume.part(offset, count)?;
        if part == 0 {
            return match count {
                0 => Ok(0),
                _ => Err(Failure::new(libc::ENOSPC, "the range begins beyond the volume")),
            };
        }
        if buffer.is_null() {
            return Err(Failure::new(libc::EFAULT, "the buffer is NULL"));
        }
        // SAFETY: the caller promises these bytes.
        let data = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), part) };
        volume.write(offset as u64, data)?;
        Ok(part as isize)
    })
}

/// See the header.
///
/// # Safety
/// As for [`flashlab_volume_size`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashlab_volume_fsync(volume: *mut CVolume) -> c_int {
    // SAFETY: as the caller promises.
    answer(-1, || unsafe { used(volume) }?.flush().map(|()| 0))
}

/// See the header.
///
/// # Safety
/// As for [`flashlab_volume_size`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashlab_volume_discard(volume: *mut CVolume, offset: i64, length: i64) -> c_int {
    answer(-1, || {
        let negative = |_| Failure::new(libc::EINVAL, "the length is negative");
        let length = usize::try_from(length).map_err(negative)?;
        // SAFETY: as the caller promises.
        let volume = unsafe { used(volume) }?;
        let length = volume.part(offset, length)?;
        volume.discard(offset as u64, length as u64).map(|()| 0)
    })
}

/// See the header.
///
/// # Safety
/// As for [`flashlab_volume_size`]; it is closed after that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashlab_volume_close(volume: *mut CVolume) -> c_int {
    answer(-1, || {
        // SAFETY: as the caller promises.
        unsafe { used(volume) }?;
        // SAFETY: it came from `Box::into_raw`, and the caller uses it no more.
        let volume = unsafe { Box::from_raw(volume) };
        volume.close().map(|()| 0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flashlab_volume_error() -> *const c_char {
    failure::last_message()
}

/// The volume behind a pointer, for the process that opened it.
///
/// # Safety
/// The pointer comes from [`flashlab_volume_open`] and was not closed, or is null.
unsafe fn used<'a>(volume: *const CVolume) -> Result<&'a CVolume, Failure> {
    // SAFETY: as the caller promises.
    let volume = unsafe { volume.as_ref() };
    let volume = volume.ok_or_else(|| Failure::new(libc::EBADF, "the volume is NULL"))?;
    volume.check_process()?;
    Ok(volume)
}
