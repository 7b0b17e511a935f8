//! `flashlab model fit`: measures a device, or takes what was measured, and fits equations to it.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Target};
use flashlab_bench::Settings;
use flashlab_input::FileContent;
use flashlab_model::{DeviceModel, Extraction, FILLS, ModelDocument, RunPoint, run_points, run_points_after};
use flashlab_plan::Plan;
use flashlab_samples::{FolderKind, RunFolder};

use crate::arguments::JsonOption;
use crate::exit::Usage;
use crate::verbs::model::measuring::{Measuring, MeasuringOptions};
use crate::verbs::model::{show, source};
use crate::{files, output, target};

const PAGE: &str = "model.html";

/// Fit the throughput model T = A + n B, queue-depth curves and the mixed frontier to a device, a run or output of fio
#[derive(Args)]
pub struct Fit {
    /// What is measured: a block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given. Or
    /// what was measured: the folder of a run of bench or run, the JSON output of fio, or a latency log of fio
    #[arg(value_name = "TARGET|RUN|FILE")]
    target: Option<String>,
    #[command(flatten)]
    measuring: MeasuringOptions,
    #[command(flatten)]
    json: JsonOption,
}

impl Fit {
    /// Measures where there is something to measure, fits, writes the model and its page, and prints it.
    pub fn run(self) -> Result<()> {
        let path = self.target.as_ref().map(PathBuf::from);
        let content =
            path.as_deref().filter(|path| path.is_file()).and_then(|path| FileContent::of_file(path).ok());
        if let Some(path) = path.filter(|path| path.is_dir() || content.is_some_and(source::is_measurement)) {
            let folder = self.measuring.on.output.clone().unwrap_or_else(|| match path.is_dir() {
                true => path.clone(),
                false => PathBuf::from("."),
            });
            if folder.symlink_metadata().is_ok() && !folder.is_dir() {
                bail!(Usage(format!("{} is no folder: give another --output", folder.display())));
            }
            if source::is_of_a_measurement(&folder) && !is_same(&folder, &path) {
                bail!(Usage(format!(
                    "{} has another measurement, whose model would be lost: give another --output",
                    folder.display()
                )));
            }
            let model = source::fitted(&path)?;
            let (document, page) = write(&model, &folder)?;
            return self.print(&model, &document, &folder, &page);
        }
        let target: Option<Target> = self.target.as_deref().map(target::parsed).transpose()?;
        if let (Some(name), Some(content)) = (&self.target, content)
            && content.is_foreign()
            && !self.measuring.allows(content)
        {
            bail!(source::foreign(name, content));
        }
        let mut measuring = self.measuring.begin(FolderKind::ModelFit, target.as_ref(), 1, all_plans)?;
        let folder = measure(&mut measuring)?;
        let identity = measuring.measurement.identity().clone();
        measuring.end()?;
        let (path, files) = (folder.path(), folder.files_crc32()?);
        let model = source::fit(identity, path.display().to_string(), Some(files), run_points(path)?)?;
        let (document, page) = write(&model, folder.path())?;
        folder.finish::<Settings>()?;
        self.print(&model, &document, folder.path(), &page)
    }

    fn print(&self, model: &DeviceModel, document: &ModelDocument, folder: &Path, page: &Path) -> Result<()> {
        if self.json.json {
            tell!("report: {}", page.display());
            return output::json(document);
        }
        let model_file = folder.join(source::DOCUMENT);
        let text = show::terminal(model, document);
        output::text(&format!("{text}\nModel: {}\nReport: {}\n", model_file.display(), page.display()))
    }
}

/// Whether both names are of one folder.
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Writes the model's document and its page into a folder.
fn write(model: &DeviceModel, folder: &Path) -> Result<(ModelDocument, PathBuf)> {
    let document = ModelDocument::of(model);
    std::fs::create_dir_all(folder).map_err(|error| {
        Usage(format!("cannot make the folder {}: {error}; give another --output", folder.display()))
    })?;
    let page = folder.join(PAGE);
    files::check_output(&page, files::Output::Page)?;
    files::check_output(&folder.join(source::DOCUMENT), files::Output::Model)?;
    flashlab_samples::write_sealed(folder, source::DOCUMENT, &document)?;
    files::write_output(&page, files::Output::Page, show::page(model, &document))?;
    Ok((document, page))
}

/// Everything that may be measured.
fn all_plans(extraction: &Extraction) -> Vec<Plan> {
    let steps = extraction.size_steps().into_iter();
    let sizes = steps
        .flat_map(|step| all_sizes(extraction).into_iter().map(move |size| extraction.size_plan(step, size)));
    sizes.chain(extraction.queue_plans()).chain(extraction.seek_plans()).collect()
}

fn all_sizes(extraction: &Extraction) -> Vec<Bytes> {
    let sizes = extraction.sizes();
    let most = sizes.last().copied().unwrap_or_default();
    sizes.into_iter().chain(extraction.sizes_between(most)).collect()
}

/// The reads of all sizes until throughput saturates, then the writes, then queues and mixes.
fn measure(measuring: &mut Measuring) -> Result<RunFolder> {
    let folder = measuring.measurement.folder().clone();
    let extraction = measuring.extraction;
    let mut points = Vec::new();
    for step in extraction.size_steps() {
        for size in extraction.sizes() {
            measuring.run(&[extraction.size_plan(step, size)])?;
            let last = points.last().map_or(0, |point: &RunPoint| point.run);
            points.extend(run_points_after(folder.path(), last)?);
            if extraction.is_saturated(step, &points) {
                break;
            }
        }
        let of_step = points.iter().filter(|point| step.classes().contains(&point.workload.class));
        let most = of_step.map(|point| point.workload.size).max().unwrap_or_default();
        for size in extraction.sizes_between(most) {
            measuring.run(&[extraction.size_plan(step, size)])?;
        }
    }
    measuring.run(&extraction.queue_plans())?;
    measuring.run(&extraction.seek_plans())?;
    if let Some(reason) = measuring.run_fills(&FILLS, Extraction::fill_plan)? {
        tell!("fills are not measured: {reason}");
    }
    Ok(folder)
}
