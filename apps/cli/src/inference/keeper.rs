//! Saves the findings of an inference and each of its steps during the run, and reports its progress on standard error.

use std::mem;
use std::time::{Duration, Instant};

use flashlab_analysis::inference::Finding;
use flashlab_base::{Bytes, Nanos, Sample};
use flashlab_infer::{InferenceProgress, Known, PROBES_FOLDER, Probe};
use flashlab_plan::Plan;
use flashlab_samples::{Manifest, ProbeStep, RunFolder, SamplesError};

use crate::inference::folder;
use crate::inference::recorder::Recorder;
use crate::inference::settings::InferenceSettings;
use crate::inference::show;

/// Idle time is reported from this time on, and in this distance.
const BETWEEN_COUNTDOWNS: Duration = Duration::from_secs(10);

pub struct Keeper<'a> {
    folder: &'a RunFolder,
    manifest: &'a Manifest<InferenceSettings>,
    recorder: Option<Recorder<'a>>,
    /// When the current idle time began, or was reported last.
    idle_since: Option<Instant>,
    /// The number of the current probe, from 1.
    number: usize,
    /// The first error of writing to the folder since the last retry.
    failed: Option<SamplesError>,
    /// Whether a failure to write was reported.
    has_reported_failure: bool,
    /// Whether the remaining time was estimated.
    has_estimated: bool,
    /// The bytes written in all, and the part that the folder's document counts.
    written: Bytes,
    noted: Bytes,
}

impl<'a> Keeper<'a> {
    pub fn new(
        folder: &'a RunFolder,
        manifest: &'a Manifest<InferenceSettings>,
        written: Bytes,
    ) -> Keeper<'a> {
        let recorder = Some(Recorder::new(folder));
        Keeper { recorder, written, noted: written, ..Keeper::without_recorder(folder, manifest) }
    }

    /// Records no samples: those of a replay are in the folder of the recording.
    pub fn without_recorder(folder: &'a RunFolder, manifest: &'a Manifest<InferenceSettings>) -> Keeper<'a> {
        Keeper {
            folder,
            manifest,
            recorder: None,
            idle_since: None,
            number: 0,
            failed: None,
            has_reported_failure: false,
            has_estimated: false,
            written: Bytes::ZERO,
            noted: Bytes::ZERO,
        }
    }

    /// Whether the findings are in the folder. If a write failed, it is repeated, because space may be free
    /// again.
    pub fn finish(mut self, known: &Known) -> Result<(), SamplesError> {
        match self.failed.take() {
            Some(_) => {
                self.write_known(known);
                self.failed.map_or(Ok(()), Err)
            }
            None => Ok(()),
        }
    }

    /// Reports the first failure to write. Returns whether the write succeeded.
    fn note(&mut self, written: Result<(), SamplesError>) -> bool {
        let is_written = written.is_ok();
        if let (Err(error), None) = (written, &self.failed) {
            if !mem::replace(&mut self.has_reported_failure, true) {
                tell!(
                    "{error}; the inference continues as long as the folder can count its writes, and prints what it found"
                );
            }
            self.failed = Some(error);
        }
        is_written
    }

    /// Records that the device may get up to `most` more bytes than the document counts.
    fn write_pending(&mut self, most: Bytes) -> bool {
        let unknown = Bytes(self.written.0.saturating_sub(self.noted.0));
        let written = folder::write_pending(self.folder, unknown + most);
        self.note(written)
    }

    /// Estimates the time of the remaining writes, once the speed of filling the device is known.
    fn estimate(&mut self, known: &Known) {
        let pace = known.checkpoint.fill.nanos_per_byte;
        let left = self.manifest.settings.write_budget.unwrap_or_default().0.saturating_sub(known.written.0);
        if !self.has_estimated && pace > 0.0 {
            let least = Nanos::from_secs_f64((left as f64 * pace / 1e9).ceil());
            tell!(
                "  at most {} are left to write: {least} at the pace of filling; idle times of some minutes and slow \
                 random writes are added to that",
                Bytes(left)
            );
            self.has_estimated = true;
        }
    }

    fn write_plan(&mut self, probe: &Probe, patterns: &Plan) {
        if !patterns.experiments.is_empty() {
            let name = format!("{PROBES_FOLDER}/{:02}-{}.toml", self.number, probe.name);
            let written = self.folder.write_plan(&name, &patterns.to_toml());
            self.note(written);
        }
    }

    fn write_known(&mut self, known: &Known) {
        self.written = known.written;
        let kept = folder::write_known(self.folder, known);
        // After a kill between these two, the writes are counted twice instead of not at all.
        if self.note(kept) {
            self.noted = known.written;
        }
        self.write_pending(Bytes::ZERO);
        let pages = show::write_pages(self.folder, self.manifest, known);
        self.note(pages);
    }
}

impl InferenceProgress for Keeper<'_> {
    fn begin(&mut self, probe: &'static Probe, index: usize, count: usize) {
        self.number = index + 1;
        let is_left_out = probe.writes() && self.manifest.settings.write_budget.is_none();
        let about = if is_left_out { "left out: it would have to write" } else { probe.about };
        tell!("probe {} of {count}: {}: {about}", self.number, probe.name);
    }

    fn may_write(&mut self, _: &'static Probe, most: Bytes) -> bool {
        self.write_pending(most)
    }

    fn concluded(&mut self, finding: &Finding) {
        let name = finding.parameter.name();
        match finding.value_in_words().as_str() {
            "" => tell!("  {name}: {}", finding.verdict),
            value => tell!("  {name}: {value} (confidence {:.1} %)", finding.confidence * 100.0),
        }
    }

    fn ended(&mut self, probe: &'static Probe, known: &Known, patterns: &Plan) {
        self.write_plan(probe, patterns);
        self.estimate(known);
        self.write_known(known);
    }

    fn abandoned(&mut self, probe: &'static Probe, known: &Known, patterns: &Plan) {
        self.write_plan(probe, patterns);
        self.write_known(known);
    }

    fn step(&mut self, step: ProbeStep, samples: &[Vec<Sample>]) {
        self.idle_since = None;
        if let Some(recorder) = &mut self.recorder {
            let recorded = recorder.add(step, samples);
            self.note(recorded);
        }
    }

    fn idle(&mut self, left: Nanos) {
        let since = self.idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= BETWEEN_COUNTDOWNS {
            *since = Instant::now();
            let left = Nanos::from_secs(left.0.div_ceil(1_000_000_000));
            tell!("  the device is left idle: {left} to go");
        }
    }
}
