//! `flashlab reproduce`.

mod four_digits;
mod real_drives;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use flashlab_base::Seed;
use flashlab_reproduce::{ALL, Figure, FigurePicture, Reproduction, find};

use crate::arguments::{self, TableOptions};
use crate::exit::Usage;
use crate::{csv_table, files, output};
use four_digits::four_digits;

/// Print a table or figure of a paper next to what flashlab measures on the zoo's devices
#[derive(Args)]
pub struct Reproduce {
    /// Which ones; without a name they are listed
    #[arg(value_name = "NAME", conflicts_with = "all")]
    names: Vec<String>,
    /// All tables and figures of papers
    #[arg(long)]
    all: bool,
    /// With ssd-iq: further rows of its drives, as CSV with the same columns
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    rows: Option<PathBuf>,
    /// Draw what was measured, and what the paper says, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// The seed of the IOs; what is random inside the devices follows from their profiles
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Seed,
    #[command(flatten)]
    table: TableOptions,
}

impl Reproduce {
    /// Measures on simulated devices, and prints the figures.
    pub fn run(self) -> Result<()> {
        if self.names.iter().any(|name| name == real_drives::NAME) {
            if self.names.len() > 1 {
                return Err(Usage(format!(
                    "{} has rows of its own kind: give its name alone",
                    real_drives::NAME
                ))
                .into());
            }
            make_folder(self.pictures.as_deref())?;
            let pictures = real_drives::reproduce(self.rows.as_deref(), self.seed, self.table)?;
            return self.pictures.map_or(Ok(()), |folder| draw(&folder, &pictures));
        }
        if self.rows.is_some() {
            return Err(Usage(format!("--rows belongs to {}", real_drives::NAME)).into());
        }
        let chosen: Vec<&Reproduction> = if self.all {
            ALL.iter().collect()
        } else {
            self.names.iter().map(|name| named(name)).collect::<Result<_>>()?
        };
        if chosen.is_empty() {
            let papers = ALL.iter().map(|one| (one.name, one.title));
            let all = papers.chain([(real_drives::NAME, real_drives::TITLE)]);
            return output::text(
                &all.map(|(name, title)| format!("{name:<18} {title}\n")).collect::<String>(),
            );
        }
        make_folder(self.pictures.as_deref())?;
        let mut figures = Vec::new();
        for reproduction in chosen {
            tell!("{}: measuring", reproduction.name);
            let outcome = reproduction.run(self.seed)?;
            if let Some(folder) = &self.pictures {
                draw(folder, &outcome.pictures)?;
            }
            if !self.table.is_for_a_program() {
                output::text(&table(reproduction, &outcome.figures))?;
            }
            figures.extend(outcome.figures);
        }
        match (self.table.json, self.table.csv) {
            (true, _) => output::json(&figures),
            (_, true) => csv_table::print(&figures),
            _ => Ok(()),
        }
    }
}

/// Makes the folder for the pictures, before anything is measured.
fn make_folder(folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|error| {
        Usage(format!("cannot make the folder {}: {error}; give another --pictures", folder.display())).into()
    })
}

/// Writes each picture as an SVG file into a folder.
fn draw(folder: &Path, pictures: &[FigurePicture]) -> Result<()> {
    for picture in pictures {
        let file = folder.join(format!("{}.svg", picture.name));
        files::write_output(&file, files::Output::Picture, picture.svg())?;
        tell!("drew {}", file.display());
    }
    Ok(())
}

fn named(name: &str) -> Result<&'static Reproduction> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|one| one.name).chain([real_drives::NAME]).collect();
        Usage(format!("there is no reproduction `{name}`; there are {}", names.join(", "))).into()
    })
}

fn table(reproduction: &Reproduction, figures: &[Figure]) -> String {
    let width = |text: fn(&Figure) -> &str, least: usize| {
        figures.iter().map(|figure| text(figure).chars().count()).max().unwrap_or(0).max(least)
    };
    let (device, quantity) = (width(|f| f.zoo, 6), width(|f| &f.quantity, 8));
    let mut text = format!("{}\n{}\n\n", reproduction.title, reproduction.source);
    text += &format!(
        "{:<device$}  {:<quantity$}  {:>10}  {:>10}  {:>10}\n",
        "device", "quantity", "paper", "flashlab", "difference"
    );
    for figure in figures {
        let difference =
            figure.difference().map_or("-".to_owned(), |share| format!("{:+.1} %", 100.0 * share));
        text += &format!(
            "{:<device$}  {:<quantity$}  {:>10}  {:>10}  {difference:>10}  {:<5}{}\n",
            figure.zoo,
            figure.quantity,
            four_digits(figure.paper),
            four_digits(figure.flashlab),
            figure.unit,
            if figure.agrees() { "" } else { "  differs" },
        );
    }
    let agreeing = figures.iter().filter(|figure| figure.agrees()).count();
    text + &format!("\n{agreeing} of {} agree\n", figures.len())
}
