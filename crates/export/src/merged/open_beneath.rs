//! What programs have open beneath: files, and listings of directories.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fuser::{FileHandle, FileType};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::files_fuse::{SEEK_DATA, SEEK_HOLE};
use crate::locks::lock;

/// A directory's content as it was when it was opened: numbers, kinds and names.
pub(super) type Listing = Vec<(u64, FileType, Vec<u8>)>;

/// What is open, by the numbers that the kernel has for it.
pub(super) struct Opened<T> {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<T>>>,
}

impl<T> Default for Opened<T> {
    fn default() -> Self {
        Opened { next: AtomicU64::new(1), open: Mutex::default() }
    }
}

impl<T> Opened<T> {
    pub(super) fn add(&self, opened: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).insert(number, Arc::new(opened));
        FileHandle(number)
    }

    pub(super) fn get(&self, handle: FileHandle) -> Result<Arc<T>, Errno> {
        lock(&self.open).get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn close(&self, handle: FileHandle) {
        lock(&self.open).remove(&handle.0);
    }
}

#[derive(Default)]
pub(super) struct OpenBeneath {
    pub(super) files: Opened<File>,
    pub(super) listings: Opened<Listing>,
}

impl OpenBeneath {
    pub(super) fn read(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let file = self.files.get(handle)?;
        let mut data = vec![0; size as usize];
        let mut length = 0;
        while length < data.len() {
            match file.read_at(&mut data[length..], offset + length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        data.truncate(length);
        Ok(data)
    }

    pub(super) fn write(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.files.get(handle)?.write_all_at(data, offset).map_err(|error| errno(&error))
    }

    /// Writes where the file ends now, which may be later than the kernel knows.
    pub(super) fn append(&self, handle: FileHandle, mut data: &[u8]) -> Result<(), Errno> {
        let file = self.files.get(handle)?;
        while !data.is_empty() {
            match pwritev2(&*file, &[IoSlice::new(data)], 0, ReadWriteFlags::APPEND) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => data = &data[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn sync(&self, handle: FileHandle, data_only: bool) -> Result<(), Errno> {
        let file = self.files.get(handle)?;
        if data_only { rustix::fs::fdatasync(&*file) } else { rustix::fs::fsync(&*file) }
    }

    pub(super) fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        rustix::fs::fallocate(&*self.files.get(handle)?, mode, offset, length)
    }

    /// The next data or hole.
    pub(super) fn seek(&self, handle: FileHandle, offset: i64, whence: i32) -> Result<i64, Errno> {
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let to = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        Ok(rustix::fs::seek(&*self.files.get(handle)?, to)? as i64)
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appending_keeps_what_others_appended_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let open = OpenBeneath::default();
        let handle = open.files.add(File::create(&path).unwrap());
        open.append(handle, b"in ").unwrap();
        std::io::Write::write_all(&mut File::options().append(true).open(&path).unwrap(), b"out ").unwrap();
        open.append(handle, b"in").unwrap();
        open.write(handle, 0, b"I").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"In out in");
    }
}
