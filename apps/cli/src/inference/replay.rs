//! `flashlab infer --replay RUN`: the same probes, answered from the samples of an earlier inference.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use flashlab_analysis::inference::{Finding, Inference};
use flashlab_infer::{
    InferenceEnd, Known, PROBES_FOLDER, RecordedDevice, Recording, probes_for, replay_probes,
};
use flashlab_report::{confidence, shell_word};
use flashlab_samples::{FolderKind, Manifest};

use crate::arguments::InferencePrintOptions;
use crate::inference::folder::{self, INFERENCE, PAGE};
use crate::inference::keeper::Keeper;
use crate::inference::settings::InferenceSettings;
use crate::inference::show;
use crate::run_folder::{self, Content};

/// Replays the inference in `run`, with its settings, and says which findings differ from the recorded ones.
pub fn replay(run: &Path, output: Option<&Path>, options: &InferencePrintOptions) -> Result<()> {
    run_folder::check_output(output)?;
    let (recorded_folder, recorded_manifest, recorded) = folder::open(run)?;
    let mut recording = Recording::open(&recorded_folder)?;
    let settings = recorded_manifest.settings;
    let manifest: Manifest<InferenceSettings> = Manifest {
        warnings: recorded_manifest.warnings,
        ..run_folder::manifest(
            FolderKind::Inference,
            settings,
            recorded_manifest.identity,
            recorded_manifest.consent,
        )
    };
    let chosen = &manifest.settings;
    let limits = recording.limits();
    let mut known = Known::begun(&chosen.target, manifest.identity.clone(), limits.capacity);
    let folder = run_folder::create(output, &manifest, &chosen.target, Content::Documents)?;
    folder.make_directory(PROBES_FOLDER)?;
    folder::write_known(&folder, &known)?;
    let interrupt = AtomicBool::new(false);
    let infer_settings = flashlab_infer::InferenceSettings {
        seed: chosen.seed,
        write_budget: chosen.write_budget,
        reading_time: chosen.reading_time,
        writing_time: chosen.writing_time,
        interrupt: &interrupt,
    };
    let mut keeper = Keeper::without_recorder(&folder, &manifest);
    let mut device = RecordedDevice::new(limits, &mut recording);
    let probes = probes_for(&chosen.only);
    let ended = replay_probes(&mut device, &infer_settings, &mut known, &mut keeper, probes);
    keeper.finish(&known)?;
    // From the file, where numbers are rounded as those of the recording are.
    report_differences(&recorded, &folder.read_sealed(INFERENCE)?);
    match ended {
        InferenceEnd::Done => {
            folder.finish::<InferenceSettings>()?;
            show::print(&manifest, &known, Some(&folder.path().join(PAGE)), true, options)
        }
        InferenceEnd::Diverged(reason) => {
            let word = shell_word(&folder.path().display().to_string());
            bail!(
                "the replay diverges from {}: {reason}; what the probes before it found is in {word}; record again to go on: \
                 flashlab infer {}",
                run.display(),
                shell_word(&chosen.target)
            )
        }
        InferenceEnd::Gone(reason) => bail!("the recorded device is gone: {reason}"),
        InferenceEnd::Interrupted => bail!("interrupted"),
    }
}

/// Prints the findings that a replay has, but not the recording.
fn report_differences(recorded: &Inference, replayed: &Inference) {
    let mut is_same = true;
    for finding in &replayed.findings {
        match recorded.get(finding.parameter) {
            Some(before) if before == finding => continue,
            before => {
                is_same = false;
                let before = before.map_or("nothing".to_owned(), in_words);
                tell!("{}: {}; recorded: {before}", finding.parameter, in_words(finding));
            }
        }
    }
    if is_same {
        tell!("the {} findings are those of the recording", replayed.findings.len());
    }
}

fn in_words(finding: &Finding) -> String {
    let value = match finding.value_in_words() {
        value if value.is_empty() => finding.verdict.to_string(),
        value => value,
    };
    format!("{value} ({})", confidence(finding.confidence))
}
