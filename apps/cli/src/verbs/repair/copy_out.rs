//! `repair dump --files`: the files of a volume are copied to a new folder, as far as they can be read.
//!
//! # Method
//! 1. Directories are made with permissions for this user alone, then files, links and attributes.
//! 2. Permissions and times of directories come last.
//!
//! # Invariants
//! - The folder is new, and so is each file in it: nothing is overwritten. It gets its name when all is copied.
//! - What is missing of a file is a hole, and is listed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flashlab_device::Device;
use flashlab_repair::{
    DumpMap, FileAttributes, FileId, FileKind, FileStatus, PageRange, SalvagedEntry, SalvagedFiles,
    SalvagedRanges,
};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, lsetxattr, utimensat};
use serde::Serialize;

use super::opened;
use crate::exit::Usage;
use crate::output;
use crate::output_part::OutputPart;

/// Files and faults that are printed one by one; `--json` has all.
const PRINTED: usize = 20;
/// What a caller without the right to give files away must not keep: the bits of set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// What was copied, and what is missing.
#[derive(Serialize, Default)]
struct Copied {
    files: u64,
    directories: u64,
    symbolic_links: u64,
    bytes: u64,
    /// `newest`, `older` or `none`.
    map: &'static str,
    why_no_newest_map: Option<String>,
    catalogue_faults: Vec<String>,
    incomplete: Vec<Incomplete>,
}

/// A file that is not as it was.
#[derive(Serialize)]
struct Incomplete {
    path: String,
    missing: Vec<Bytes>,
    older: Vec<Bytes>,
    why: Option<String>,
}

/// Bytes of a file.
#[derive(Serialize)]
struct Bytes {
    offset: u64,
    length: u64,
}

/// Copies the files of a volume to a new folder.
pub fn copy_out(volume: &Path, folder: &Path, is_json: bool) -> Result<()> {
    if fs::symlink_metadata(folder).is_ok() {
        bail!(Usage(format!("{} exists: choose another folder; nothing was copied", folder.display())));
    }
    let mut salvaged = SalvagedFiles::open(opened::for_reading(volume)?)?;
    let begun = OutputPart::begin(folder)?;
    let part = begun.path().to_owned();
    let made = DirBuilder::new().mode(0o700).create(&part);
    made.map_err(|error| Usage(format!("cannot make the folder {}: {error}", part.display())))?;
    let mut copied = Copied { catalogue_faults: salvaged.faults().collect(), ..Copied::default() };
    (copied.map, copied.why_no_newest_map) = match salvaged.map() {
        DumpMap::Newest => ("newest", None),
        DumpMap::Older { why, .. } => ("older", Some(why.clone())),
        DumpMap::None { why } => ("none", Some(why.clone())),
    };
    let mut copy =
        Copy { folder: &part, is_root: rustix::process::geteuid().is_root(), first_names: BTreeMap::new() };
    let entries = salvaged.entries();
    for entry in &entries {
        if let Some(incomplete) = copy.entry(&mut salvaged, entry, &mut copied)? {
            copied.incomplete.push(incomplete);
        }
    }
    // What lies in a directory changes its time.
    let directories = entries.iter().rev().filter(|entry| entry.status.kind == FileKind::Directory);
    let mut attributes: Vec<(PathBuf, FileStatus)> =
        directories.map(|entry| (copy.path(entry), entry.status)).collect();
    attributes.push((part.clone(), salvaged.root()));
    for (path, status) in attributes {
        copy.set_attributes(&path, &status.attributes)
            .with_context(|| format!("cannot change {}", path.display()))?;
    }
    begun
        .rename(folder)
        .with_context(|| format!("cannot rename {} to {}", part.display(), folder.display()))?;
    if is_json {
        output::json(&copied)?
    } else {
        output::text(&copied.text(folder))?
    }
    copied.verdict(volume, folder)
}

struct Copy<'a> {
    folder: &'a Path,
    is_root: bool,
    /// The first name of each file.
    first_names: BTreeMap<FileId, PathBuf>,
}

impl Copy<'_> {
    fn path(&self, entry: &SalvagedEntry) -> PathBuf {
        self.folder.join(OsStr::from_bytes(&entry.path))
    }

    /// Copies an entry. `Some`: what is missing of it.
    fn entry<D: Device>(
        &mut self,
        files: &mut SalvagedFiles<D>,
        entry: &SalvagedEntry,
        copied: &mut Copied,
    ) -> Result<Option<Incomplete>> {
        let path = self.path(entry);
        let failed = |error: io::Error| Incomplete::because(entry, error.to_string());
        let mut ranges = SalvagedRanges::default();
        // Files that no name leads to lie in a directory that is none of the volume.
        let parent = path.parent().map_or(Ok(()), |parent| match parent.exists() {
            true => Ok(()),
            false => DirBuilder::new().mode(0o700).create(parent),
        });
        let made = parent.and_then(|()| match (entry.status.kind, self.first_names.get(&entry.status.id)) {
            (FileKind::Directory, _) => {
                copied.directories += 1;
                DirBuilder::new().mode(0o700).create(&path)
            }
            (_, Some(first)) => fs::hard_link(first, &path),
            (FileKind::SymbolicLink, None) => {
                copied.symbolic_links += 1;
                let target = files.target(entry.status.id);
                let target = target.ok_or_else(|| io::Error::other("its target cannot be read"))?;
                symlink(OsStr::from_bytes(&target), &path)
            }
            (FileKind::Regular, None) => {
                copied.files += 1;
                let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                let bytes;
                (ranges, bytes) = copy_data(files, entry, &made)?;
                copied.bytes += bytes;
                Ok(())
            }
        });
        let is_first = !self.first_names.contains_key(&entry.status.id);
        self.first_names.entry(entry.status.id).or_insert_with(|| path.clone());
        let set = made.and_then(|()| match is_first {
            true => self.set_extended(&path, files.extended(entry.status.id)),
            false => Ok(()),
        });
        let set = set.and_then(|()| match entry.status.kind {
            FileKind::Directory => Ok(()),
            _ => self.set_attributes(&path, &entry.status.attributes),
        });
        match set {
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                Err(error).with_context(|| format!("cannot write {}: what was copied stays", path.display()))
            }
            Err(error) => Ok(Some(failed(error))),
            Ok(()) => Ok(Incomplete::of(entry, &ranges, files.page_size().0)),
        }
    }

    fn set_extended(&self, path: &Path, extended: Vec<(Vec<u8>, Vec<u8>)>) -> io::Result<()> {
        extended.into_iter().try_for_each(|(name, value)| {
            let name = [b"user.", name.as_slice()].concat();
            Ok(lsetxattr(path, name.as_slice(), &value, XattrFlags::CREATE)?)
        })
    }

    /// The owner, if this user may give files away, then permissions and times.
    fn set_attributes(&self, path: &Path, attributes: &FileAttributes) -> io::Result<()> {
        let is_link = path.symlink_metadata()?.is_symlink();
        let mut mode = attributes.mode & 0o7777;
        if self.is_root {
            lchown(path, Some(attributes.user), Some(attributes.group))?;
        } else {
            mode &= !SET_ID;
        }
        if !is_link {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        let time = |ns: i64| Timespec {
            tv_sec: ns.div_euclid(1_000_000_000),
            tv_nsec: ns.rem_euclid(1_000_000_000),
        };
        let times = Timestamps {
            last_access: time(attributes.accessed_ns),
            last_modification: time(attributes.modified_ns),
        };
        Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Copies the data of a file, and counts its bytes. What is missing becomes a hole.
fn copy_data<D: Device>(
    files: &mut SalvagedFiles<D>,
    entry: &SalvagedEntry,
    made: &File,
) -> io::Result<(SalvagedRanges, u64)> {
    let mut bytes = 0;
    made.set_len(entry.status.size.0)?;
    let ranges = files.read(entry.status.id, |offset, data| {
        bytes += data.len() as u64;
        made.write_all_at(data, offset)
    })?;
    Ok((ranges, bytes))
}

impl Incomplete {
    /// What is missing of a file; `None`: nothing that is known.
    fn of(entry: &SalvagedEntry, ranges: &SalvagedRanges, page: u64) -> Option<Incomplete> {
        let size = entry.status.size.0;
        let bytes = |ranges: &[PageRange]| -> Vec<Bytes> {
            let bytes = ranges.iter().map(|range| Bytes {
                offset: range.first * page,
                length: (range.count * page).min(size - range.first * page),
            });
            bytes.collect()
        };
        let why = entry.is_doubtful.then(|| "a page of it is another file's, too".to_owned());
        let incomplete = Incomplete {
            missing: bytes(&ranges.missing),
            older: bytes(&ranges.older),
            ..Incomplete::new(entry, why)
        };
        let is_whole =
            incomplete.missing.is_empty() && incomplete.older.is_empty() && incomplete.why.is_none();
        (!is_whole).then_some(incomplete)
    }

    fn because(entry: &SalvagedEntry, why: String) -> Incomplete {
        Incomplete::new(entry, Some(why))
    }

    fn new(entry: &SalvagedEntry, why: Option<String>) -> Incomplete {
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        Incomplete { path, missing: Vec::new(), older: Vec::new(), why }
    }

    fn text(&self) -> String {
        let ranges = |ranges: &[Bytes], what: &str| {
            let ranges = ranges
                .iter()
                .map(|range| format!("{} bytes from {} on are {what}", range.length, range.offset));
            ranges.collect::<Vec<_>>()
        };
        let all = [ranges(&self.missing, "missing"), ranges(&self.older, "older, or may be older")].concat();
        let all: Vec<String> = self.why.iter().cloned().chain(all).collect();
        format!("{}: {}", self.path, all.join(", "))
    }
}

impl Copied {
    fn text(&self, folder: &Path) -> String {
        let mut text = format!(
            "{}: {} files with {} bytes of data, {} directories, {} symbolic links\n",
            folder.display(),
            self.files,
            self.bytes,
            self.directories,
            self.symbolic_links
        );
        let lines = self.incomplete.iter().map(Incomplete::text);
        for line in self.catalogue_faults.iter().take(PRINTED).cloned().chain(lines.take(PRINTED)) {
            let _ = writeln!(text, "{line}");
        }
        let more = self.incomplete.len().saturating_sub(PRINTED)
            + self.catalogue_faults.len().saturating_sub(PRINTED);
        if more > 0 {
            let _ = writeln!(text, "{more} more are listed by --json");
        }
        text
    }

    /// Fails unless everything is there.
    fn verdict(&self, volume: &Path, folder: &Path) -> Result<()> {
        let (folder, volume) = (folder.display(), volume.display());
        if let Some(why) = &self.why_no_newest_map {
            bail!(
                "{folder} may not have all of {volume}: what is missing is not known without the newest map: {why}"
            );
        }
        if !self.catalogue_faults.is_empty() {
            bail!(
                "{folder} may not have all of {volume}: the catalogue of its files is damaged, so that files, names, and data of files \
                 may be missing or older"
            );
        }
        match self.incomplete.len() {
            0 => Ok(()),
            count => {
                bail!("{folder} has not all of {volume}: {count} files or directories are not as they were")
            }
        }
    }
}
