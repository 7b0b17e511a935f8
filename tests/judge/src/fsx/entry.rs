//! A file with its descriptors, its mapping, and the bytes that it has to have.
//!
//! Invariant: the mapping is only used up to the file's size, and only this thread changes the size.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use memmap2::MmapMut;
use rustix::fs::OFlags;

use crate::system::{map, open_flags};

/// A file of the test.
pub struct Entry {
    /// Without one after it was unlinked or replaced.
    pub name: Option<PathBuf>,
    /// What it has to have.
    pub data: Vec<u8>,
    pub file: File,
    appending: [Option<File>; 2],
    direct: Option<File>,
    mapping: Option<MmapMut>,
}

impl Entry {
    /// Makes a new file.
    pub fn create(name: &Path) -> io::Result<Entry> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(name)?;
        Ok(Entry {
            name: Some(name.to_owned()),
            data: Vec::new(),
            file,
            appending: [None, None],
            direct: None,
            mapping: None,
        })
    }

    /// Closes all descriptors and the mapping, and opens the file anew.
    pub fn reopen(&mut self) -> io::Result<()> {
        let Some(name) = &self.name else { return Ok(()) };
        (self.mapping, self.appending, self.direct) = (None, [None, None], None);
        self.file = OpenOptions::new().read(true).write(true).open(name)?;
        Ok(())
    }

    /// A descriptor for direct IO. `None`: the file has no name to open it by.
    pub fn direct(&mut self) -> io::Result<Option<&File>> {
        if let (None, Some(name)) = (&self.direct, &self.name) {
            let flags = open_flags(OFlags::DIRECT);
            self.direct = Some(OpenOptions::new().read(true).write(true).custom_flags(flags).open(name)?);
        }
        Ok(self.direct.as_ref())
    }

    /// One of two descriptors that append. `None`: the file has no name to open it by.
    pub fn appending(&mut self, index: usize) -> io::Result<Option<&File>> {
        if let (None, Some(name)) = (&self.appending[index], &self.name) {
            self.appending[index] = Some(OpenOptions::new().append(true).open(name)?);
        }
        Ok(self.appending[index].as_ref())
    }

    /// The mapping, which reaches to the end of the file at least. `None`: the file is empty.
    pub fn mapping(&mut self) -> io::Result<Option<&mut MmapMut>> {
        if self.data.is_empty() {
            return Ok(None);
        }
        if self.mapping.as_ref().is_none_or(|mapping| mapping.len() < self.data.len()) {
            self.mapping = Some(map(&self.file, self.data.len() as u64)?);
        }
        Ok(self.mapping.as_mut())
    }

    /// The model of a write.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset as usize..end].copy_from_slice(bytes);
    }

    /// The model of zeroes within the size.
    pub fn zero(&mut self, offset: u64, length: u64) {
        let size = self.data.len();
        let range = (offset as usize).min(size)..((offset + length) as usize).min(size);
        self.data[range].fill(0);
    }

    /// What the model has from there on.
    pub fn expected(&self, offset: u64, length: u64) -> &[u8] {
        let size = self.data.len();
        &self.data[(offset as usize).min(size)..((offset + length) as usize).min(size)]
    }

    /// Compares the size, the number of names and the kind with the model.
    pub fn check_status(&self) -> Result<(), String> {
        let status = self.file.metadata().map_err(|error| format!("fstat: {error}"))?;
        let names = u64::from(self.name.is_some());
        if status.len() != self.data.len() as u64 {
            return Err(format!("fstat has a size of {}, not {}", status.len(), self.data.len()));
        }
        if status.nlink() != names {
            return Err(format!("fstat counts {} names, not {names}", status.nlink()));
        }
        Ok(())
    }
}
