//! An inference in progress: new or resumed, until it ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use flashlab_analysis::inference::{Inference, Parameter};
use flashlab_base::{Bytes, Identity};
use flashlab_bench::Settings as BenchSettings;
use flashlab_infer::{InferenceEnd, Known, PROBES_FOLDER, probes_for};
use flashlab_report::shell_word;
use flashlab_samples::{FolderKind, Manifest, RunFolder, SamplesError};

use crate::arguments::InferencePrintOptions;
use crate::exit::{Unmet, Usage};
use crate::flash_statistics;
use crate::inference::folder::{self, INFERENCE, PAGE};
use crate::inference::keeper::Keeper;
use crate::inference::settings::InferenceSettings;
use crate::inference::show;
use crate::interrupt::interrupt;
use crate::run_folder::{self, Content};
use crate::target::{OpenDevice, Opened};

pub struct OngoingInference {
    folder: RunFolder,
    manifest: Manifest<InferenceSettings>,
    known: Known,
    interrupt: Arc<AtomicBool>,
}

impl OngoingInference {
    /// Makes the folder of a new run.
    pub fn begin(
        opened: &mut Opened,
        settings: InferenceSettings,
        output: Option<&Path>,
    ) -> Result<OngoingInference> {
        let device = opened.device.as_mut();
        let mut known = flashlab_infer::nothing_known(device, &settings.target);
        if settings.target != BenchSettings::SCRATCH {
            // As the user named it: a simulated device does not know the file of its profile.
            known.identity.target.clone_from(&settings.target);
        }
        let manifest = Manifest {
            warnings: opened.warnings.clone(),
            ..run_folder::manifest(
                FolderKind::Inference,
                settings,
                known.identity.clone(),
                opened.consent.clone(),
            )
        };
        let folder = run_folder::create(output, &manifest, &manifest.settings.target, Content::Samples)?;
        folder.make_directory(PROBES_FOLDER)?;
        folder::write_known(&folder, &known)?;
        folder::write_pending(&folder, Bytes::ZERO)?;
        Ok(OngoingInference { folder, manifest, known, interrupt: interrupt()? })
    }

    /// Opens the folder for resuming, unless another process uses it.
    pub fn resumed(path: &Path) -> Result<OngoingInference> {
        let (mut folder, manifest, document) = folder::open_unfinished(path)?;
        if let Some(left) = manifest.unfinished(path).filter(|_| !manifest.can_be_resumed()) {
            bail!(Usage(format!("{} cannot be resumed: {left}", path.display())));
        }
        let checkpoint = folder::checkpoint(&folder, &document)?;
        let mut known = Known { document, checkpoint };
        folder.lock()?;
        if manifest.finished.is_none() {
            run_folder::set_aside(&folder)?;
            folder::count_pending_writes(&folder, &mut known)?;
        }
        Ok(OngoingInference { folder, manifest, known, interrupt: interrupt()? })
    }

    /// Notes that all parameters have their answers, if a killed process could not.
    pub fn finish(&self) -> Result<()> {
        match self.manifest.finished {
            Some(_) => Ok(()),
            None => Ok(self.folder.finish::<InferenceSettings>()?),
        }
    }

    /// Removes findings that came from writes, because the device is another one, or in another state.
    pub fn forget_writes(&mut self, is_worn: bool) {
        flashlab_infer::forget_writes(&mut self.known, is_worn);
    }

    /// The remaining part of the write budget.
    pub fn writes_left(&self) -> Bytes {
        let budget = self.settings().write_budget.unwrap_or_default();
        Bytes(budget.0.saturating_sub(self.known.written.0))
    }

    pub fn settings(&self) -> &InferenceSettings {
        &self.manifest.settings
    }

    /// What it was begun on.
    pub fn identity(&self) -> &Identity {
        &self.manifest.identity
    }

    /// Whether every requested parameter has its answer.
    pub fn is_done(&self) -> bool {
        self.unanswered() == 0
    }

    fn unanswered(&self) -> usize {
        let is_left = |&parameter: &Parameter| self.known.get(parameter).is_none();
        self.settings().parameters().into_iter().filter(is_left).count()
    }

    /// Prints what is left to do, before anything is written.
    pub fn announce_resumption(&self) {
        let written = self.known.written;
        tell!("resuming: {} parameters of {} are left", self.unanswered(), self.settings().target);
        match self.settings().write_budget {
            None => tell!("it will only be read"),
            Some(budget) => {
                let left = self.writes_left();
                tell!(
                    "at most {left} more will be written: {written} of {budget} may have been written already"
                );
            }
        }
    }

    /// Infers what is not known yet, and prints all findings.
    pub fn infer(mut self, device: &mut OpenDevice, options: &InferencePrintOptions) -> Result<()> {
        let (known, capacity) = (self.known.capacity, device.as_mut().geometry().capacity);
        if known != capacity {
            let document = self.folder.path().join(INFERENCE);
            bail!(Usage(format!(
                "{}: capacity is {known}, and that of the target {capacity}",
                document.display()
            )));
        }
        let (ended, kept) = self.infer_until_the_end(device);
        let page = kept.is_ok().then(|| self.folder.path().join(PAGE));
        let missing = match (&ended, &kept) {
            (InferenceEnd::Gone(reason), _) => Some(gone(reason)),
            (_, Err(error)) => Some(error.to_string()),
            _ => None,
        };
        if let Some(reason) = missing {
            // The output has an answer for each parameter. The folder's document leaves the missing ones out,
            // so that a resumed inference probes them.
            let complete = self.known.document.clone().with_rest(self.settings().parameters(), &reason);
            let printed = show::print(&self.manifest, &complete, page.as_deref(), false, options);
            // Why it is unfinished says more than an expectation that is not met.
            printed.or_else(|error| if error.is::<Unmet>() { Ok(()) } else { Err(error) })?;
        }
        kept?;
        if let Some(failure) = failure(ended) {
            let word = self.report_folder();
            tell!("resume with: flashlab resume {word}");
            bail!(failure)
        }
        show::print(&self.manifest, &self.known, page.as_deref(), true, options)?;
        if let Some(device) = device.as_flash() {
            tell!("{}", flash_statistics::text(&device.statistics()).trim_end());
        }
        Ok(())
    }

    /// Infers what is not known yet, and returns all findings. If the device is gone, it returns why, as a
    /// clause without a subject.
    pub fn infer_quietly(mut self, device: &mut OpenDevice) -> Result<(Inference, Option<String>)> {
        let (ended, kept) = self.infer_until_the_end(device);
        kept?;
        match ended {
            InferenceEnd::Done => Ok((self.known.document, None)),
            InferenceEnd::Gone(reason) => {
                let parameters = self.settings().parameters();
                Ok((
                    self.known.document.with_rest(parameters, &gone(&reason)),
                    Some(format!("is gone: {reason}")),
                ))
            }
            InferenceEnd::Diverged(reason) => bail!(reason),
            InferenceEnd::Interrupted => {
                self.report_folder();
                bail!("interrupted")
            }
        }
    }

    /// Prints where the findings are. Returns the folder as a word for a shell.
    fn report_folder(&self) -> String {
        let word = shell_word(&self.folder.path().display().to_string());
        tell!("the findings are in {word}; see it with: flashlab report {word}");
        word
    }

    /// How it ended, and whether the findings are in the folder.
    fn infer_until_the_end(&mut self, device: &mut OpenDevice) -> (InferenceEnd, Result<(), SamplesError>) {
        let chosen = self.manifest.settings.clone();
        let settings = flashlab_infer::InferenceSettings {
            seed: chosen.seed,
            write_budget: chosen.write_budget,
            reading_time: chosen.reading_time,
            writing_time: chosen.writing_time,
            interrupt: &self.interrupt,
        };
        if self.manifest.finished.take().is_some()
            && let Err(error) = self.folder.write_manifest(&self.manifest)
        {
            return (InferenceEnd::Interrupted, Err(error));
        }
        let mut keeper = Keeper::new(&self.folder, &self.manifest, self.known.written);
        let probes = probes_for(&chosen.only);
        let ended =
            flashlab_infer::infer_probes(device.as_mut(), &settings, &mut self.known, &mut keeper, probes);
        let kept = keeper.finish(&self.known);
        let kept = match ended {
            InferenceEnd::Done => kept.and_then(|()| self.folder.finish::<InferenceSettings>()),
            _ => kept,
        };
        (ended, kept)
    }
}

/// Why not all is known.
fn failure(ended: InferenceEnd) -> Option<String> {
    match ended {
        InferenceEnd::Done => None,
        InferenceEnd::Interrupted => Some("interrupted".to_owned()),
        InferenceEnd::Diverged(reason) => Some(reason),
        InferenceEnd::Gone(reason) => Some(gone(&reason)),
    }
}

fn gone(reason: &str) -> String {
    format!("the device is gone: {reason}")
}
