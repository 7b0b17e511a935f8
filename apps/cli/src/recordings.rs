//! Recordings, which `sim run`, `replay` and `serve` make with `--output`: the folder, and its report.

use std::path::Path;

use anyhow::Result;
use flashlab_analysis::findings::OverTime;
use flashlab_analysis::{ClassTable, Classes, Done, Locality};
use flashlab_base::{Bytes, Identity, Mode, Nanos, Sample};
use flashlab_report::{class_rows, class_table};
use flashlab_samples::{FolderKind, RecordedRun, RecordingSettings, RunFolder};
use serde::Serialize;

use crate::arguments::TableOptions;
use crate::run_folder::{self, Content};
use crate::{csv_table, output};

/// The version of the JSON document.
const VERSION: u32 = 1;

/// Makes the folder of a recording, under a name made of the time and the target if none is given.
pub fn create(
    folder: Option<&Path>,
    identity: Identity,
    consent: &str,
    target: &str,
    recorded_by: &str,
) -> Result<RunFolder> {
    let settings = RecordingSettings { target: target.to_owned(), recorded_by: recorded_by.to_owned() };
    let manifest = run_folder::manifest(FolderKind::Recording, settings, identity, consent.to_owned());
    run_folder::create(folder, &manifest, target, Content::Samples)
}

#[derive(Serialize)]
struct Document {
    version: u32,
    target: String,
    recorded_by: String,
    started: String,
    /// What is left to do, if the recording was not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished: Option<String>,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    name: String,
    #[serde(flatten)]
    table: ClassTable,
    /// Reads, then writes; null where there are none.
    over_time: [Option<OverTime>; 2],
}

/// How many intervals show how a run went on.
const INTERVALS: usize = 20;

/// IOs and bytes a second in each interval of a run, of reads and of writes.
struct Rates {
    begin: Nanos,
    interval: u64,
    modes: [[(u64, u64); INTERVALS]; 2],
}

impl Rates {
    fn new(begin: Nanos, end: Nanos) -> Rates {
        let interval = end.since(begin).0.div_ceil(INTERVALS as u64).max(1);
        Rates { begin, interval, modes: [[(0, 0); INTERVALS]; 2] }
    }

    fn add(&mut self, sample: &Sample) {
        let interval = (sample.completed.since(self.begin).0 / self.interval) as usize;
        let (ios, bytes) = &mut self.modes[usize::from(sample.mode.is_write())][interval.min(INTERVALS - 1)];
        *ios += 1;
        *bytes += sample.size.0;
    }

    fn figures(&self) -> [Option<OverTime>; 2] {
        let rate = |amount: u64| amount as f64 * 1e9 / self.interval as f64;
        self.modes.each_ref().map(|mode| {
            mode.iter().any(|&(ios, _)| ios > 0).then(|| OverTime {
                interval_ns: self.interval,
                ios_per_s: mode.iter().map(|&(ios, _)| rate(ios)).collect(),
                bytes_per_s: mode.iter().map(|&(_, bytes)| rate(bytes)).collect(),
            })
        })
    }
}

/// A line for each mode: MiB a second in each interval.
fn bandwidth_lines(over_time: &[Option<OverTime>; 2]) -> String {
    let line = |(name, over_time): (&str, &Option<OverTime>)| {
        let OverTime { interval_ns, bytes_per_s, .. } = over_time.as_ref()?;
        let rates: Vec<String> =
            bytes_per_s.iter().map(|rate| format!("{:.0}", rate / Bytes::mib(1).0 as f64)).collect();
        Some(format!("{name}, MiB/s in each {}: {}\n", Nanos(*interval_ns), rates.join(" ")))
    };
    ["reads", "writes"].into_iter().zip(over_time).filter_map(line).collect()
}

/// Shows the classes of IOs of each run of a recording.
pub fn report(path: &Path, table: TableOptions) -> Result<()> {
    let (folder, manifest) = RunFolder::open::<RecordingSettings>(path, &[FolderKind::Recording])?;
    let unfinished = manifest.unfinished(path);
    if let Some(left) = &unfinished {
        tell!("warning: {} is unfinished: {left}", path.display());
    }
    let RecordingSettings { target, recorded_by } = manifest.settings;
    let runs = folder.runs::<RecordedRun>()?.into_iter().map(|RecordedRun { run, name }| {
        let mut seen = Seen::default();
        folder.each_sample(run, |sample| seen.add(sample))?;
        let first = seen.first.unwrap_or_default();
        let mut rates = Rates::new(first, seen.last);
        folder.each_sample(run, |sample| rates.add(sample))?;
        Ok(Run { name, table: seen.classes.table(seen.last.since(first)), over_time: rates.figures() })
    });
    let (runs, started) = (runs.collect::<Result<Vec<_>>>()?, manifest.started);
    let document = Document { version: VERSION, target, recorded_by, started, unfinished, runs };
    if table.json {
        return output::json(&document);
    }
    if table.csv {
        return csv_table::print(&class_rows(
            document.runs.iter().map(|run| (run.name.as_str(), &run.table)),
        ));
    }
    let mut text =
        format!("{}, recorded by {} at {}\n", document.target, document.recorded_by, document.started);
    for Run { name, table, over_time } in &document.runs {
        let time = Nanos(table.duration_ns);
        text += &format!("\n{name}: {time} from the first IO to the end of the last\n{}", class_table(table));
        text += &bandwidth_lines(over_time);
    }
    output::text(&text)
}

/// What was seen of a run.
#[derive(Default)]
struct Seen {
    classes: Classes,
    first: Option<Nanos>,
    last: Nanos,
    /// The end of the last read and the last write of each process.
    ends: Vec<[Option<Bytes>; 2]>,
}

impl Seen {
    fn add(&mut self, sample: &Sample) {
        self.first = Some(self.first.map_or(sample.intended, |first| first.min(sample.intended)));
        self.last = self.last.max(sample.completed);
        if sample.errno != 0 {
            return self.classes.add_failed();
        }
        // A damaged file may name any process; only possible numbers are distinguished.
        let process = sample.process.min(1 << 16) as usize;
        if self.ends.len() <= process {
            self.ends.resize(process + 1, [None; 2]);
        }
        let end = &mut self.ends[process][usize::from(sample.mode == Mode::Write)];
        let follows =
            end.replace(Bytes(sample.offset.0.saturating_add(sample.size.0))) == Some(sample.offset);
        let locality = if follows { Locality::Sequential } else { Locality::Random };
        let (operation, waited) = (sample.mode.into(), sample.submitted.since(sample.intended));
        self.classes.add(&Done {
            operation,
            locality,
            size: sample.size,
            waited,
            response: sample.response(),
        });
    }
}
