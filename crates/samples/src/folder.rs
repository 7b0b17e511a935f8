//! The folder of a run, whatever verb made it: the only way to its files.
//!
//! ```text
//! manifest.json            what was measured, how, by whose consent, and whether it is finished
//! runs.jsonl               one line for each finished run, appended when it is
//! files.jsonl              one line for each file that is read later, with its length and checksum
//! activity.jsonl           when a simulated device worked on its own account
//! samples/run-00001-00000.parquet ...
//! samples/runs-00002-00417.parquet ...   many short runs in one file, as of an inference
//! summary.json, traces.json, report.html
//! ```
//! Everything except the last line can be computed from the files above it.
//!
//! # Model
//! A folder is unfinished from its first file until [`RunFolder::finish`]. A killed program leaves an unfinished one. Its list may
//! lack the file that was written last, and it may have files under temporary names; [`RunFolder::set_aside`] renames both.
//!
//! # Invariants
//! - What flashlab reads later has a checksum (module `seal`); a text that does not match its own is refused.
//! - [`RunFolder::open`] returns a folder whose listed files all exist with the listed content. In a finished one there are no others.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use flashlab_input::{FileContent, InputKind};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::file_list::{FILES, ListedFile};
use crate::json_lines::{self, JsonLines};
use crate::manifest::{Finished, FolderKind, MANIFEST_VERSION, Manifest};
use crate::segments::{SHARED_RUNS_MOST, Segment, SegmentIndex};
use crate::{Column, Columns, SamplesError, regular_file, seal, segment_writer};
use flashlab_base::{Activity, Sample};

const MANIFEST: &str = "manifest.json";
const RUNS: &str = "runs.jsonl";
const ACTIVITY: &str = "activity.jsonl";
const SAMPLES: &str = "samples";

/// A file that was renamed to `.torn`, or is gone, so that no reader takes it for a whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its new name, or its old one if it is gone.
    pub path: PathBuf,
    /// What was wrong with it.
    pub reason: String,
}

/// The lengths of a folder's manifest and lists and the times of their last changes: they differ when the folder has more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderState([Option<(u64, SystemTime)>; 3]);

/// The files of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// The list of files: as it was when the folder was opened or locked, and with what this process added.
    listed: Arc<Mutex<Vec<ListedFile>>>,
    /// Keeps other processes from writing, until the last clone is dropped or the process ends.
    lock: Option<Arc<File>>,
}

impl RunFolder {
    /// Creates the folder of a new run. It is locked until the last clone of the value is dropped.
    ///
    /// # Errors
    /// [`SamplesError::Exists`] if the name is taken; or the folder cannot be created.
    pub fn create<S: Serialize>(path: &Path, manifest: &Manifest<S>) -> Result<RunFolder, SamplesError> {
        let folder = RunFolder::create_for_documents(path, manifest)?;
        folder.make_directory(SAMPLES)?;
        Ok(folder)
    }

    /// Creates the folder of a run that keeps documents and no samples.
    ///
    /// # Errors
    /// As [`RunFolder::create`].
    pub fn create_for_documents<S: Serialize>(
        path: &Path,
        manifest: &Manifest<S>,
    ) -> Result<RunFolder, SamplesError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|source| SamplesError::io("create", parent, source))?;
        }
        // Fails if it exists: another flashlab may start in the same second.
        fs::create_dir(path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => RunFolder::name_taken(path),
            _ => SamplesError::io("create", path, source),
        })?;
        let mut folder = RunFolder::at(path);
        // Both lists exist from now on, so that a lost one is noticed in an unfinished folder as well.
        [RUNS, FILES].iter().try_for_each(|name| folder.write_text(name, ""))?;
        folder.lock()?;
        folder.write_manifest(manifest)?;
        Ok(folder)
    }

    /// The error for a new folder whose name is taken.
    pub fn name_taken(path: &Path) -> SamplesError {
        let left = RunFolder::any_manifest(path).ok().and_then(|manifest| manifest.unfinished(path));
        let advice = match left {
            Some(_) if RunFolder::is_in_use(path) => "another flashlab is measuring into it".to_owned(),
            Some(left) => format!("it is unfinished: {left}"),
            None => "choose another name with --output".to_owned(),
        };
        SamplesError::Exists { path: path.to_owned(), advice }
    }

    fn at(path: &Path) -> RunFolder {
        RunFolder { path: path.to_owned(), listed: Arc::default(), lock: None }
    }

    /// Creates a directory in the folder, if it does not exist.
    pub fn make_directory(&self, name: &str) -> Result<(), SamplesError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|source| SamplesError::io("create", &path, source))
    }

    /// Opens a folder of one of these kinds, finished or not, with its manifest. Each listed file is compared with its line.
    ///
    /// # Errors
    /// If it is no such folder, has a version that this program does not know, or a file of it is missing, damaged or not listed.
    pub fn open<S: DeserializeOwned>(
        path: &Path,
        kinds: &[FolderKind],
    ) -> Result<(RunFolder, Manifest<S>), SamplesError> {
        let (folder, manifest) = RunFolder::open_unverified(path, kinds)?;
        folder.verify_files(manifest.finished.is_some())?;
        Ok((folder, manifest))
    }

    /// As [`RunFolder::open`], without a look at the listed files: for a measurement that repeats runs whose files are damaged.
    ///
    /// # Errors
    /// If it is no such folder, has a version that this program does not know, or its lists are damaged.
    pub fn open_unverified<S: DeserializeOwned>(
        path: &Path,
        kinds: &[FolderKind],
    ) -> Result<(RunFolder, Manifest<S>), SamplesError> {
        let folder = RunFolder::at(path);
        let text = folder.manifest_text()?;
        // The settings of another kind are others.
        let found: Manifest<IgnoredAny> = folder.parsed_manifest(&text)?;
        if !kinds.contains(&found.kind) {
            let expected: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let advice = match found.kind {
                FolderKind::Sweep => {
                    format!("give one of its runs, as {}", path.join("point-001").display())
                }
                FolderKind::WearOut => {
                    format!("give one of its rounds, as {}", path.join("round-000").display())
                }
                _ => "flashlab report shows it".to_owned(),
            };
            let advice = match found.unfinished(path) {
                Some(left) => format!("it is unfinished: {left}"),
                None => advice,
            };
            let message = format!(
                "is {}, made by `{}`, and not {}: {advice}",
                found.kind.name(),
                found.command.join(" "),
                expected.join(" or ")
            );
            return Err(SamplesError::Folder { path: path.to_owned(), message });
        }
        let manifest: Manifest<S> = folder.parsed_manifest(&text)?;
        folder.verify_lists(manifest.finished.as_ref())?;
        Ok((folder, manifest))
    }

    /// The manifest of a folder of any kind, without its settings. None of the other files is looked at.
    ///
    /// # Errors
    /// If it is not a run's folder, or has a version that this program does not know.
    pub fn any_manifest(path: &Path) -> Result<Manifest<IgnoredAny>, SamplesError> {
        let folder = RunFolder::at(path);
        folder.parsed_manifest(&folder.manifest_text()?)
    }

    /// The text of the manifest, of this version and with the right checksum.
    fn manifest_text(&self) -> Result<String, SamplesError> {
        let (path, file) = (&self.path, self.path.join(MANIFEST));
        if !file.is_file() {
            let message = match path.symlink_metadata() {
                Ok(_) if path.is_dir() => format!("contains no run: there is no {MANIFEST} in it"),
                Ok(_) => "is no folder: give the folder of a run, as flashlab-runs/TIME-TARGET".to_owned(),
                Err(error) if error.kind() != ErrorKind::NotFound => format!("cannot be looked at: {error}"),
                Err(_) => "is not there: give the folder of a run, as flashlab-runs/TIME-TARGET".to_owned(),
            };
            return Err(SamplesError::Folder { path: path.clone(), message });
        }
        let text = regular_file::text(&file, InputKind::DOCUMENT)?;
        let content = FileContent::of(text.as_bytes());
        if content.is_foreign() && !matches!(content, FileContent::RunDocument | FileContent::Json) {
            return Err(SamplesError::format(&file, format!("holds {content}, and no manifest of a run")));
        }
        // The version is read first: a manifest of another version may have other fields.
        #[derive(Deserialize)]
        #[serde(expecting = "the manifest of a run")]
        struct Version {
            version: u32,
            flashlab: Option<String>,
        }
        let Version { version, flashlab } =
            serde_json::from_str(&text).map_err(|error| SamplesError::format(&file, error))?;
        if version != MANIFEST_VERSION {
            let writer =
                flashlab.map_or("the flashlab that".to_owned(), |by| format!("flashlab {by}, which"));
            let message = format!(
                "has version {version}, and this program reads version {MANIFEST_VERSION}: read it with {writer} \
                 wrote it"
            );
            return Err(SamplesError::format(&file, message));
        }
        seal::DOCUMENT.verify_file(&file, &text)?;
        Ok(text)
    }

    fn parsed_manifest<S: DeserializeOwned>(&self, text: &str) -> Result<Manifest<S>, SamplesError> {
        serde_json::from_str(text).map_err(|error| SamplesError::format(&self.path.join(MANIFEST), error))
    }

    /// Compares the lists with what the manifest notes.
    fn verify_lists(&self, finished: Option<&Finished>) -> Result<(), SamplesError> {
        let runs = self.read_runs::<IgnoredAny>()?;
        let files = self.read_list()?;
        if let Some(noted) = finished {
            let lists = [
                (RUNS, noted.run_lines, runs.lines.len(), runs.is_torn, runs.crc32 == noted.runs_crc32),
                (FILES, noted.file_lines, files.lines.len(), files.is_torn, files.crc32 == noted.files_crc32),
            ];
            for (name, noted, count, is_torn, is_same) in lists {
                let wrong = match count as u64 {
                    count if count != noted => {
                        format!("the number of its complete lines is {count}, and {MANIFEST} notes {noted}")
                    }
                    _ if is_torn => "its last line is incomplete, and the run is finished".to_owned(),
                    _ if !is_same => {
                        format!(
                            "its checksum is not the one that {MANIFEST} notes: it is of another folder, or was changed"
                        )
                    }
                    _ => continue,
                };
                let message = format!("{wrong}; the file is damaged: {}", seal::REMEDY);
                return Err(SamplesError::format(&self.path.join(name), message));
            }
        }
        *self.listed() = latest(files.lines);
        Ok(())
    }

    /// Compares each listed file with its line. A finished folder has no others.
    ///
    /// # Errors
    /// If a file is missing, damaged or not listed.
    pub fn verify_files(&self, is_finished: bool) -> Result<(), SamplesError> {
        let listed = self.list();
        listed.iter().try_for_each(|file| file.verify(&self.path))?;
        match self.unlisted(&listed)?.first() {
            Some(path) if is_finished => {
                let message = format!(
                    "{FILES} does not list it: it does not belong to this run; move it to the folder that it is from, or restore this folder"
                );
                Err(SamplesError::format(path, message))
            }
            _ => Ok(()),
        }
    }

    /// Samples and plans that the list does not have.
    fn unlisted(&self, listed: &[ListedFile]) -> Result<Vec<PathBuf>, SamplesError> {
        let known: BTreeSet<&str> = listed.iter().map(|listed| listed.file.as_str()).collect();
        let folders: BTreeSet<&str> =
            known.iter().filter_map(|file| Some(file.split_once('/')?.0)).chain([SAMPLES]).collect();
        let mut unlisted = Vec::new();
        for folder in folders {
            for name in self.names(folder)? {
                let is_read = name.ends_with(".parquet") || name.ends_with(".toml");
                if is_read && !known.contains(format!("{folder}/{name}").as_str()) {
                    unlisted.push(self.path.join(folder).join(name));
                }
            }
        }
        Ok(unlisted)
    }

    /// Keeps other processes from writing into this folder, as long as a clone of the value lives.
    ///
    /// # Errors
    /// [`SamplesError::Folder`] if another process is writing into it.
    pub fn lock(&mut self) -> Result<(), SamplesError> {
        if self.lock.is_some() {
            return Ok(());
        }
        let directory =
            File::open(&self.path).map_err(|source| SamplesError::io("open", &self.path, source))?;
        match directory.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "another flashlab is measuring into it: wait until it has ended".to_owned();
                return Err(SamplesError::Folder { path: self.path.clone(), message });
            }
            Err(TryLockError::Error(source)) => {
                return Err(SamplesError::io("lock", &self.path, source));
            }
        }
        self.lock = Some(Arc::new(directory));
        // Another process may have added files since the folder was opened.
        *self.listed() = latest(self.read_list()?.lines);
        Ok(())
    }

    /// The state of the folder now. It costs three system calls, however large the folder is.
    pub fn state(path: &Path) -> FolderState {
        FolderState([MANIFEST, RUNS, FILES].map(|name| {
            let metadata = path.join(name).metadata().ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        }))
    }

    /// Whether a process is writing into the folder now.
    pub fn is_in_use(path: &Path) -> bool {
        File::open(path).is_ok_and(|folder| matches!(folder.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its segments are.
    pub fn samples(&self) -> PathBuf {
        self.path.join(SAMPLES)
    }

    /// Appends the line of a finished run. A full disk can leave a torn line. [`RunFolder::runs`] ignores a
    /// torn line, and this function replaces it. The samples are kept, and the run is measured again.
    pub fn add_run<R: Serialize>(&self, run: &R) -> Result<(), SamplesError> {
        self.add_runs(std::slice::from_ref(run))
    }

    /// As [`RunFolder::add_run`], for several lines at once.
    pub fn add_runs<R: Serialize>(&self, runs: &[R]) -> Result<(), SamplesError> {
        json_lines::append(&self.path.join(RUNS), runs)
    }

    /// Appends when the device worked on its own account.
    pub fn add_activity(&self, activity: &[Activity]) -> Result<(), SamplesError> {
        match activity {
            [] => Ok(()),
            some => json_lines::append(&self.path.join(ACTIVITY), some),
        }
    }

    /// When the device worked on its own account, as far as it was noted.
    ///
    /// # Errors
    /// If a line is damaged.
    pub fn activity(&self) -> Result<Vec<Activity>, SamplesError> {
        let path = self.path.join(ACTIVITY);
        match path.exists() {
            true => Ok(json_lines::read(&path)?.lines),
            false => Ok(Vec::new()),
        }
    }

    /// The finished runs, in their order. A torn last line is ignored.
    ///
    /// # Errors
    /// If a line does not describe a run, or does not match its checksum.
    pub fn runs<R: DeserializeOwned>(&self) -> Result<Vec<R>, SamplesError> {
        Ok(self.read_runs()?.lines)
    }

    /// Notes that all work is done, once everything that the list names is durable.
    ///
    /// # Errors
    /// If something cannot be written; the folder is then not finished.
    pub fn finish<S: Serialize + DeserializeOwned>(&self) -> Result<(), SamplesError> {
        self.list().iter().try_for_each(|listed| sync(&self.path.join(&listed.file)))?;
        [RUNS, FILES].iter().try_for_each(|name| sync(&self.path.join(name)))?;
        if self.samples().is_dir() {
            sync(&self.samples())?;
        }
        let (runs, files) = (self.read_runs::<IgnoredAny>()?, self.read_list()?);
        let mut manifest: Manifest<S> = self.parsed_manifest(&self.manifest_text()?)?;
        manifest.finished = Some(Finished {
            run_lines: runs.lines.len() as u64,
            file_lines: files.lines.len() as u64,
            runs_crc32: runs.crc32,
            files_crc32: files.crc32,
        });
        self.write_manifest(&manifest)
    }

    /// Writes the samples of short runs as one segment: the number of each run, ascending, with its samples. Nothing is
    /// written where there are none.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_short_runs(&self, runs: &[(u32, Vec<Sample>)]) -> Result<(), SamplesError> {
        let runs: Vec<&(u32, Vec<Sample>)> = runs.iter().filter(|(_, samples)| !samples.is_empty()).collect();
        for some in runs.chunks(SHARED_RUNS_MOST as usize) {
            let (Some((first, _)), Some((last, _))) = (some.first(), some.last()) else { continue };
            let name = format!("runs-{first:05}-{last:05}.parquet");
            let written = segment_writer::write_short_runs(&self.samples().join(&name), some)?;
            self.list_segment(&name, written)?;
        }
        Ok(())
    }

    /// Lists a segment that was closed: its length and the CRC-32 of its content.
    pub(crate) fn list_segment(&self, name: &str, (bytes, crc32): (u64, u32)) -> Result<(), SamplesError> {
        self.list_file(ListedFile::new(format!("{SAMPLES}/{name}"), bytes, crc32))
    }

    fn list_file(&self, file: ListedFile) -> Result<(), SamplesError> {
        let mut listed = self.listed();
        json_lines::append(&self.path.join(FILES), std::slice::from_ref(&file))?;
        listed.retain(|other| other.file != file.file);
        listed.push(file);
        Ok(())
    }

    /// Takes files from the list, before they are removed or replaced.
    fn unlist(&self, is_gone: impl Fn(&ListedFile) -> bool) -> Result<(), SamplesError> {
        let mut listed = self.listed();
        let kept: Vec<ListedFile> = listed.iter().filter(|file| !is_gone(file)).cloned().collect();
        if kept.len() < listed.len() {
            write_text(&self.path, FILES, &json_lines::text(&self.path.join(FILES), &kept)?)?;
            *listed = kept;
        }
        Ok(())
    }

    /// The listed files, each once.
    fn list(&self) -> Vec<ListedFile> {
        self.listed().clone()
    }

    /// The list, locked: what changes it also changes its file.
    fn listed(&self) -> MutexGuard<'_, Vec<ListedFile>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of the runs' file.
    fn read_runs<T: DeserializeOwned>(&self) -> Result<JsonLines<T>, SamplesError> {
        json_lines::read(&self.path.join(RUNS))
    }

    /// The lines of the list's file.
    ///
    /// # Errors
    /// If a line is damaged, or names a file outside of the folder: files of the list are renamed and removed.
    fn read_list(&self) -> Result<JsonLines<ListedFile>, SamplesError> {
        let path = self.path.join(FILES);
        let lines: JsonLines<ListedFile> = json_lines::read(&path)?;
        match lines.lines.iter().find(|listed| !listed.is_within_the_folder()) {
            Some(listed) => {
                let message = format!("{:?} is no file of this folder; {}", listed.file, seal::REMEDY);
                Err(SamplesError::format(&path, message))
            }
            None => Ok(lines),
        }
    }

    /// The CRC-32 of the list of files, in hexadecimal digits: it binds what was computed from the folder to its samples.
    ///
    /// # Errors
    /// If the list is missing or damaged.
    pub fn files_crc32(&self) -> Result<String, SamplesError> {
        Ok(self.read_list()?.crc32)
    }

    /// The closed segments of a run, in their order.
    pub fn segments(&self, run: u32) -> Vec<PathBuf> {
        self.segments_of(run).into_iter().map(|segment| segment.path).collect()
    }

    /// The closed segments of all runs, in the order of the runs.
    pub fn all_segments(&self) -> Vec<PathBuf> {
        self.listed_segments().into_iter().map(|segment| segment.path).collect()
    }

    fn segments_of(&self, run: u32) -> Vec<Segment> {
        let mut all = self.listed_segments();
        all.retain(|segment| segment.runs.contains(&run));
        all
    }

    fn listed_segments(&self) -> Vec<Segment> {
        Segment::among(&self.path, self.list().into_iter().map(|listed| listed.file))
    }

    /// Removes the samples of a run that does not count.
    pub fn remove_samples(&self, run: u32) -> Result<(), SamplesError> {
        let segments = self.segments(run);
        self.unlist(|listed| segments.contains(&self.path.join(&listed.file)))?;
        let remove =
            |path: &PathBuf| fs::remove_file(path).map_err(|source| SamplesError::io("remove", path, source));
        segments.iter().try_for_each(remove)
    }

    /// Removes every run with its samples; the folder is then as it was before the first run.
    pub fn remove_runs(&self) -> Result<(), SamplesError> {
        let remove = |path: PathBuf| match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(SamplesError::io("remove", &path, error))
            }
            _ => Ok(()),
        };
        self.write_text(RUNS, "")?;
        self.unlist(|_| true)?;
        let samples = self.samples();
        self.names(SAMPLES)?.into_iter().try_for_each(|name| remove(samples.join(name)))
    }

    /// The highest number of a run that has samples, finished or not.
    pub fn last_run(&self) -> Option<u32> {
        self.listed_segments().iter().map(|segment| *segment.runs.end()).max()
    }

    /// The segments of all runs, for reading many runs: the list is read once, not once for each run.
    pub fn segment_index(&self) -> SegmentIndex {
        SegmentIndex::of(self.listed_segments())
    }

    /// Passes every sample of a run to `see`, in the order of each process's positions. If IOs of one queue
    /// end in another row group than their neighbours, they come a little later.
    pub fn each_sample(&self, run: u32, mut see: impl FnMut(&Sample)) -> Result<(), SamplesError> {
        self.each_batch(run, |columns| (0..columns.len()).for_each(|index| see(&columns.sample(index))))
    }

    /// Passes the samples of a run to `see`, in batches by column.
    pub fn each_batch(&self, run: u32, mut see: impl FnMut(&Columns)) -> Result<(), SamplesError> {
        self.each_batch_of(run, &Column::ALL, &mut see)
    }

    /// As [`RunFolder::each_batch`], but reads only these columns; the others are empty.
    pub fn each_batch_of(
        &self,
        run: u32,
        wanted: &[Column],
        mut see: impl FnMut(&Columns),
    ) -> Result<(), SamplesError> {
        self.segments_of(run).iter().try_for_each(|segment| segment.each_batch_of(run, wanted, &mut see))
    }

    /// The files of samples that were set aside.
    pub fn torn_segments(&self) -> Result<Vec<PathBuf>, SamplesError> {
        let names = self.names(SAMPLES)?.into_iter().filter(|name| name.ends_with(".torn"));
        Ok(names.map(|name| self.samples().join(name)).collect())
    }

    /// Renames what a killed process leaves: files under temporary names, and files that are not listed. Damaged files are renamed
    /// and taken from the list, and missing ones are taken from it. Call it only to continue, with the folder locked: a run in
    /// progress has such files, too.
    ///
    /// # Errors
    /// If a file cannot be renamed.
    pub fn set_aside(&self) -> Result<Vec<SetAside>, SamplesError> {
        let mut aside = Vec::new();
        let listed = self.list();
        for folder in ["", SAMPLES, "probes"] {
            let parts = self.names(folder)?.into_iter().filter(|name| name.ends_with(".part"));
            let reason = "the program ended while it was written";
            aside.extend(parts.map(|name| (self.path.join(folder).join(name), reason.to_owned())));
        }
        let reason = "the program ended before it was listed";
        aside.extend(self.unlisted(&listed)?.into_iter().map(|path| (path, reason.to_owned())));
        let mut damaged = BTreeSet::new();
        for file in &listed {
            if let Err(error) = file.verify(&self.path) {
                // A file that cannot be read now may still be whole.
                if !matches!(error, SamplesError::Format { .. }) {
                    return Err(error);
                }
                damaged.insert(file.file.clone());
                aside.push((self.path.join(&file.file), error.to_string()));
            }
        }
        self.unlist(|listed| damaged.contains(&listed.file))?;
        let rename = |(path, reason): (PathBuf, String)| {
            let renamed = path.with_extension("torn");
            match fs::rename(&path, &renamed) {
                Ok(()) => Ok(SetAside { path: renamed, reason }),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(SetAside { path, reason }),
                Err(source) => Err(SamplesError::io("rename", &path, source)),
            }
        };
        aside.into_iter().map(rename).collect()
    }

    /// Reads a document of the folder that [`RunFolder::write_sealed`] wrote.
    ///
    /// # Errors
    /// If it does not exist, has the wrong content, or does not match its checksum.
    pub fn read_sealed<T: DeserializeOwned>(&self, name: &str) -> Result<T, SamplesError> {
        let path = self.path.join(name);
        let text = regular_file::text(&path, InputKind::DOCUMENT)?;
        // What is no JSON at all says so with its line.
        serde_json::from_str::<IgnoredAny>(&text).map_err(|error| SamplesError::format(&path, error))?;
        seal::DOCUMENT.verify_file(&path, &text)?;
        serde_json::from_str(&text).map_err(|error| SamplesError::format(&path, error))
    }

    /// Reads a plan of the folder that [`RunFolder::write_plan`] wrote.
    ///
    /// # Errors
    /// If it does not exist, is no text, or does not match its checksum.
    pub fn read_plan(&self, name: &str) -> Result<String, SamplesError> {
        let path = self.path.join(name);
        let text = regular_file::text(&path, InputKind::PLAN)?;
        seal::TOML.verify_file(&path, &text)?;
        Ok(text)
    }

    /// The listed files in a directory of the folder, by their names there, in their order.
    pub fn listed_in(&self, directory: &str) -> Vec<String> {
        let within =
            |listed: ListedFile| Some(listed.file.strip_prefix(directory)?.strip_prefix('/')?.to_owned());
        let mut names: Vec<String> = self.list().into_iter().filter_map(within).collect();
        names.sort();
        names
    }

    /// The names in a directory of the folder, in their order; none if it does not exist.
    fn names(&self, directory: &str) -> Result<Vec<String>, SamplesError> {
        let path = self.path.join(directory);
        let failed = |source| SamplesError::io("read", &path, source);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).map_err(failed)
        };
        let mut names: Vec<String> = entries.map(name).collect::<Result<_, _>>()?;
        names.sort();
        Ok(names)
    }

    /// Replaces the manifest, with its checksum.
    pub fn write_manifest<S: Serialize>(&self, manifest: &Manifest<S>) -> Result<(), SamplesError> {
        self.write_sealed(MANIFEST, manifest)
    }

    /// Writes a document that flashlab reads later: with its checksum as the last key. The file gets its name when it is
    /// complete and durable.
    pub fn write_sealed<T: Serialize>(&self, name: &str, value: &T) -> Result<(), SamplesError> {
        write_sealed(&self.path, name, value)
    }

    /// Writes and lists a plan in TOML that flashlab reads later: with its checksum as its last line, a comment.
    pub fn write_plan(&self, name: &str, plan: &str) -> Result<(), SamplesError> {
        // A kill between the file and its line leaves a file that is not listed, and no line of another content.
        self.unlist(|listed| listed.file == name)?;
        self.write_text(name, &seal::TOML.sealed(plan))?;
        self.list_file(ListedFile::of(&self.path, name)?)
    }

    /// Writes a document for other readers. The file gets its name when it is complete and durable.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), SamplesError> {
        write_json(&self.path, name, value)
    }

    /// As [`RunFolder::write_json`], for a text.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), SamplesError> {
        write_text(&self.path, name, text)
    }
}

/// Forces a file to the disk, or the names in a directory; nothing if it does not exist.
fn sync(path: &Path) -> Result<(), SamplesError> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SamplesError::io("write", path, error)),
        _ => Ok(()),
    }
}

/// The last line of each file.
fn latest(lines: Vec<ListedFile>) -> Vec<ListedFile> {
    let mut seen = BTreeSet::new();
    let mut latest: Vec<ListedFile> =
        lines.into_iter().rev().filter(|line| seen.insert(line.file.clone())).collect();
    latest.reverse();
    latest
}

/// Writes a document into a directory. The file gets its name when it is complete and durable.
///
/// # Errors
/// If it cannot be written; an earlier file stays.
pub fn write_json<T: Serialize>(directory: &Path, name: &str, value: &T) -> Result<(), SamplesError> {
    write_text(directory, name, &json_text(directory, name, value)?)
}

/// As [`write_json`], for a document that flashlab reads later: with its checksum as the last key.
///
/// # Errors
/// As [`write_json`].
pub fn write_sealed<T: Serialize>(directory: &Path, name: &str, value: &T) -> Result<(), SamplesError> {
    write_text(directory, name, &seal::DOCUMENT.sealed(&json_text(directory, name, value)?))
}

fn json_text<T: Serialize>(directory: &Path, name: &str, value: &T) -> Result<String, SamplesError> {
    let text = serde_json::to_string_pretty(value);
    let mut text = text.map_err(|error| SamplesError::format(&directory.join(name), error))?;
    text.push('\n');
    Ok(text)
}

fn write_text(directory: &Path, name: &str, text: &str) -> Result<(), SamplesError> {
    let path = directory.join(name);
    write_durably(&path, |mut file| file.write_all(text.as_bytes()).map(|()| file))
        .map_err(|source| SamplesError::io("write", &path, source))
}

/// Writes a file that gets its name when `write` has returned it whole, and it and its name are on the disk.
///
/// # Errors
/// If it cannot be written; an earlier file of this name stays, and no part of the new one.
pub fn write_durably(path: &Path, write: impl FnOnce(File) -> io::Result<File>) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let written = (|| {
        write(File::create(part)?)?.sync_all()?;
        fs::rename(part, path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(part);
    }
    written
}
