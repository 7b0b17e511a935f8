//! The folder of a run.
//!
//! ```text
//! manifest.json            what was measured, how, and by whose consent; written at the start
//! runs.jsonl               one line for each finished run, appended when it is
//! samples/run-00001-00000.parquet ...
//! samples/runs-00002-00417.parquet ...   many short runs in one file, as of an inference
//! summary.json, traces.json, report.html
//! ```
//! Everything except the last line can be computed from the files above it.
//!
//! # Invariant
//! What flashlab reads later has a checksum (module `seal`); a text that does not match its own is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use flashlab_base::Identity;
use flashlab_input::InputKind;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::{
    Column, Columns, Sample, SamplesError, for_each_batch, for_each_batch_of, regular_file, seal,
    segment_writer,
};

/// The version of the folder's format.
pub const MANIFEST_VERSION: u32 = 1;

const MANIFEST: &str = "manifest.json";
const RUNS: &str = "runs.jsonl";
const SAMPLES: &str = "samples";
/// The most runs that share a segment.
const SHARED_RUNS_MOST: u32 = 1 << 16;

/// What the folder says about the run as a whole. `Settings` is what the user chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest<Settings> {
    /// [`MANIFEST_VERSION`].
    pub version: u32,
    /// The program's version.
    pub flashlab: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it started, RFC 3339, UTC.
    pub started: String,
    /// What was measured, and on which machine.
    pub identity: Identity,
    /// How the user consented to writing.
    pub consent: String,
    /// What a person chose.
    pub settings: Settings,
    /// The plans that were run, as TOML.
    pub plans: Vec<String>,
    /// Bytes that were written to prepare the target, for example to fill a scratch file.
    pub prepared_bytes: u64,
    /// Warnings from before the first run: kind and message.
    pub warnings: Vec<(String, String)>,
    /// The time that measuring and recording add to each IO, without the IO and two readings of the clock.
    pub overhead_ns_per_io: Option<f64>,
    /// One reading of the clock.
    pub clock_ns_per_reading: Option<f64>,
    /// The number of lines in `runs.jsonl`, noted when the last run is finished: a reader then finds lost lines. `None`
    /// until then, and in manifests of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_lines: Option<u64>,
}

/// The lines of `runs.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLines<R> {
    /// The complete lines, in their order.
    pub runs: Vec<R>,
    /// Whether an incomplete line follows them.
    pub is_torn: bool,
}

/// A torn file that was renamed, so that no reader takes it for a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornSegment {
    /// Its new name.
    pub path: PathBuf,
    /// What was wrong with it.
    pub reason: String,
}

/// The exclusive right to measure into a folder. It ends when it is dropped, or with its process.
#[derive(Debug)]
pub struct FolderLock {
    _directory: File,
}

/// The files of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Creates the folder of a new run.
    ///
    /// # Errors
    /// [`SamplesError::Exists`] if the name is taken; or the folder cannot be created.
    pub fn create<S: Serialize>(path: &Path, manifest: &Manifest<S>) -> Result<RunFolder, SamplesError> {
        let folder = RunFolder::make(path)?;
        folder.make_directory(SAMPLES)?;
        folder.write_manifest(manifest)?;
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
        let folder = RunFolder::make(path)?;
        folder.write_manifest(manifest)?;
        Ok(folder)
    }

    fn make(path: &Path) -> Result<RunFolder, SamplesError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|source| SamplesError::io("create", parent, source))?;
        }
        // Fails if it exists: another flashlab may start in the same second.
        fs::create_dir(path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => SamplesError::Exists { path: path.to_owned() },
            _ => SamplesError::io("create", path, source),
        })?;
        Ok(RunFolder { path: path.to_owned() })
    }

    /// Creates a directory in the folder, if it does not exist.
    pub fn make_directory(&self, name: &str) -> Result<(), SamplesError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|source| SamplesError::io("create", &path, source))
    }

    /// Opens the folder of a run, complete or not, with its manifest.
    ///
    /// # Errors
    /// If it is not a run's folder, or has a version that this program does not know.
    pub fn open<S: DeserializeOwned>(path: &Path) -> Result<(RunFolder, Manifest<S>), SamplesError> {
        let folder = RunFolder { path: path.to_owned() };
        let file = path.join(MANIFEST);
        if !file.is_file() {
            let message = match path.symlink_metadata() {
                Ok(_) if path.is_dir() => format!("contains no run: there is no {MANIFEST} in it"),
                Ok(_) => "is no folder: give the folder of a run, as flashlab-runs/TIME-TARGET".to_owned(),
                Err(error) if error.kind() != ErrorKind::NotFound => format!("cannot be looked at: {error}"),
                Err(_) => "is not there: give the folder of a run, as flashlab-runs/TIME-TARGET".to_owned(),
            };
            return Err(SamplesError::Folder { path: path.to_owned(), message });
        }
        let text = regular_file::text(&file, InputKind::DOCUMENT)?;
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
        let manifest = serde_json::from_str(&text).map_err(|error| SamplesError::format(&file, error))?;
        Ok((folder, manifest))
    }

    /// Keeps other processes from measuring into this folder, as long as the value lives.
    ///
    /// # Errors
    /// [`SamplesError::Folder`] if another process is measuring into it.
    pub fn lock(&self) -> Result<FolderLock, SamplesError> {
        let directory =
            File::open(&self.path).map_err(|source| SamplesError::io("open", &self.path, source))?;
        match directory.try_lock() {
            Ok(()) => Ok(FolderLock { _directory: directory }),
            Err(TryLockError::WouldBlock) => {
                let message = "another flashlab is measuring into it: wait until it has ended".to_owned();
                Err(SamplesError::Folder { path: self.path.clone(), message })
            }
            Err(TryLockError::Error(source)) => Err(SamplesError::io("lock", &self.path, source)),
        }
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
        let path = self.path.join(RUNS);
        let mut lines = Vec::new();
        for run in runs {
            let line = serde_json::to_string(run).map_err(|error| SamplesError::format(&path, error))?;
            lines.extend_from_slice(seal::LINE.sealed(&line).as_bytes());
            lines.push(b'\n');
        }
        let append = || {
            let mut file =
                OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path)?;
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            let whole = complete_lines(&text).len() as u64;
            file.set_len(whole)?;
            file.seek(SeekFrom::Start(whole))?;
            file.write_all(&lines)
        };
        append().map_err(|source| SamplesError::io("append to", &path, source))
    }

    /// The finished runs, in their order. A torn last line is ignored.
    ///
    /// # Errors
    /// If a line does not describe a run, or does not match its checksum.
    pub fn runs<R: DeserializeOwned>(&self) -> Result<Vec<R>, SamplesError> {
        Ok(self.run_lines()?.runs)
    }

    /// As [`RunFolder::runs`], and whether the last line is torn.
    ///
    /// # Errors
    /// As [`RunFolder::runs`].
    pub fn run_lines<R: DeserializeOwned>(&self) -> Result<RunLines<R>, SamplesError> {
        let path = self.path.join(RUNS);
        let text = match regular_file::bytes(&path, InputKind::RUN_LINES) {
            Err(SamplesError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Vec::new(),
            result => result?,
        };
        let complete = complete_lines(&text);
        let lines = complete.split(|&byte| byte == b'\n').enumerate();
        let runs: Result<Vec<R>, SamplesError> = lines
            .filter(|(_, line)| !line.is_empty())
            .map(|(index, line)| {
                line_of_run(line)
                    .map_err(|wrong| SamplesError::format(&path, format!("line {}: {wrong}", index + 1)))
            })
            .collect();
        let torn = String::from_utf8_lossy(&text[complete.len()..]);
        if seal::LINE.has_more_behind(&torn) {
            let message = format!("the end of its last line is damaged; {}", seal::REMEDY);
            return Err(SamplesError::format(&path, message));
        }
        Ok(RunLines { runs: runs?, is_torn: !torn.is_empty() })
    }

    /// Forces the lines of the finished runs to the disk, so that a power failure cannot lose lines that a manifest counts.
    ///
    /// # Errors
    /// If that fails.
    pub fn sync_runs(&self) -> Result<(), SamplesError> {
        let path = self.path.join(RUNS);
        match File::open(&path).and_then(|file| file.sync_all()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(SamplesError::io("write", &path, error)),
            _ => Ok(()),
        }
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
            let path = self.samples().join(format!("runs-{first:05}-{last:05}.parquet"));
            segment_writer::write_short_runs(&path, some)?;
        }
        Ok(())
    }

    /// The closed segments of a run, in their order.
    pub fn segments(&self, run: u32) -> Result<Vec<PathBuf>, SamplesError> {
        Ok(self.segments_of(run)?.into_iter().map(|segment| segment.path).collect())
    }

    fn segments_of(&self, run: u32) -> Result<Vec<Segment>, SamplesError> {
        let mut all = self.files()?;
        all.retain(|segment| segment.runs.contains(&run));
        Ok(all)
    }

    /// Removes the samples of a run that does not count.
    pub fn remove_samples(&self, run: u32) -> Result<(), SamplesError> {
        let remove =
            |path: &PathBuf| fs::remove_file(path).map_err(|source| SamplesError::io("remove", path, source));
        self.segments(run)?.iter().try_for_each(remove)
    }

    /// Removes every run with its samples; the folder is then as it was before the first run.
    pub fn remove_runs(&self) -> Result<(), SamplesError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SamplesError::io("remove", &path, source)
        };
        for path in self.entries()? {
            fs::remove_file(&path).map_err(failed(&path))?;
        }
        let runs = self.path.join(RUNS);
        match fs::remove_file(&runs) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&runs)(error)),
            _ => Ok(()),
        }
    }

    /// The highest number of a run that has samples, finished or not.
    pub fn last_run(&self) -> Result<Option<u32>, SamplesError> {
        Ok(self.files()?.iter().map(|segment| *segment.runs.end()).max())
    }

    /// The segments of all runs, for reading many runs: the folder is listed once, not once for each run.
    pub fn segment_index(&self) -> Result<SegmentIndex, SamplesError> {
        let mut index = SegmentIndex::default();
        for segment in self.files()? {
            for run in segment.runs.clone() {
                index.0.entry(run).or_default().push(segment.clone());
            }
        }
        Ok(index)
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
        self.segments_of(run)?.iter().try_for_each(|segment| segment.each_batch_of(run, wanted, &mut see))
    }

    /// The torn segments that were renamed.
    pub fn torn_segments(&self) -> Result<Vec<PathBuf>, SamplesError> {
        let is_torn = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "torn");
        let mut torn: Vec<PathBuf> = self.entries()?.into_iter().filter(is_torn).collect();
        torn.sort();
        Ok(torn)
    }

    /// Renames torn segments, which a process leaves if it is killed while it writes one. Call it only to
    /// resume the run: a run in progress has an incomplete segment, too.
    pub fn rename_torn_segments(&self) -> Result<Vec<TornSegment>, SamplesError> {
        let mut aside = Vec::new();
        for path in self.entries()? {
            let reason = match path.extension().and_then(|extension| extension.to_str()) {
                Some("part") => "the program ended while it was written".to_owned(),
                Some("parquet") => match for_each_batch(&path, |_| {}) {
                    Ok(()) => continue,
                    Err(error) => error.to_string(),
                },
                _ => continue,
            };
            let renamed = path.with_extension("torn");
            fs::rename(&path, &renamed).map_err(|source| SamplesError::io("rename", &path, source))?;
            aside.push(TornSegment { path: renamed, reason });
        }
        Ok(aside)
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
        seal::PLAN.verify_file(&path, &text)?;
        Ok(text)
    }

    /// The names in a directory of the folder, in their order; none if it does not exist.
    pub fn names(&self, directory: &str) -> Result<Vec<String>, SamplesError> {
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
        let text = seal::DOCUMENT.sealed(&json_text(&self.path, name, value)?);
        self.write_text(name, &text)
    }

    /// Writes a plan in TOML that flashlab reads later: with its checksum as its last line, a comment.
    pub fn write_plan(&self, name: &str, plan: &str) -> Result<(), SamplesError> {
        self.write_text(name, &seal::PLAN.sealed(plan))
    }

    /// Writes a document for other readers. The file gets its name when it is complete and durable.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), SamplesError> {
        write_json(&self.path, name, value)
    }

    /// As [`RunFolder::write_json`], for a text.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), SamplesError> {
        write_text(&self.path, name, text)
    }

    /// Every closed segment, in the order of their numbers.
    fn files(&self) -> Result<Vec<Segment>, SamplesError> {
        let mut files: Vec<Segment> = self.entries()?.into_iter().filter_map(Segment::named).collect();
        files.sort_by_key(|segment| (*segment.runs.start(), segment.number));
        Ok(files)
    }

    /// Everything in the folder of samples, in no order.
    fn entries(&self) -> Result<Vec<PathBuf>, SamplesError> {
        let samples = self.samples();
        let failed = |source| SamplesError::io("read", &samples, source);
        let entries = fs::read_dir(&samples).map_err(failed)?;
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
    }
}

/// The closed segments of each run.
#[derive(Debug, Default)]
pub struct SegmentIndex(BTreeMap<u32, Vec<Segment>>);

impl SegmentIndex {
    /// Passes every sample of a run to `see`, as [`RunFolder::each_sample`] does. A run without segments has
    /// none.
    ///
    /// # Errors
    /// If a segment cannot be read or is damaged.
    pub fn each_sample(&self, run: u32, mut see: impl FnMut(&Sample)) -> Result<(), SamplesError> {
        let segments = self.0.get(&run).map_or(&[][..], Vec::as_slice);
        let mut see_batch =
            |columns: &Columns| (0..columns.len()).for_each(|index| see(&columns.sample(index)));
        segments.iter().try_for_each(|segment| segment.each_batch_of(run, &Column::ALL, &mut see_batch))
    }
}

impl SegmentIndex {
    /// The samples of these runs, which may share segments: each segment is read once.
    ///
    /// # Errors
    /// If a segment cannot be read or is damaged.
    pub fn samples_by_run(&self, runs: &[u32]) -> Result<BTreeMap<u32, Vec<Sample>>, SamplesError> {
        let mut samples: BTreeMap<u32, Vec<Sample>> = runs.iter().map(|&run| (run, Vec::new())).collect();
        let segments = runs.iter().filter_map(|run| self.0.get(run)).flatten();
        let paths: BTreeSet<&PathBuf> = segments.map(|segment| &segment.path).collect();
        for path in paths {
            for_each_batch(path, |columns| {
                for index in 0..columns.len() {
                    if let Some(run) = samples.get_mut(&(columns.run[index] as u32)) {
                        run.push(columns.sample(index));
                    }
                }
            })?;
        }
        Ok(samples)
    }
}

/// Writes a document into a directory. The file gets its name when it is complete and durable.
///
/// # Errors
/// If it cannot be written; an earlier file stays.
pub fn write_json<T: Serialize>(directory: &Path, name: &str, value: &T) -> Result<(), SamplesError> {
    write_text(directory, name, &json_text(directory, name, value)?)
}

fn json_text<T: Serialize>(directory: &Path, name: &str, value: &T) -> Result<String, SamplesError> {
    let text = serde_json::to_string_pretty(value);
    let mut text = text.map_err(|error| SamplesError::format(&directory.join(name), error))?;
    text.push('\n');
    Ok(text)
}

/// The run that a line of `runs.jsonl` describes, or what is wrong with the line.
fn line_of_run<R: DeserializeOwned>(line: &[u8]) -> Result<R, String> {
    let text =
        std::str::from_utf8(line).map_err(|_| "is no text in UTF-8: the file is damaged".to_owned())?;
    seal::LINE.verify(text).map_err(|wrong| format!("{wrong}; {}", seal::REMEDY))?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn write_text(directory: &Path, name: &str, text: &str) -> Result<(), SamplesError> {
    let path = directory.join(name);
    let part = directory.join(format!("{name}.part"));
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&part);
        SamplesError::io("write", &path, source)
    })
}

/// A closed segment's file.
#[derive(Clone, Debug)]
struct Segment {
    /// The runs whose samples it may contain; one, or many short ones.
    runs: RangeInclusive<u32>,
    number: u32,
    path: PathBuf,
}

impl Segment {
    /// Parses `run-00012-00000.parquet`, segment 0 of run 12, and `runs-00013-00045.parquet`, runs 13 to 45; `None` for every
    /// other name.
    fn named(path: PathBuf) -> Option<Segment> {
        let name = path.file_name()?.to_str()?.strip_suffix(".parquet")?;
        let numbers = name.strip_prefix("runs-").or(name.strip_prefix("run-"))?.split_once('-')?;
        let (first, second): (u32, u32) = (numbers.0.parse().ok()?, numbers.1.parse().ok()?);
        match name.starts_with("runs-") {
            // The most runs bound the index that a damaged name can cause.
            true if second >= first && second - first < SHARED_RUNS_MOST => {
                Some(Segment { runs: first..=second, number: 0, path })
            }
            true => None,
            false => Some(Segment { runs: first..=first, number: second, path }),
        }
    }

    /// Passes the samples of one of its runs to `see`, in batches.
    fn each_batch_of(
        &self,
        run: u32,
        wanted: &[Column],
        see: &mut impl FnMut(&Columns),
    ) -> Result<(), SamplesError> {
        if self.runs.start() == self.runs.end() {
            return for_each_batch_of(&self.path, wanted, see);
        }
        let mut wanted = wanted.to_vec();
        if !wanted.contains(&Column::Run) {
            wanted.push(Column::Run);
        }
        for_each_batch_of(&self.path, &wanted, |columns| {
            let mut own = columns.clone();
            own.retain_run(run);
            if !own.is_empty() {
                see(&own);
            }
        })
    }
}

/// The text up to its last end of a line.
fn complete_lines(text: &[u8]) -> &[u8] {
    let length = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    &text[..length]
}
