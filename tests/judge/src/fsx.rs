//! Random operations on files of a directory, compared with bytes in memory, as fsx does.
//!
//! 1. Four files have names. An operation reads, writes, maps, punches, copies, renames, unlinks, syncs or reopens one of them.
//! 2. The same is done to bytes in memory. Each read, by whatever call, is compared with them.
//! 3. A file without a name is used through its descriptors for some operations; then a new file gets its place.
//! 4. From time to time all files are read by new descriptors, and the directory's names are compared.
//!
//! Invariant: the seed decides everything.

mod entry;
mod operation;
mod perform;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flashlab_base::{Prng, Seed};

use entry::Entry;
use operation::{FILES, Operation};
use perform::Trouble;

/// How many operations before the failure are printed.
const SHOWN: usize = 40;

/// One in this many operations ends a file without a name.
const NAMELESS_FOR: u64 = 20;

/// A test of a directory.
#[derive(Clone, Debug)]
pub struct Fsx {
    /// Where the files are made, in a folder of their own. It is removed in the end, and stays after a failure.
    pub directory: PathBuf,
    /// How many operations.
    pub operations: u64,
    /// What decides each of them.
    pub seed: Seed,
    /// Proves the judge: before this operation bytes of the files change behind the model's back.
    pub tamper_at: Option<u64>,
}

/// What a test without a failure did.
#[derive(Clone, Debug, Default)]
pub struct FsxReport {
    /// How many of each operation.
    pub operations: BTreeMap<String, u64>,
    /// Those of them that the file system does not have.
    pub unsupported: BTreeMap<String, u64>,
    /// What was written by calls; not what was allocated or zeroed.
    pub written_bytes: u64,
}

/// A difference between the files and the model.
#[derive(Debug)]
pub struct FsxFailure {
    /// The seed of the test.
    pub seed: Seed,
    /// Which operation found it, counted from 0.
    pub operation: u64,
    /// What differs.
    pub what: String,
    /// The operations before it and itself, with their numbers.
    pub last: Vec<(u64, Operation)>,
    directory: PathBuf,
}

impl fmt::Display for FsxFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operation {} on files of {}: {}", self.operation, self.directory.display(), self.what)?;
        for (number, operation) in &self.last {
            writeln!(f, "    {number}: {operation:?}")?;
        }
        let (directory, operations) = (self.directory.display(), self.operation + 1);
        write!(
            f,
            "replay: cargo xtask fsx --directory {directory} --operations {operations} --seed {}",
            self.seed
        )
    }
}

/// The files and what they have to have.
struct Files {
    folder: PathBuf,
    entries: Vec<Entry>,
    seed: Seed,
    report: FsxReport,
    names_made: u64,
}

/// Runs the test.
pub fn fsx(test: &Fsx) -> Result<FsxReport, Box<FsxFailure>> {
    let mut last = VecDeque::new();
    let fail = |operation, what, last: &VecDeque<(u64, Operation)>| {
        let last = last.iter().copied().collect();
        Box::new(FsxFailure { seed: test.seed, operation, what, last, directory: test.directory.clone() })
    };
    let made = tempfile::Builder::new().prefix("fsx-").disable_cleanup(true).tempdir_in(&test.directory);
    let folder = made.map_err(|error| fail(0, format!("mkdir: {error}"), &last))?.keep();
    let mut files = Files::new(&folder, test.seed).map_err(|what| fail(0, what, &last))?;
    let mut prng = Prng::new(test.seed.derive("operations", 0));
    for number in 0..test.operations {
        if test.tamper_at == Some(number) {
            files.tamper();
        }
        let operation = Operation::random(&mut prng);
        last.push_back((number, operation));
        if last.len() > SHOWN {
            last.pop_front();
        }
        let done = files.step(number, operation);
        done.and_then(|()| files.renew(&mut prng)).map_err(|what| fail(number, what, &last))?;
    }
    files.check_all().map_err(|what| fail(test.operations, what, &last))?;
    let report = std::mem::take(&mut files.report);
    drop(files);
    fs::remove_dir_all(&folder)
        .map_err(|error| fail(test.operations, format!("removing: {error}"), &last))?;
    Ok(report)
}

impl Files {
    fn new(folder: &Path, seed: Seed) -> Result<Files, String> {
        let report = FsxReport::default();
        let mut files = Files { folder: folder.to_owned(), entries: Vec::new(), seed, report, names_made: 0 };
        for _ in 0..FILES {
            let entry = files.create()?;
            files.entries.push(entry);
        }
        Ok(files)
    }

    fn create(&mut self) -> Result<Entry, String> {
        self.names_made += 1;
        let name = self.folder.join(format!("file-{}", self.names_made));
        Entry::create(&name).map_err(|error| format!("making {}: {error}", name.display()))
    }

    /// One operation and the status of the files that it concerns.
    fn step(&mut self, number: u64, operation: Operation) -> Result<(), String> {
        let text = format!("{operation:?}");
        let kind = text.split(' ').next().unwrap_or_default();
        *self.report.operations.entry(kind.to_owned()).or_default() += 1;
        match self.perform(number, operation) {
            Ok(()) => self.entries.iter().try_for_each(Entry::check_status),
            Err(Trouble::Unsupported) => {
                *self.report.unsupported.entry(kind.to_owned()).or_default() += 1;
                Ok(())
            }
            Err(Trouble::Wrong(what)) => Err(what),
        }
    }

    fn perform(&mut self, number: u64, operation: Operation) -> Result<(), Trouble> {
        use Operation::*;
        let seed = self.seed;
        let written = &mut self.report.written_bytes;
        let mut data = |length: u64| {
            *written += length;
            let mut bytes = vec![0; length as usize];
            Prng::new(seed.derive("data", number)).fill(&mut bytes);
            bytes
        };
        let entries = &mut self.entries;
        match operation {
            Read { file, offset, length } => perform::read(&entries[file], offset, length),
            ReadDirect { file, offset, length } => perform::read_direct(&mut entries[file], offset, length),
            Write { file, offset, length } => perform::write(&mut entries[file], offset, &data(length)),
            WriteDirect { file, offset, length } => {
                perform::write_direct(&mut entries[file], offset, &data(length))
            }
            WriteSynced { file, offset, length } => {
                perform::write_synced(&mut entries[file], offset, &data(length))
            }
            Append { file, descriptor, length } => {
                let fits = entries[file].data.len() as u64 + length <= operation::SIZE_MAX;
                if fits { perform::append(&mut entries[file], descriptor, &data(length)) } else { Ok(()) }
            }
            Truncate { file, size } => perform::truncate(&mut entries[file], size),
            ReadMapping { file, offset, length } => perform::read_mapping(&mut entries[file], offset, length),
            WriteMapping { file, offset, length, then_msync } => {
                perform::write_mapping(&mut entries[file], offset, &data(length), then_msync)
            }
            Punch { file, offset, length } => perform::punch(&mut entries[file], offset, length),
            Zero { file, offset, length, keep_size } => {
                perform::zero(&mut entries[file], offset, length, keep_size)
            }
            Allocate { file, offset, length, keep_size } => {
                perform::allocate(&mut entries[file], offset, length, keep_size)
            }
            Copy { from, offset, to, at, length } => {
                let length = length.min(operation::SIZE_MAX - at);
                perform::copy(entries, (from, offset), (to, at), length)
            }
            Fsync { file, only_data } => perform::sync(&entries[file], only_data),
            Reopen { file } => Ok(entries[file].reopen()?),
            RenameOver { from, to } => self.rename_over(from, to),
            Unlink { file } => {
                let Some(name) = entries[file].name.take() else { return Ok(()) };
                Ok(fs::remove_file(name)?)
            }
            DropCaches { file } => perform::drop_caches(&entries[file]),
            FindHoles { file } => perform::find_holes(&entries[file]),
            CheckAll => self.check_all().map_err(Trouble::Wrong),
        }
    }

    fn rename_over(&mut self, from: usize, to: usize) -> Result<(), Trouble> {
        if self.entries[from].name.is_none() || self.entries[to].name.is_none() {
            return Ok(());
        }
        let (source, target) = (self.entries[from].name.take(), self.entries[to].name.take());
        let (Some(source), Some(target)) = (source, target) else { return Ok(()) };
        fs::rename(source, &target)?;
        self.entries[from].name = Some(target);
        Ok(())
    }

    /// Ends a file without a name, now and then.
    fn renew(&mut self, prng: &mut Prng) -> Result<(), String> {
        for index in 0..FILES {
            if self.entries[index].name.is_none() && prng.below(NAMELESS_FOR) == 0 {
                self.entries[index] = self.create()?;
            }
        }
        Ok(())
    }

    fn check_all(&self) -> Result<(), String> {
        for entry in &self.entries {
            let Some(name) = &entry.name else { continue };
            let at = |error| format!("{}: {error}", name.display());
            let mut bytes = vec![0; entry.data.len() + 1];
            let file = File::open(name).map_err(at)?;
            let count = perform::read_until_end(&file, &mut bytes, 0).map_err(at)?;
            let compared =
                perform::compare(entry, 0, bytes.len() as u64, &bytes[..count], "a new descriptor's read");
            if let Err(Trouble::Wrong(what)) = compared {
                return Err(format!("{}: {what}", name.display()));
            }
        }
        let listed: BTreeSet<PathBuf> = fs::read_dir(&self.folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(|error| format!("readdir: {error}"))?;
        let known: BTreeSet<PathBuf> = self.entries.iter().filter_map(|entry| entry.name.clone()).collect();
        if listed != known {
            return Err(format!("the directory has {listed:?}, not {known:?}"));
        }
        Ok(())
    }

    /// Changes a byte in each page of each file.
    fn tamper(&self) {
        for entry in self.entries.iter().filter(|entry| !entry.data.is_empty()) {
            let Some(name) = &entry.name else { continue };
            let file = OpenOptions::new().write(true).open(name).expect("a file of the test opens");
            for at in (0..entry.data.len()).step_by(4096) {
                let written = file.write_all_at(&[!entry.data[at]], at as u64);
                written.expect("a file of the test is writable");
            }
        }
    }
}
