//! Does one operation on a file and on its model, and compares what is read.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, FallocateFlags, SeekFrom, copy_file_range, fadvise, fallocate, seek};
use rustix::io::{Errno, ReadWriteFlags};

use super::entry::Entry;
use crate::system::{Aligned, write_all_with};

/// Why an operation did not have its effect.
pub enum Trouble {
    /// The file system does not have this operation; nothing was changed.
    Unsupported,
    /// A wrong answer.
    Wrong(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        match Errno::from_io_error(&error) {
            Some(Errno::OPNOTSUPP | Errno::NOSYS) => Trouble::Unsupported,
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Trouble {
        Trouble::from(io::Error::from(error))
    }
}

type Done = Result<(), Trouble>;

pub fn read(entry: &Entry, offset: u64, length: u64) -> Done {
    let mut bytes = vec![0; length as usize];
    let count = read_until_end(&entry.file, &mut bytes, offset)?;
    compare(entry, offset, length, &bytes[..count], "read")
}

pub fn read_direct(entry: &mut Entry, offset: u64, length: u64) -> Done {
    let mut bytes = Aligned::new(length as usize);
    let Some(file) = direct(entry)? else { return Ok(()) };
    // A second read behind the end would not be aligned.
    let count = file.read_at(bytes.bytes_mut(), offset)?;
    compare(entry, offset, length, &bytes.bytes()[..count], "direct read")
}

pub fn write(entry: &mut Entry, offset: u64, bytes: &[u8]) -> Done {
    entry.file.write_all_at(bytes, offset)?;
    entry.write(offset, bytes);
    Ok(())
}

pub fn write_synced(entry: &mut Entry, offset: u64, bytes: &[u8]) -> Done {
    write_all_with(&entry.file, bytes, offset, ReadWriteFlags::DSYNC)?;
    entry.write(offset, bytes);
    Ok(())
}

pub fn write_direct(entry: &mut Entry, offset: u64, bytes: &[u8]) -> Done {
    let Some(file) = direct(entry)? else { return Ok(()) };
    file.write_all_at(Aligned::of(bytes).bytes(), offset)?;
    entry.write(offset, bytes);
    Ok(())
}

/// A file system that has no direct IO refuses the flag with EINVAL, as tmpfs of old kernels.
fn direct(entry: &mut Entry) -> Result<Option<&std::fs::File>, Trouble> {
    entry.direct().map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::INVAL) => Trouble::Unsupported,
        _ => Trouble::Wrong(format!("open with O_DIRECT: {error}")),
    })
}

pub fn append(entry: &mut Entry, descriptor: usize, bytes: &[u8]) -> Done {
    let Some(mut file) = entry.appending(descriptor)? else { return Ok(()) };
    file.write_all(bytes)?;
    entry.data.extend_from_slice(bytes);
    Ok(())
}

pub fn truncate(entry: &mut Entry, size: u64) -> Done {
    entry.file.set_len(size)?;
    entry.data.resize(size as usize, 0);
    Ok(())
}

pub fn read_mapping(entry: &mut Entry, offset: u64, length: u64) -> Done {
    let expected = entry.expected(offset, length).to_vec();
    let Some(mapping) = entry.mapping()? else { return Ok(()) };
    let read = if expected.is_empty() { &[] } else { &mapping[offset as usize..][..expected.len()] };
    let read = read.to_vec();
    compare(entry, offset, length, &read, "mapping")
}

pub fn write_mapping(entry: &mut Entry, offset: u64, bytes: &[u8], then_msync: bool) -> Done {
    let length = entry.expected(offset, bytes.len() as u64).len();
    let Some(mapping) = entry.mapping()? else { return Ok(()) };
    if length == 0 {
        return Ok(());
    }
    mapping[offset as usize..][..length].copy_from_slice(&bytes[..length]);
    if then_msync {
        mapping.flush_range(offset as usize, length)?;
    }
    entry.write(offset, &bytes[..length]);
    Ok(())
}

pub fn punch(entry: &mut Entry, offset: u64, length: u64) -> Done {
    fallocate(&entry.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)?;
    entry.zero(offset, length);
    Ok(())
}

pub fn zero(entry: &mut Entry, offset: u64, length: u64, keep_size: bool) -> Done {
    fallocate(&entry.file, FallocateFlags::ZERO_RANGE | keeping(keep_size), offset, length)?;
    entry.zero(offset, length);
    grow(entry, offset + length, keep_size);
    Ok(())
}

pub fn allocate(entry: &mut Entry, offset: u64, length: u64, keep_size: bool) -> Done {
    fallocate(&entry.file, keeping(keep_size), offset, length)?;
    grow(entry, offset + length, keep_size);
    Ok(())
}

fn keeping(size: bool) -> FallocateFlags {
    if size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() }
}

fn grow(entry: &mut Entry, end: u64, keep_size: bool) {
    if !keep_size && (entry.data.len() as u64) < end {
        entry.data.resize(end as usize, 0);
    }
}

/// Copies within a file or between two; ranges of one file that overlap are refused by Linux, so they are not asked for.
pub fn copy(entries: &mut [Entry], from: (usize, u64), to: (usize, u64), length: u64) -> Done {
    let ((source, mut offset), (target, mut at)) = (from, to);
    if source == target && offset.abs_diff(at) < length {
        return Ok(());
    }
    let mut left = entries[source].expected(offset, length).len();
    let bytes = entries[source].expected(offset, length).to_vec();
    let begin = at;
    while left > 0 {
        let copied = copy_file_range(
            &entries[source].file,
            Some(&mut offset),
            &entries[target].file,
            Some(&mut at),
            left,
        );
        match copied? {
            0 => return Err(Trouble::Wrong(format!("copy_file_range stopped {left} bytes before the end"))),
            copied => left -= copied,
        }
    }
    if !bytes.is_empty() {
        entries[target].write(begin, &bytes);
    }
    Ok(())
}

pub fn sync(entry: &Entry, only_data: bool) -> Done {
    let done = if only_data { entry.file.sync_data() } else { entry.file.sync_all() };
    done.map_err(Trouble::from)
}

pub fn drop_caches(entry: &Entry) -> Done {
    entry.file.sync_data()?;
    Ok(fadvise(&entry.file, 0, None, Advice::DontNeed)?)
}

/// Holes have to be zeroes in the model, and the ranges have to cover the file.
pub fn find_holes(entry: &Entry) -> Done {
    let (size, mut at) = (entry.data.len() as u64, 0);
    while at < size {
        let data = match seek(&entry.file, SeekFrom::Data(at)) {
            Ok(data) if (at..size).contains(&data) => data,
            Ok(data) => {
                return Err(Trouble::Wrong(format!(
                    "SEEK_DATA from {at} leads to {data}; the size is {size}"
                )));
            }
            Err(Errno::NXIO) => size,
            Err(error) => return Err(error.into()),
        };
        if let Some(byte) = entry.expected(at, data - at).iter().position(|&byte| byte != 0) {
            let byte = at + byte as u64;
            return Err(Trouble::Wrong(format!(
                "SEEK_DATA from {at} leads to {data}, but byte {byte} is data"
            )));
        }
        if data == size {
            break;
        }
        let hole = seek(&entry.file, SeekFrom::Hole(data))?;
        if hole <= data || hole > size {
            return Err(Trouble::Wrong(format!("SEEK_HOLE from {data} leads to {hole}; the size is {size}")));
        }
        at = hole;
    }
    Ok(())
}

/// Reads up to the end of the file or of the buffer; the count of bytes.
pub fn read_until_end(file: &std::fs::File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        match file.read_at(&mut bytes[count..], offset + count as u64)? {
            0 => break,
            read => count += read,
        }
    }
    Ok(count)
}

/// Compares what was read with the model.
pub fn compare(entry: &Entry, offset: u64, length: u64, read: &[u8], by: &str) -> Done {
    let expected = entry.expected(offset, length);
    if read == expected {
        return Ok(());
    }
    if read.len() != expected.len() {
        let (read, expected, size) = (read.len(), expected.len(), entry.data.len());
        return Err(Trouble::Wrong(format!(
            "{by} of {length} bytes at {offset} has {read} bytes, not {expected}; the size is {size}"
        )));
    }
    let differs = |(a, b): (&u8, &u8)| a != b;
    let first = read.iter().zip(expected).position(differs).unwrap_or_default();
    let last = read.iter().zip(expected).rposition(differs).unwrap_or_default();
    let count = read.iter().zip(expected).filter(|&(a, b)| a != b).count();
    Err(Trouble::Wrong(format!(
        "{by} of {length} bytes at {offset}: {count} bytes differ, from {} to {}; the first is {:#04x}, not {:#04x}; the size is {}",
        offset + first as u64,
        offset + last as u64,
        read[first],
        expected[first],
        entry.data.len()
    )))
}
