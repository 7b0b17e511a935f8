//! `flashlab sweep merge`: one table and one page of the shards of a sweep.
//!
//! The figures are computed from the runs again, as those of a sweep without shards: the result is the same.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_report::SweepPoint;
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::Profile;

use super::result::{SweepSettings, UNNEEDED, finish, measured_point, point_folder};
use super::shard::Shard;
use crate::arguments::TableOptions;
use crate::exit::Usage;
use crate::run_folder::{self, Content};

/// The folder of the result, in that of the shards.
const MERGED: &str = "merged";

/// Make one table and one page of all shards of a sweep
#[derive(Args)]
pub struct Merge {
    /// The folder that every shard had as --output
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    table: TableOptions,
}

impl Merge {
    /// Writes the table and the page into a new folder beside the shards, and prints the table.
    pub fn run(&self) -> Result<()> {
        let shards = self.shards()?;
        let output = self.folder.join(MERGED);
        run_folder::check_output(Some(&output))?;
        let settings = SweepSettings { shard: None, ..shards[0].settings.clone() };
        let profile = Profile::parse(&settings.profile, "the profile of the sweep")?;
        let grid = settings.grid()?;
        let mut points: Vec<(u64, SweepPoint)> = Vec::new();
        for shard in shards.iter().filter_map(|manifest| manifest.settings.shard) {
            for index in Shard::indices(Some(shard), &grid)? {
                let run = format!("{}/{}", shard.folder(), point_folder(index));
                let (findings, _) = flashlab_bench::rebuild(&self.folder.join(&run))?;
                points.push((index, measured_point(grid.combination(index), format!("../{run}"), findings)));
            }
        }
        points.sort_by_key(|(index, _)| *index);
        let points = points.into_iter().map(|(_, point)| point).collect();
        let document = settings.document(&profile.name, &shards[0].plans, points)?;
        let target = settings.run.target.clone();
        let manifest = Manifest {
            plans: shards[0].plans.clone(),
            ..run_folder::manifest(FolderKind::Sweep, settings, profile.identity(), UNNEEDED.to_owned())
        };
        let folder = run_folder::create(Some(&output), &manifest, &target, Content::Documents)?;
        finish(&folder, &document, &self.table)
    }

    /// The manifests of all shards, in order: finished, of one sweep, and each part once.
    fn shards(&self) -> Result<Vec<Manifest<SweepSettings>>> {
        let mut shards: Vec<(Shard, Manifest<SweepSettings>)> = Vec::new();
        for path in self.folders()? {
            let (_, manifest) = RunFolder::open::<SweepSettings>(&path, &[FolderKind::Sweep])?;
            let Some(shard) = manifest.settings.shard else {
                bail!(Usage(format!("{} is a whole sweep, and no shard of one", path.display())))
            };
            if manifest.finished.is_none() {
                bail!(Usage(format!(
                    "shard {shard} is unfinished: run `{}` again, which keeps what is measured",
                    manifest.command.join(" ")
                )));
            }
            shards.push((shard, manifest));
        }
        shards.sort_by_key(|(shard, _)| (shard.parts, shard.part));
        let Some((_, first)) = shards.first() else {
            bail!(Usage(format!(
                "{} has no shards: give the folder that flashlab sweep --shard had as --output",
                self.folder.display()
            )))
        };
        let same = |manifest: &Manifest<SweepSettings>| {
            let settings = SweepSettings { shard: None, ..manifest.settings.clone() };
            (settings, manifest.plans.clone(), manifest.flashlab.clone())
        };
        if let Some((shard, other)) = shards.iter().find(|(_, manifest)| same(manifest) != same(first)) {
            bail!(Usage(format!(
                "the shards are of two sweeps: shard {shard} was made with `{}` by flashlab {}, and another one with `{}` by flashlab {}",
                other.command.join(" "),
                other.flashlab,
                first.command.join(" "),
                first.flashlab
            )));
        }
        let parts = shards[0].0.parts;
        if let Some((shard, _)) = shards.iter().find(|(shard, _)| shard.parts != parts) {
            bail!(Usage(format!("shard {shard} is one of {}, and others are of {parts}", shard.parts)));
        }
        let is_there = |part: &u32| shards.iter().any(|(shard, _)| shard.part == *part);
        let missing: Vec<String> =
            (1..=parts).filter(|part| !is_there(part)).map(|part| format!("{part}/{parts}")).collect();
        if !missing.is_empty() {
            bail!(Usage(format!("shards are missing: {}", missing.join(", "))));
        }
        Ok(shards.into_iter().map(|(_, manifest)| manifest).collect())
    }

    /// The folders of the shards.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let failed = || format!("cannot read {}", self.folder.display());
        if !self.folder.is_dir() {
            bail!(Usage(format!(
                "{} is no folder: give the one that flashlab sweep --shard had as --output",
                self.folder.display()
            )));
        }
        let mut folders = Vec::new();
        for entry in fs::read_dir(&self.folder).with_context(failed)? {
            let path = entry.with_context(failed)?.path();
            let is_shard = |path: &Path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("shard-"))
            };
            if is_shard(&path) {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders)
    }
}
