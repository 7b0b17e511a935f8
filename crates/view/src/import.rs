//! Looks at files of other programs: they are converted once to segments of flashlab, and everything else is as for a run.
//!
//! # Method
//! 1. [`ForeignFiles`] knows the files and their format. Several logs of one job of fio are one recording, with a process for each.
//! 2. The converted segments are in a folder of the cache. A document beside them has the stamps of the files, and what was assumed.
//! 3. Where the stamps or the segments are not as they were, the files are converted anew.
//!
//! # Invariants
//! - A folder of the cache gets its name when it is whole.
//! - Text is read line by line and Parquet in batches: memory does not grow with a file.
//! - What the files do not say is a note of the recording.

mod conversion;
mod fio_logs;
mod parquet_files;
mod traces;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use flashlab_input::FileContent;
use flashlab_samples::{ForeignSamples, ImportedSamples, SegmentReader, seal, write_sealed};

use crate::error::ViewError;
use crate::overview::RunLabel;
use crate::recording::{ReadProgress, Source};
use crate::stamp::{Stamp, stamps};
use conversion::Imported;

/// The version of what is converted to what: a folder of another one is made anew.
const VERSION: u32 = 1;
const DOCUMENT: &str = "imported.json";

/// What the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFormat {
    /// Logs of fio.
    FioLogs,
    /// A trace with response times.
    Trace,
    /// Parquet with the columns of samples.
    Parquet,
}

/// Files of another program.
#[derive(Clone, Debug)]
pub struct ForeignFiles {
    /// What they are called together.
    pub name: String,
    /// Where they are.
    pub paths: Vec<PathBuf>,
    /// What they are.
    pub format: ForeignFormat,
}

impl ForeignFiles {
    /// The files as recordings: logs of several jobs of one command of fio are one.
    pub fn grouped(paths: &[(PathBuf, ForeignFormat)]) -> Vec<ForeignFiles> {
        let mut groups: Vec<ForeignFiles> = Vec::new();
        for (path, format) in paths {
            let is_same = |group: &&mut ForeignFiles| {
                *format == ForeignFormat::FioLogs
                    && group.format == *format
                    && group.paths.iter().all(|own| fio_logs::are_of_one_command(own, path))
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.paths.push(path.clone()),
                None => groups.push(ForeignFiles {
                    name: path.display().to_string(),
                    paths: vec![path.clone()],
                    format: *format,
                }),
            }
        }
        groups
    }

    /// Converts the files, unless that was done before: into the first of these folders that can be made.
    ///
    /// # Errors
    /// If a file cannot be read or has the wrong content, or no folder can be written.
    pub fn import(&self, folders: &[PathBuf], progress: ReadProgress) -> Result<Source, ViewError> {
        let stamps = stamps(&self.paths);
        if let Some(source) = folders.iter().find_map(|folder| self.imported(folder, &stamps)) {
            return Ok(source);
        }
        let mut failure = None;
        for folder in folders {
            match part_of(folder) {
                Ok(part) => {
                    let made = self.convert(&part, folder, stamps, progress);
                    if made.is_err() {
                        let _ = fs::remove_dir_all(&part);
                    }
                    return made;
                }
                Err(source) => failure = Some((folder.clone(), source)),
            }
        }
        let (folder, source) =
            failure.unwrap_or_else(|| (PathBuf::new(), io::Error::from(io::ErrorKind::NotFound)));
        Err(ViewError::Cache { folder, source })
    }

    fn convert(
        &self,
        part: &Path,
        folder: &Path,
        stamps: Vec<Stamp>,
        progress: ReadProgress,
    ) -> Result<Source, ViewError> {
        let mut samples = ImportedSamples::new(part);
        let mut imported = match self.format {
            ForeignFormat::FioLogs => fio_logs::convert(&self.paths, &mut samples, progress)?,
            ForeignFormat::Trace => traces::convert(&self.paths, &mut samples, progress)?,
            ForeignFormat::Parquet => parquet_files::convert(&self.paths, &mut samples, progress)?,
        };
        let names = samples.finish()?.into_iter().filter_map(|path| path.file_name().map(PathBuf::from));
        imported = Imported { version: VERSION, stamps, segments: names.collect(), ..imported };
        write_sealed(part, DOCUMENT, &imported)?;
        let cannot = |source| ViewError::Cache { folder: folder.to_owned(), source };
        if folder.symlink_metadata().is_ok() {
            fs::remove_dir_all(folder).map_err(cannot)?;
        }
        fs::rename(part, folder).map_err(cannot)?;
        Ok(self.source(folder, imported))
    }

    /// What was converted before, if it is of these files and whole.
    fn imported(&self, folder: &Path, stamps: &[Stamp]) -> Option<Source> {
        let text = fs::read_to_string(folder.join(DOCUMENT)).ok()?;
        seal::DOCUMENT.verify(&text).ok()?;
        let imported: Imported = serde_json::from_str(&text).ok()?;
        let is_same = imported.version == VERSION && imported.stamps == stamps;
        let is_named = |name: &PathBuf| name.file_name() == Some(name.as_os_str());
        if !is_same || !imported.segments.iter().all(is_named) {
            return None;
        }
        let is_whole = |name: &PathBuf| {
            SegmentReader::open(&folder.join(name)).and_then(|reader| reader.verify()).is_ok()
        };
        imported.segments.iter().all(is_whole).then(|| self.source(folder, imported))
    }

    fn source(&self, folder: &Path, imported: Imported) -> Source {
        let runs = imported.runs.into_iter().map(|(run, name)| RunLabel { run, name, io_ignore: 0 });
        Source {
            name: self.name.clone(),
            target: imported.target,
            verb: imported.verb,
            segments: imported.segments.iter().map(|name| folder.join(name)).collect(),
            runs: runs.collect(),
            notes: imported.notes,
            pyramid_files: vec![folder.join("samples.pyramid")],
            ..Source::default()
        }
    }
}

/// Makes an empty folder beside the one that it becomes.
fn part_of(folder: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = folder.with_extension(format!("part-{}-{count}", std::process::id()));
    if let Some(parent) = part.parent() {
        fs::create_dir_all(parent)?;
    }
    // What a program left that had the same number.
    let _ = fs::remove_dir_all(&part);
    fs::create_dir(&part)?;
    Ok(part)
}

impl ForeignFormat {
    /// The format of a file; `None` if flashlab wrote it.
    ///
    /// # Errors
    /// If it cannot be read, or holds nothing that can be looked at.
    pub fn of(path: &Path) -> Result<Option<ForeignFormat>, ViewError> {
        let content =
            FileContent::of_file(path).map_err(|source| ViewError::Read { file: path.to_owned(), source })?;
        match content {
            FileContent::Parquet => Ok(ForeignSamples::open(path)?.map(|_| ForeignFormat::Parquet)),
            FileContent::FioLog => Ok(Some(ForeignFormat::FioLogs)),
            FileContent::Trace(_) => Ok(Some(ForeignFormat::Trace)),
            other => {
                let name = path.display().to_string();
                let advice = other.advice(&name).map(|advice| format!("; {advice}")).unwrap_or_default();
                let message = format!(
                    "holds {other}, and no IOs to look at: give a run's folder, a Parquet file with the columns of samples, a latency log of \
                     fio or blkparse's text{advice}"
                );
                Err(ViewError::Foreign { file: path.to_owned(), message })
            }
        }
    }
}
