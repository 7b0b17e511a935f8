//! What `flashlab view` shows: folders of runs of every kind, files of samples, and files of other programs.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flashlab_analysis::inference::Inference;
use flashlab_base::{Activity, ActivityAmount, ActivityKind, Span, Spans};
use flashlab_bench::{RunRecord, doubts};
use flashlab_infer::PROBES;
use flashlab_samples::{FolderKind, FolderState, Manifest, ProbeStep, RecordedRun, RunFolder};
use flashlab_view::{
    ForeignFiles, ForeignFormat, LiveRecording, LookAgain, Mark, MarkKind, MarkedTime, ReadProgress,
    RunLabel, Server, ServerPace, Source, ViewedRecording,
};
use serde::de::IgnoredAny;

use crate::inference::folder::{INFERENCE, PAGE};

/// The name of the file beside the samples that keeps what a large recording was summed up to.
const PYRAMID: &str = "samples.pyramid";
/// The most times of each kind of a device's own work that are told apart: a mark for every second pixel.
const ACTIVITY_MOST: usize = 1000;
/// The kinds of folders that have samples of their own.
const WITH_SAMPLES: &[FolderKind] = &[
    FolderKind::Bench,
    FolderKind::ModelFit,
    FolderKind::ModelCheck,
    FolderKind::Inference,
    FolderKind::Recording,
];

/// What a command names, ready to be opened.
pub enum Given {
    /// The folder of a run, or a file of its samples.
    Run(PathBuf),
    /// Files of another program.
    Foreign(ForeignFiles),
}

/// What these paths name. Several logs of one command of fio are one recording.
pub fn given(paths: &[PathBuf]) -> Result<Vec<Given>> {
    let (mut own, mut foreign) = (Vec::new(), Vec::new());
    for (path, at) in paths.iter().zip(0usize..) {
        // What is not there is reported as no run.
        let format = if path.is_file() { ForeignFormat::of(path)? } else { None };
        match format {
            Some(format) => foreign.push((path.clone(), format)),
            None => own.push((at, Given::Run(path.clone()))),
        }
    }
    let place =
        |files: &ForeignFiles| paths.iter().position(|path| *path == files.paths[0]).unwrap_or(usize::MAX);
    let groups =
        ForeignFiles::grouped(&foreign).into_iter().map(|files| (place(&files), Given::Foreign(files)));
    let mut all: Vec<(usize, Given)> = own.into_iter().chain(groups).collect();
    // In the order of the command line.
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, given)| given).collect())
}

impl Given {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Given::Run(path) => path.display().to_string(),
            Given::Foreign(files) => files.name.clone(),
        }
    }

    /// Opens it. With a run that another process is writing comes what looks at it again.
    pub fn open(&self, progress: ReadProgress) -> Result<(ViewedRecording, Option<LookAgain>)> {
        match self {
            Given::Run(run) => open(run, progress),
            Given::Foreign(files) => {
                let name = kept_name(&files.paths[0]);
                let folder = |cache: PathBuf| cache.join("flashlab/imported").join(&name);
                let folders: Vec<PathBuf> = cache().into_iter().map(folder).collect();
                let source = files.import(&folders, progress)?;
                Ok((ViewedRecording::open(source, progress)?, None))
            }
        }
    }
}

fn open(run: &Path, progress: ReadProgress) -> Result<(ViewedRecording, Option<LookAgain>)> {
    let source = source(run)?;
    let look = source.is_growing.then(|| look_again(run.to_owned()));
    Ok((ViewedRecording::open(source, progress)?, look))
}

/// Serves the page of a run that this process measures, until the value is dropped.
pub fn watch(run: &Path) -> Result<Server> {
    let (recording, look) = open(run, &|_, _, _| {})?;
    let recordings = vec![LiveRecording::new(recording, look)];
    let server = Server::start_at(ServerPace::Background, recordings, 0)?;
    tell!("look at the run while it is measured, until this program ends: {}", server.url());
    Ok(server)
}

/// Looks at a run's folder: what is new, unless nothing is.
fn look_again(run: PathBuf) -> LookAgain {
    let mut seen: Option<(FolderState, bool)> = None;
    Box::new(move || {
        let state = RunFolder::state(&run);
        // The lock of a folder that nobody writes is looked at only when something changed: the look itself takes it for a moment.
        let is_same = seen.as_ref().is_some_and(|(known, _)| *known == state);
        let was_growing = seen.as_ref().is_none_or(|(_, is_growing)| *is_growing);
        if is_same && (!was_growing || RunFolder::is_in_use(&run)) {
            return Ok(None);
        }
        let source = source(&run)?;
        seen = Some((state, source.is_growing));
        Ok(Some(source))
    })
}

/// Where the IOs of a run are, and what its folder says about them.
pub fn source(run: &Path) -> Result<Source> {
    let name = run.display().to_string();
    if run.is_file() {
        let segments = vec![run.to_owned()];
        return Ok(Source {
            name,
            verb: "file of samples".to_owned(),
            segments,
            pyramid_files: kept_pyramid(run),
            ..Source::default()
        });
    }
    // The segments are verified when they are summed up.
    let (folder, manifest) = RunFolder::open_unverified::<IgnoredAny>(run, WITH_SAMPLES)?;
    let mut notes: Vec<String> = manifest.warnings.iter().map(|(_, message)| message.clone()).collect();
    let is_growing = manifest.finished.is_none() && RunFolder::is_in_use(run);
    match is_growing {
        true => notes.push("the run is being measured now: what there is of it is shown".to_owned()),
        false => notes.extend(manifest.unfinished(run).map(|left| format!("unfinished: {left}"))),
    }
    // Of a run that grows nothing is kept: it would be old in a second.
    let mut pyramid_files = if is_growing { Vec::new() } else { kept_pyramid(run) };
    if manifest.finished.is_some() {
        pyramid_files.insert(0, folder.path().join(PYRAMID));
    }
    let (runs, marks) = runs(&folder, manifest.kind, &mut notes)?;
    Ok(Source {
        name,
        target: manifest.identity.target.clone(),
        verb: verb(&manifest),
        segments: folder.all_segments(),
        // What is being written is not whole.
        folder: (!is_growing).then(|| (folder.clone(), manifest.finished.is_some())),
        report: Some(folder.path().join(PAGE)).filter(|page| page.is_file()),
        runs,
        marks,
        notes,
        pyramid_files,
        is_growing,
    })
}

/// The words of the command that are neither the program nor arguments.
fn verb(manifest: &Manifest<IgnoredAny>) -> String {
    let words = manifest
        .command
        .iter()
        .skip(1)
        .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    words.take(2).cloned().collect::<Vec<String>>().join(" ")
}

/// What each run was, and what the page marks.
fn runs(folder: &RunFolder, kind: FolderKind, notes: &mut Vec<String>) -> Result<(Vec<RunLabel>, Vec<Mark>)> {
    Ok(match kind {
        FolderKind::Recording => {
            let label = |run: RecordedRun| RunLabel { run: run.run, name: run.name, io_ignore: 0 };
            (folder.runs()?.into_iter().map(label).collect(), activity(&folder.activity()?))
        }
        FolderKind::Inference => inference(folder, notes)?,
        _ => {
            let runs = folder.runs::<RunRecord>()?;
            let mut marks = activity(&folder.activity()?);
            marks.extend(doubtful(&runs));
            let label = |run: RunRecord| RunLabel {
                run: run.run,
                name: run.purpose.to_string(),
                io_ignore: run.io_ignore,
            };
            (runs.into_iter().map(label).collect(), marks)
        }
    })
}

/// When the device worked on its own account, at most [`ACTIVITY_MOST`] times of each kind.
fn activity(noted: &[Activity]) -> Vec<Mark> {
    let mut kinds: Vec<(ActivityKind, Spans<ActivityAmount>)> = Vec::new();
    for &Activity { kind, start_ns, end_ns, amount } in noted {
        let at = kinds.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            kinds.push((kind, Spans::new(ACTIVITY_MOST, 0)));
            kinds.len() - 1
        });
        kinds[at].1.add(Span { start_ns, end_ns, amount });
    }
    let mark = |kind: ActivityKind, span: Span<ActivityAmount>| Mark {
        when: MarkedTime::Clock(span.start_ns, span.end_ns),
        kind: MarkKind::Collection,
        text: format!(
            "{}: {} pages written, {} blocks erased",
            kind.name(),
            span.amount.pages,
            span.amount.erases
        ),
    };
    kinds
        .into_iter()
        .flat_map(|(kind, spans)| spans.into_vec().into_iter().map(move |span| mark(kind, span)))
        .collect()
}

/// What is doubtful in single runs.
fn doubtful(runs: &[RunRecord]) -> impl Iterator<Item = Mark> + '_ {
    runs.iter().flat_map(|record| {
        let mark = |doubt| Mark {
            when: MarkedTime::Runs(record.run, record.run),
            kind: MarkKind::Finding,
            text: format!("run {}: {doubt}", record.run),
        };
        doubts(record).into_iter().map(mark)
    })
}

/// The runs of an inference, and each finding over those of the probe that decided it.
fn inference(folder: &RunFolder, notes: &mut Vec<String>) -> Result<(Vec<RunLabel>, Vec<Mark>)> {
    let mut labels = Vec::new();
    let mut probes: Vec<(String, u32, u32)> = Vec::new();
    let mut probe = String::new();
    for step in folder.runs::<ProbeStep>()? {
        match step {
            ProbeStep::Begin { probe: name, .. } => probe = name,
            ProbeStep::Run(run) => {
                let name = format!("{probe}: {}", run.experiment);
                labels.push(RunLabel { run: run.run, name, io_ignore: 0 });
                match probes.last_mut() {
                    Some((known, _, last)) if *known == probe => *last = run.run,
                    _ => probes.push((probe.clone(), run.run, run.run)),
                }
            }
            _ => {}
        }
    }
    let known = match folder.read_sealed::<Inference>(INFERENCE) {
        Ok(known) => known.findings,
        Err(error) => {
            notes.push(format!("without marks of what was found: {error}"));
            Vec::new()
        }
    };
    let marks = probes.iter().flat_map(|(name, first, last)| {
        let parameters =
            PROBES.iter().find(|probe| probe.name == name).map_or(&[][..], |probe| probe.parameters);
        let found = known.iter().filter(|finding| parameters.contains(&finding.parameter));
        found.map(|finding| Mark {
            when: MarkedTime::Runs(*first, *last),
            kind: MarkKind::Finding,
            text: match finding.value {
                // Rounded down: nothing is certain.
                Some(_) => format!(
                    "{} {}, confidence {} %",
                    finding.parameter,
                    finding.value_in_words(),
                    (finding.confidence * 1000.0).floor() / 10.0
                ),
                None => format!("{} is not known", finding.parameter),
            },
        })
    });
    let marks = marks.collect();
    Ok((labels, marks))
}

/// A file in the user's cache folder, for a run whose folder cannot be written.
fn kept_pyramid(run: &Path) -> Vec<PathBuf> {
    let name = kept_name(run);
    cache().map(|cache| cache.join("flashlab/pyramids").join(format!("{name}.pyramid"))).into_iter().collect()
}

/// The user's cache folder.
fn cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
}

/// The name in the cache of what lies at a path.
fn kept_name(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // The stamps of the files in it decide whether it is used; the name has only to differ.
    let name = path.to_string_lossy().replace(['/', '%'], "%");
    // A file's name has at most 255 bytes; the end of a path tells more than its begin.
    let cut = (0..name.len()).find(|&at| name.is_char_boundary(at) && name.len() - at <= 200);
    name[cut.unwrap_or(0)..].to_owned()
}
