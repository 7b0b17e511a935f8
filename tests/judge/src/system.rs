//! System calls that the standard library lacks, and memory mappings: the only unsafe code of the judge.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::ptr;

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};

/// What direct IO has to be aligned to: the largest logical block of a usual device.
pub const ALIGNMENT: u64 = 4096;

/// Maps the first `length` bytes of a file, shared and writable.
pub fn map(file: &File, length: u64) -> io::Result<MmapMut> {
    // SAFETY: Only this thread changes the file's size, and it checks the size before each access (see `fsx::entry` and
    // `kills::perform`). Other changes of the bytes are what the judge looks for; they are read as plain bytes.
    unsafe { MmapOptions::new().len(length as usize).map_mut(file) }
}

/// Flags of `open` for the standard library.
pub fn open_flags(flags: OFlags) -> i32 {
    flags.bits() as i32
}

/// Writes all bytes with flags of `pwritev2`, such as `RWF_DSYNC`.
pub fn write_all_with(
    file: impl AsFd,
    mut bytes: &[u8],
    mut offset: u64,
    flags: ReadWriteFlags,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = pwritev2(&file, &[io::IoSlice::new(bytes)], offset, flags)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Memory that direct IO takes.
pub struct Aligned {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    /// `length` zeroes.
    pub fn new(length: usize) -> Aligned {
        let memory = vec![0; length + ALIGNMENT as usize];
        let begin = memory.as_ptr().align_offset(ALIGNMENT as usize);
        Aligned { memory, begin, length }
    }

    /// A copy of these bytes.
    pub fn of(bytes: &[u8]) -> Aligned {
        let mut aligned = Aligned::new(bytes.len());
        aligned.bytes_mut().copy_from_slice(bytes);
        aligned
    }

    pub fn bytes(&self) -> &[u8] {
        debug_assert!(ptr::from_ref(&self.memory[self.begin]).addr().is_multiple_of(ALIGNMENT as usize));
        &self.memory[self.begin..][..self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..][..self.length]
    }
}
