//! The paths of managed files, and their placeholders in the file system.
//!
//! # Model
//! A managed file has a placeholder at its path: the node of a Unix socket, which no program can open. Placeholders are known by the time
//! of their last change. The volume's catalogue is the truth; placeholders follow it when `repair run` starts.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flashlab_device::Device;
use flashlab_export::SharedFiles;
use flashlab_repair::{FileId, FileKind, FileStatus, Files, path_matches};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

use crate::exit::{Refused, Usage};

/// The time of the last change by which placeholders are known, in seconds since 1970. The library has the same one.
const PLACEHOLDER_TIME: i64 = 1;

/// The managed paths.
pub struct ManagedPaths {
    /// Absolute patterns, whose fixed directories are canonical.
    patterns: Vec<Vec<u8>>,
    /// Those directories.
    directories: Vec<PathBuf>,
}

impl ManagedPaths {
    /// The paths that match one of these patterns.
    pub fn new(patterns: &[String]) -> Result<ManagedPaths> {
        let mut managed = ManagedPaths { patterns: Vec::new(), directories: Vec::new() };
        for given in patterns {
            let absolute = std::path::absolute(given).unwrap_or_else(|_| PathBuf::from(given));
            let text = absolute.as_os_str().as_bytes();
            let special = text.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(text.len());
            let cut = text[..special].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            let (directory, rest) = text.split_at(cut);
            let directory = Path::new(OsStr::from_bytes(directory));
            let canonical = directory.canonicalize().map_err(|error| {
                Usage(format!("--files {given}: {}: {error}; make the directory first", directory.display()))
            })?;
            if text.contains(&b'\n') || canonical == Path::new("/") {
                bail!(Usage(format!("--files {given}: name a directory, such as '/var/lib/db/*'")));
            }
            managed.patterns.push([canonical.as_os_str().as_bytes(), b"/", rest].concat());
            managed.directories.push(canonical);
        }
        Ok(managed)
    }

    /// The patterns, one a line.
    pub fn patterns(&self) -> &OsStr {
        // Joined once, and kept until the end of the process.
        OsStr::from_bytes(self.patterns.join(&b'\n').leak())
    }

    fn contains(&self, path: &Path) -> bool {
        let path = path.as_os_str().as_bytes();
        self.patterns.iter().any(|pattern| path_matches(pattern, path))
    }

    /// Fails if ordinary files lie at managed paths: the program would not see them.
    pub fn refuse_ordinary_files(&self) -> Result<()> {
        let mut found = Vec::new();
        self.visit(&mut |path, metadata| {
            if metadata.is_file() {
                found.push(path.display().to_string());
            }
            Ok(())
        })?;
        let Some(first) = found.first() else { return Ok(()) };
        bail!(Refused(format!(
            "{} files lie in the file system where only files of the volume may, for example {first}: mount the volume with \
             `flashlab repair mount` and move them to the same paths there, or remove them",
            found.len()
        )))
    }

    /// Calls a function with all managed paths that exist.
    fn visit(&self, see: &mut dyn FnMut(&Path, &fs::Metadata) -> Result<()>) -> Result<()> {
        let mut left = self.directories.clone();
        left.sort();
        left.dedup();
        while let Some(directory) = left.pop() {
            let name = || format!("cannot read {}", directory.display());
            for entry in fs::read_dir(&directory).with_context(name)? {
                let path = entry.with_context(name)?.path();
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                if metadata.is_dir() && self.goes_deeper(&path) {
                    left.push(path.clone());
                }
                if self.contains(&path) {
                    see(&path, &metadata)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a pattern may match a path in this directory.
    fn goes_deeper(&self, directory: &Path) -> bool {
        let start = [directory.as_os_str().as_bytes(), b"/"].concat();
        let fixed = |pattern: &Vec<u8>| {
            let special = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
            let shared = special.min(start.len());
            pattern[..shared] == start[..shared] && (special < pattern.len() || special > start.len())
        };
        self.patterns.iter().any(fixed)
    }

    /// Makes placeholders for the files of the volume, and removes those of files that are gone.
    pub fn make_placeholders(&self, files: &SharedFiles) -> Result<()> {
        let mut wanted = Vec::new();
        files.with(|files, _| collect(files, FileId::ROOT, Path::new("/"), &mut wanted))?;
        wanted.retain(|wanted| self.contains(&wanted.path));
        self.visit(&mut |path, metadata| {
            let is_wanted = wanted.iter().any(|wanted| wanted.path == path);
            if is_placeholder(metadata) && !is_wanted {
                fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
            Ok(())
        })?;
        wanted.iter().try_for_each(Wanted::make)
    }
}

/// What has to be in the file system for a file of the volume.
struct Wanted {
    path: PathBuf,
    status: FileStatus,
    /// The target of a symbolic link.
    target: PathBuf,
}

/// All files and directories, directories first.
fn collect(
    files: &mut Files<Box<dyn Device + Send>>,
    directory: FileId,
    path: &Path,
    to: &mut Vec<Wanted>,
) -> Result<()> {
    for (name, status) in files.entries(directory)? {
        let path = path.join(OsStr::from_bytes(&name));
        let target = match status.kind {
            FileKind::SymbolicLink => PathBuf::from(OsString::from_vec(files.read_link(status.id)?)),
            FileKind::Regular | FileKind::Directory => PathBuf::new(),
        };
        to.push(Wanted { path: path.clone(), status, target });
        if status.kind == FileKind::Directory {
            collect(files, status.id, &path, to)?;
        }
    }
    Ok(())
}

fn is_placeholder(metadata: &fs::Metadata) -> bool {
    metadata.file_type().is_socket() && metadata.mtime() == PLACEHOLDER_TIME
}

impl Wanted {
    /// Makes a directory, a symbolic link or a placeholder, if there is none.
    fn make(&self) -> Result<()> {
        let path = &self.path;
        match self.status.kind {
            FileKind::SymbolicLink => match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => Ok(()),
                Ok(_) => bail!(Refused(format!("{} is in the way of a link of the volume", path.display()))),
                Err(_) => std::os::unix::fs::symlink(&self.target, path)
                    .with_context(|| format!("cannot make {}", path.display())),
            },
            FileKind::Regular | FileKind::Directory => make(path, &self.status),
        }
    }
}

/// Makes a directory or a placeholder, if there is none.
fn make(path: &Path, status: &FileStatus) -> Result<()> {
    let failed = || format!("cannot make {}", path.display());
    match (fs::symlink_metadata(path), status.kind) {
        (Ok(found), FileKind::Directory) if found.is_dir() => return Ok(()),
        (Ok(found), FileKind::Regular) if is_placeholder(&found) => {}
        (Ok(_), _) => bail!(Refused(format!("{} is in the way of a file of the volume", path.display()))),
        (Err(_), FileKind::Directory) => fs::create_dir(path).with_context(failed)?,
        (Err(_), _) => {
            rustix::fs::mknodat(CWD, path, FileType::Socket, Mode::empty(), 0).with_context(failed)?;
        }
    }
    let attributes = status.attributes;
    let metadata = fs::symlink_metadata(path).with_context(failed)?;
    if (metadata.uid(), metadata.gid()) != (attributes.user, attributes.group) {
        std::os::unix::fs::lchown(path, Some(attributes.user), Some(attributes.group))
            .with_context(failed)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(attributes.mode)).with_context(failed)?;
    if status.kind == FileKind::Regular {
        let time = Timespec { tv_sec: PLACEHOLDER_TIME, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).with_context(failed)?;
    }
    Ok(())
}
