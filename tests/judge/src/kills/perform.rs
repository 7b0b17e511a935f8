//! Does the operations of a writer on real files.
//!
//! Invariant: a mapping lives for one operation, within the size that the file has; nobody else changes the size.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, copy_file_range, fallocate};
use rustix::io::ReadWriteFlags;

use super::operation::{Ground, How, Operation};
use crate::system::{Aligned, map, open_flags, write_all_with};

/// The files of a writer: a directory, or a part of a disk.
pub struct Place {
    pub ground: Ground,
    /// The directory, or the disk.
    pub path: PathBuf,
    /// Where its part of the disk begins.
    pub base: u64,
    /// Descriptors that stay open, by file and kind.
    open: BTreeMap<(char, u32), File>,
}

impl Place {
    pub fn new(ground: Ground, path: PathBuf, base: u64) -> Place {
        Place { ground, path, base, open: BTreeMap::new() }
    }

    /// Closes all descriptors, so that the next operation opens its file by name.
    pub fn close(&mut self) {
        self.open.clear();
    }

    fn name(&self, file: char) -> PathBuf {
        match self.ground {
            Ground::Files => self.path.join(file.to_string()),
            Ground::Disk { .. } => self.path.clone(),
        }
    }

    fn file(&mut self, file: char, flags: OFlags, append: bool) -> io::Result<&File> {
        let name = self.name(file);
        let key = (file, flags.bits() | u32::from(append) << 31);
        match self.open.entry(key) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(vacant) => {
                let mut options = OpenOptions::new();
                let options =
                    options.read(true).write(!append).append(append).custom_flags(open_flags(flags));
                Ok(vacant.insert(options.open(name)?))
            }
        }
    }

    /// Does it, with these bytes if it writes some.
    pub fn perform(&mut self, operation: &Operation, bytes: &[u8]) -> io::Result<()> {
        let base = self.base;
        let none = OFlags::empty();
        let direct_disk = if self.ground == (Ground::Disk { direct: true }) { OFlags::DIRECT } else { none };
        match *operation {
            Operation::Create { file } => {
                let made =
                    OpenOptions::new().read(true).write(true).create_new(true).open(self.name(file))?;
                drop(made);
            }
            Operation::Write { file, offset, how, .. } => self.write(file, base + offset, bytes, how)?,
            Operation::Append { file, dsync, .. } => {
                let flags = if dsync { OFlags::DSYNC } else { none };
                let mut file = self.file(file, flags, true)?;
                file.write_all(bytes)?;
            }
            Operation::Map { file, offset, length } => {
                let file = self.file(file, none, false)?;
                let mut mapping = map(file, base + offset + length)?;
                let begin = (base + offset) as usize;
                mapping[begin..].copy_from_slice(bytes);
                mapping.flush_range(begin, length as usize)?;
            }
            Operation::Truncate { file, size } => self.file(file, none, false)?.set_len(size)?,
            Operation::Punch { file, offset, length } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(self.file(file, direct_disk, false)?, flags, base + offset, length)?;
            }
            Operation::Allocate { file, offset, length } => {
                fallocate(self.file(file, none, false)?, FallocateFlags::empty(), offset, length)?;
            }
            Operation::Copy { from, to, offset, at, length } => {
                self.copy((from, offset), (to, at), length)?
            }
            Operation::Rename { from, to } => {
                fs::rename(self.name(from), self.name(to))?;
                self.open.retain(|&(file, _), _| file != from && file != to);
            }
            Operation::Unlink { file } => {
                fs::remove_file(self.name(file))?;
                self.open.retain(|&(open, _), _| open != file);
            }
            Operation::Fsync { file } => self.file(file, direct_disk, false)?.sync_all()?,
            Operation::Fdatasync { file } => self.file(file, direct_disk, false)?.sync_data()?,
            Operation::SyncDirectory => File::open(&self.path)?.sync_all()?,
        }
        Ok(())
    }

    fn write(&mut self, file: char, offset: u64, bytes: &[u8], how: How) -> io::Result<()> {
        let (flags, call) = match how {
            How::Plain => (OFlags::empty(), ReadWriteFlags::empty()),
            How::Direct => (OFlags::DIRECT, ReadWriteFlags::empty()),
            How::Dsync => (OFlags::DSYNC, ReadWriteFlags::empty()),
            How::Sync => (OFlags::SYNC, ReadWriteFlags::empty()),
            How::DirectDsync => (OFlags::DIRECT | OFlags::DSYNC, ReadWriteFlags::empty()),
            How::RwfDsync => (OFlags::empty(), ReadWriteFlags::DSYNC),
            How::RwfSync => (OFlags::empty(), ReadWriteFlags::SYNC),
        };
        let file = self.file(file, flags, false)?;
        if how.is_direct() {
            return file.write_all_at(Aligned::of(bytes).bytes(), offset);
        }
        if call.is_empty() {
            file.write_all_at(bytes, offset)
        } else {
            write_all_with(file, bytes, offset, call)
        }
    }

    fn copy(&mut self, from: (char, u64), to: (char, u64), mut length: u64) -> io::Result<()> {
        let (mut offset, mut at) = (from.1, to.1);
        let source = self.file(from.0, OFlags::empty(), false)?.try_clone()?;
        let target = self.file(to.0, OFlags::empty(), false)?;
        while length > 0 {
            match copy_file_range(&source, Some(&mut offset), target, Some(&mut at), length as usize)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                copied => length -= copied as u64,
            }
        }
        Ok(())
    }
}

/// The bytes of the files that are there, or of a part of a disk as the file `a`.
pub fn read_files(place: &Place, disk_part: u64) -> io::Result<super::model::Files> {
    let mut files = super::model::Files::new();
    if let Ground::Disk { .. } = place.ground {
        let mut bytes = Aligned::new(disk_part as usize);
        let flags = open_flags(OFlags::DIRECT);
        let disk = OpenOptions::new().read(true).custom_flags(flags).open(&place.path)?;
        disk.read_exact_at(bytes.bytes_mut(), place.base)?;
        files.insert('a', bytes.bytes().to_vec());
        return Ok(files);
    }
    if !place.path.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(&place.path)? {
        let path = entry?.path();
        files.insert(name_of(&path)?, fs::read(&path)?);
    }
    Ok(files)
}

fn name_of(path: &Path) -> io::Result<char> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok(letter),
        _ => Err(io::Error::other(format!("{} is a file that no writer made", path.display()))),
    }
}
