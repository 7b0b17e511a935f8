//! Creates files to measure the underlying disk.
//!
//! # Model
//! 1. A scratch file is allocated and then filled completely through O_DIRECT, with data that no disk can
//!    compress. The file system, and not the disk, would answer reads of blocks that were never written.
//! 2. If the file system supports it (O_TMPFILE), the file has no name, so that nothing is left behind even
//!    after SIGKILL.
//! 3. Otherwise it is called `flashlab-scratch-PID.bin` and is removed when it is dropped.
//!    [`stale_scratch_files`] finds the files of killed processes. A file is locked while its process lives.
//!
//! Invariants: an existing file is never changed; a part of the file system always stays free.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_device::Arena;

use crate::consent::Consent;
use crate::error::HostError;
use crate::node::Node;
use crate::system::{self, FileSystem};

/// How much is written at a time.
const CHUNK: Bytes = Bytes::mib(1);
/// The file's size is a multiple of this.
const UNIT: Bytes = Bytes::kib(4);
const PREFIX: &str = "flashlab-scratch-";
const SUFFIX: &str = ".bin";

/// A file that flashlab made and may overwrite. It is removed when this is dropped.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    directory: PathBuf,
    /// Its name in the directory; `None` for a file without a name.
    named: Option<PathBuf>,
    node: Node,
    size: Bytes,
}

impl ScratchFile {
    /// The space of a file system that stays free: 2 %, at least 64 MiB and at most 4 GiB.
    fn reserve(file_system: &FileSystem) -> Bytes {
        Bytes((file_system.size.0 / 50).clamp(Bytes::mib(64).0, Bytes::gib(4).0))
    }

    /// Creates a file of `size`, rounded up to 4 KiB, in `directory`, and fills it.
    ///
    /// `progress` gets the number of bytes written after every MiB, and may stop the work.
    ///
    /// # Errors
    /// If there is too little space, the file cannot be created or written, or `progress` stopped it. Nothing
    /// is left behind then.
    pub fn create(
        directory: &Path,
        size: Bytes,
        seed: Seed,
        progress: &mut dyn FnMut(Bytes) -> ControlFlow<()>,
    ) -> Result<ScratchFile, HostError> {
        let size = size.round_up(UNIT).max(UNIT);
        check_room(directory, size)?;
        let scratch = ScratchFile::make(directory, size)?;
        scratch.fill(seed, progress)?;
        Ok(scratch)
    }

    /// Makes a file of `size`, rounded up to 4 KiB, in `directory`, whose space is allocated where the file system can, and
    /// whose content is zeroes.
    ///
    /// # Errors
    /// When there is too little space, or the file cannot be made; nothing is left behind then.
    pub fn allocate(directory: &Path, size: Bytes) -> Result<ScratchFile, HostError> {
        let size = size.round_up(UNIT).max(UNIT);
        check_room(directory, size)?;
        let scratch = ScratchFile::make(directory, size)?;
        let failed = |e| HostError::system("allocate a scratch file in", directory, e);
        scratch.file.set_len(size.0).map_err(failed)?;
        match system::allocate(&scratch.file, size) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            result => result.map_err(failed)?,
        }
        Ok(scratch)
    }

    /// Cuts the file to `size`, makes it durable, and gives it the permissions `mode`: it is about to be kept.
    ///
    /// # Errors
    /// When the file system refuses one of these.
    pub fn complete(&self, size: Bytes, mode: u32) -> Result<(), HostError> {
        use std::os::unix::fs::PermissionsExt;
        let complete = || {
            self.file.set_len(size.0)?;
            self.file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
            self.file.sync_all()
        };
        complete().map_err(|e| HostError::system("complete a file in", &self.directory, e))
    }

    /// Makes the empty file.
    fn make(directory: &Path, size: Bytes) -> Result<ScratchFile, HostError> {
        let failed = |e| HostError::system("make a scratch file in", directory, e);
        let (file, named) = match make_nameless(directory) {
            Ok(file) => (file, None),
            Err(_) => {
                let (file, path) = make_named(directory).map_err(failed)?;
                (file, Some(path))
            }
        };
        let metadata = file.metadata().map_err(failed)?;
        let node = Node::of(&metadata).expect("what was just made is a regular file");
        Ok(ScratchFile { file, directory: directory.to_owned(), named, node, size })
    }

    fn fill(&self, seed: Seed, progress: &mut dyn FnMut(Bytes) -> ControlFlow<()>) -> Result<(), HostError> {
        let failed = |e| HostError::system("fill a scratch file in", &self.directory, e);
        match system::allocate(&self.file, self.size) {
            // Some file systems cannot allocate in advance; the writes allocate then.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            result => result.map_err(failed)?,
        }
        let writer = self.open_for_filling().map_err(failed)?;
        let mut chunk = Arena::buffers(1, CHUNK).remove(0);
        let mut prng = Prng::new(seed);
        let mut written = 0;
        while written < self.size.0 {
            let length = (self.size.0 - written).min(CHUNK.0);
            prng.fill(&mut chunk);
            writer.write_all_at(&chunk[..length as usize], written).map_err(failed)?;
            written += length;
            if progress(Bytes(written)).is_break() {
                return Err(HostError::Interrupted);
            }
        }
        self.file.sync_all().map_err(failed)
    }

    /// A second open description of the file, with direct IO if the file system supports it.
    fn open_for_filling(&self) -> io::Result<File> {
        let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(self.path());
        open(libc::O_DIRECT).or_else(|_| open(0))
    }

    /// The path to open it by in this process. It leads to the file as long as this value lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Its path, if it has a name: the file to remove if the process ends without dropping this. `None` if
    /// the file disappears with the process in any case.
    pub fn named_path(&self) -> Option<&Path> {
        self.named.as_deref()
    }

    /// Where it is, for people.
    pub fn description(&self) -> String {
        format!("scratch file in {}", self.directory.display())
    }

    /// How large it is.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The permission to overwrite it.
    pub fn consent(&self) -> Consent {
        Consent::for_scratch_file(self.node)
    }

    /// Keeps the file under a new name in its directory, and returns its path.
    ///
    /// # Errors
    /// If the name exists, or the file system cannot give a name to a nameless file.
    pub fn keep(mut self, name: &str) -> Result<PathBuf, HostError> {
        let kept = self.directory.join(name);
        let named = match &self.named {
            Some(old) => rename_without_replacing(old, &kept),
            None => link(&self.path(), &kept),
        };
        named.map_err(|e| HostError::system("keep the scratch file as", &kept, e))?;
        self.named = None;
        Ok(kept)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Some(path) = &self.named {
            // An error means that it was already removed.
            let _ = fs::remove_file(path);
        }
    }
}

/// Refuses a scratch file that would leave too little free space, before it is created.
///
/// # Errors
/// [`HostError::NoSpace`], or an error of reading the free space of the directory.
pub fn check_room(directory: &Path, size: Bytes) -> Result<(), HostError> {
    let opened = File::open(directory).map_err(|e| HostError::system("open", directory, e))?;
    let file_system =
        FileSystem::of(&opened).map_err(|e| HostError::system("ask for the free space of", directory, e))?;
    let (free, reserve) = (file_system.free, ScratchFile::reserve(&file_system));
    if size.0.saturating_add(reserve.0) <= free.0 {
        return Ok(());
    }
    Err(HostError::NoSpace { directory: directory.to_owned(), needed: size, free, reserve })
}

fn make_nameless(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(directory).map(locked)
}

/// Locks the file until it is closed, so that no other flashlab measures it. If the file system has no locks,
/// the process number in the name shows whether the file is in use.
fn locked(file: File) -> File {
    let _ = file.try_lock();
    file
}

/// A new file under the first free name.
fn make_named(directory: &Path) -> io::Result<(File, PathBuf)> {
    for number in 1..1000 {
        let distinction = if number == 1 { String::new() } else { format!("-{number}") };
        let path = directory.join(format!("{PREFIX}{}{distinction}{SUFFIX}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((locked(file), path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Gives an open file, by its path in `/proc`, a new name.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (c_string(from)?, c_string(to)?);
    let here = libc::AT_FDCWD;
    // SAFETY: both are valid C strings.
    let result = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) };
    system::checked(result).map(drop)
}

/// Gives a file a new name, which must not exist. File systems without hard links, such as FAT, can rename without replacing. Those
/// that cannot, such as NFS, have hard links.
///
/// # Errors
/// If the name exists, or the file system fails.
pub fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (c_string(from)?, c_string(to)?);
    let here = libc::AT_FDCWD;
    // SAFETY: both are valid C strings.
    let result = unsafe { libc::renameat2(here, old.as_ptr(), here, new.as_ptr(), libc::RENAME_NOREPLACE) };
    match system::checked(result) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        result => result.map(drop),
    }
}

fn c_string(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// The scratch files in `directory` whose process is gone, after a SIGKILL or a power failure on a file
/// system without nameless files. They may be removed.
///
/// # Errors
/// If the directory cannot be read.
pub fn stale_scratch_files(directory: &Path) -> Result<Vec<PathBuf>, HostError> {
    let entries = fs::read_dir(directory).map_err(|e| HostError::system("read", directory, e))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut stale: Vec<PathBuf> = paths.filter(|path| is_stale(path)).collect();
    stale.sort();
    Ok(stale)
}

fn is_stale(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(process) = owner(&name) else { return false };
    let is_alive = Path::new("/proc").join(process.to_string()).exists();
    // The number of a process in another container means nothing here, but that process has the lock.
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    !is_alive && is_file && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// The process number in a scratch file's name.
fn owner(name: &str) -> Option<u32> {
    let number = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    number.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory on the file system of the temporary files, removed when dropped.
    struct Directory(PathBuf);

    impl Directory {
        fn new(test: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("flashlab-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Directory(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn create(directory: &Directory, size: Bytes) -> Result<ScratchFile, HostError> {
        ScratchFile::create(&directory.0, size, Seed(1), &mut |_| ControlFlow::Continue(()))
    }

    /// As on a file system without nameless files.
    fn named(directory: &Directory, size: Bytes) -> ScratchFile {
        let (file, path) = make_named(&directory.0).unwrap();
        let node = Node::of(&file.metadata().unwrap()).unwrap();
        ScratchFile { file, directory: directory.0.clone(), named: Some(path), node, size }
    }

    #[test]
    fn a_scratch_file_is_full_of_data_and_leaves_nothing_behind() {
        use std::os::unix::fs::MetadataExt;
        let directory = Directory::new("full");
        let size = Bytes(3 << 20 | 5000);
        let mut reports = Vec::new();
        let scratch = ScratchFile::create(&directory.0, size, Seed(1), &mut |written| {
            reports.push(written.0);
            ControlFlow::Continue(())
        });
        let scratch = scratch.unwrap();
        assert_eq!(scratch.size(), size.round_up(UNIT));
        assert_eq!(reports, [1 << 20, 2 << 20, 3 << 20, scratch.size().0]);
        let metadata = fs::metadata(scratch.path()).unwrap();
        assert_eq!(metadata.len(), scratch.size().0);
        assert!(metadata.blocks() * 512 >= scratch.size().0, "every block is allocated");
        let data = fs::read(scratch.path()).unwrap();
        let blocks: std::collections::HashSet<&[u8]> = data.chunks(4096).collect();
        assert_eq!(blocks.len() as u64, scratch.size().0 / 4096, "no two blocks are alike");
        if scratch.named_path().is_none() {
            assert!(directory.names().is_empty());
        }
        drop(scratch);
        assert!(directory.names().is_empty());
    }

    #[test]
    fn a_broken_off_or_too_large_file_leaves_nothing_behind() {
        let directory = Directory::new("broken-off");
        let broken =
            ScratchFile::create(&directory.0, Bytes::mib(4), Seed(1), &mut |_| ControlFlow::Break(()));
        assert!(matches!(broken, Err(HostError::Interrupted)));
        let free = FileSystem::of(&File::open(&directory.0).unwrap()).unwrap().free;
        let error = create(&directory, free).unwrap_err();
        assert!(matches!(error, HostError::NoSpace { .. }), "{error}");
        assert!(error.to_string().contains("take another directory, or less data"), "{error}");
        assert!(directory.names().is_empty());
        let nowhere = directory.0.join("nowhere");
        let missing = ScratchFile::create(&nowhere, UNIT, Seed(1), &mut |_| ControlFlow::Continue(()));
        assert!(matches!(missing, Err(HostError::System { .. })));
    }

    #[test]
    fn a_file_with_a_name_is_filled_and_removed_as_well() {
        let directory = Directory::new("named");
        let (first, second) = (named(&directory, UNIT), named(&directory, UNIT));
        first.fill(Seed(1), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(fs::read(first.named_path().unwrap()).unwrap().len() as u64, UNIT.0);
        assert_eq!(directory.names().len(), 2);
        assert!(stale_scratch_files(&directory.0).unwrap().is_empty(), "their process lives");
        drop((first, second));
        assert!(directory.names().is_empty());
    }

    #[test]
    fn a_kept_file_gets_a_name_of_its_own() {
        let directory = Directory::new("kept");
        for is_named in [false, true] {
            let scratch = if is_named { named(&directory, UNIT) } else { create(&directory, UNIT).unwrap() };
            let kept = scratch.keep("flashlab.bin").unwrap();
            assert_eq!(directory.names(), ["flashlab.bin"]);
            assert!(create(&directory, UNIT).unwrap().keep("flashlab.bin").is_err(), "nothing is replaced");
            fs::remove_file(kept).unwrap();
        }
    }

    #[test]
    fn files_of_dead_processes_are_stale_unless_someone_has_them_locked() {
        let directory = Directory::new("stale");
        // Larger than any process's number.
        let dead = directory.0.join("flashlab-scratch-4194305.bin");
        let locked = directory.0.join("flashlab-scratch-4194305-2.bin");
        let alive = directory.0.join(format!("flashlab-scratch-{}.bin", std::process::id()));
        for path in [&dead, &locked, &alive, &directory.0.join("flashlab-scratch-x.bin")] {
            fs::write(path, "x").unwrap();
        }
        let lock = File::open(&locked).unwrap();
        lock.try_lock().unwrap();
        assert_eq!(stale_scratch_files(&directory.0).unwrap(), std::slice::from_ref(&dead));
        drop(lock);
        assert_eq!(stale_scratch_files(&directory.0).unwrap(), [locked, dead]);
    }

    #[test]
    fn a_name_tells_its_process() {
        assert_eq!(owner("flashlab-scratch-77.bin"), Some(77));
        assert_eq!(owner("flashlab-scratch-77-2.bin"), Some(77));
        for other in
            ["flashlab-scratch-.bin", "flashlab-scratch-7.txt", "notes-7.bin", "flashlab-scratch-x.bin"]
        {
            assert_eq!(owner(other), None);
        }
    }
}
