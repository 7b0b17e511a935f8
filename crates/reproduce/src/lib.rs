//! The papers' tables and figures beside what flashlab measures on the simulated devices of the zoo.
//!
//! # Model
//! A [`Reproduction`] measures devices of the zoo with flashlab's own benchmark and engine and returns [`Figure`]s, what the
//! paper says, what flashlab got, and how near they have to be; and [`FigurePicture`]s of what was measured. The profiles
//! hold mechanisms; nothing here is known to them.
//!
//! # Invariants
//! - the papers' values stand in `figures/`, with their source, and nowhere else;
//! - what is measured does not depend on them: they are laid beside it when it is done, and drawn;
//! - the same program and seed give the same figures and pictures, whatever the number of processors.

mod ajwani;
mod iodrive;
mod lab;
mod papers;
mod picture;
mod sun_zhang;
mod today;
mod uflip;
mod uflip_figures;
mod zeus;

use std::fmt;

use flashlab_base::Seed;
use serde::{Deserialize, Serialize};

pub use lab::ReproduceError;
pub use picture::{FigureAxis, FigurePicture, FigureSeries, Look, Scale};

use papers::Measurement;

/// How near flashlab has to be to the paper.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Agreement {
    /// By this share of the paper's value.
    Within(f64),
    /// At most the paper's value.
    AtMost,
    /// At least the paper's value.
    AtLeast,
    /// The nearest power of two is the same.
    PowerOfTwo,
    /// The paper's value is for orientation.
    Any,
}

/// One value of a paper, and what flashlab got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The device, by its name in the paper's table.
    pub device: String,
    /// The device, by its name in the zoo.
    #[serde(skip)]
    pub zoo: &'static str,
    /// What was measured, named as in the paper's table.
    pub quantity: String,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// What the paper says; `None` where it says that there is none, or gives no number.
    pub paper: Option<f64>,
    /// What flashlab got; `None` where it found none.
    pub flashlab: Option<f64>,
    /// How near they have to be.
    #[serde(skip)]
    pub agreement: Agreement,
}

impl Figure {
    /// The difference as a share of the paper's value.
    pub fn difference(&self) -> Option<f64> {
        match (self.paper, self.flashlab) {
            (Some(paper), Some(flashlab)) if paper != 0.0 => Some(flashlab / paper - 1.0),
            _ => None,
        }
    }

    /// Whether they are as near as they have to be.
    pub fn agrees(&self) -> bool {
        match (self.agreement, self.paper, self.flashlab) {
            (Agreement::Any, ..) | (_, None, None) => true,
            (_, None, Some(_)) | (_, Some(_), None) => false,
            (Agreement::Within(share), Some(paper), Some(flashlab)) => {
                (flashlab - paper).abs() <= share * paper.abs() + 1e-12
            }
            (Agreement::AtMost, Some(paper), Some(flashlab)) => flashlab <= paper,
            (Agreement::AtLeast, Some(paper), Some(flashlab)) => flashlab >= paper,
            (Agreement::PowerOfTwo, Some(paper), Some(flashlab)) => {
                let power = |value: f64| if value <= 0.0 { f64::NEG_INFINITY } else { value.log2().round() };
                power(paper) == power(flashlab)
            }
        }
    }
}

/// What a reproduction came to.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// Each value of the paper beside flashlab's.
    pub figures: Vec<Figure>,
    /// What was measured, drawn as the paper does it.
    pub pictures: Vec<FigurePicture>,
}

/// What is measured for a reproduction.
struct Measured {
    values: Vec<Measurement>,
    pictures: Vec<FigurePicture>,
}

/// A table or figure of a paper.
#[derive(Clone, Copy)]
pub struct Reproduction {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// The paper, and where in it.
    pub source: &'static str,
    measure: fn(Seed) -> Result<Measured, ReproduceError>,
}

impl fmt::Debug for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Reproduction {
    /// Measures, with the IOs of this seed. What is random inside the devices follows from their profiles.
    ///
    /// # Errors
    /// When a device could not be measured.
    pub fn run(&self, seed: Seed) -> Result<Reproduced, ReproduceError> {
        let Measured { values, mut pictures } = (self.measure)(seed)?;
        let figures = papers::beside(self.name, values)?;
        if pictures.is_empty() {
            pictures.push(picture::of_table(self.name, self.title, &figures));
        }
        Ok(Reproduced { figures, pictures })
    }
}

/// Every table and figure that flashlab reproduces.
pub const ALL: &[Reproduction] = &[
    ajwani::TABLE_3_1,
    ajwani::FIGURE_3_2,
    ajwani::FIGURE_3_3,
    ajwani::FIGURE_3_4,
    ajwani::FIGURE_C_1,
    ajwani::FIGURE_C_2,
    ajwani::FIGURE_C_3,
    ajwani::FIGURE_C_4,
    uflip::TABLE_3,
    uflip_figures::FIGURE_3,
    uflip_figures::FIGURE_4,
    uflip_figures::FIGURE_5,
    uflip_figures::FIGURE_6,
    uflip_figures::FIGURE_7,
    uflip_figures::FIGURE_8,
    uflip_figures::STATE,
    uflip_figures::ALIGNMENT,
    sun_zhang::ALL_OF_IT,
    iodrive::FIGURES,
    zeus::TABLES,
    today::CALIBRATED,
];

/// The reproduction of this name.
pub fn find(name: &str) -> Option<&'static Reproduction> {
    ALL.iter().find(|reproduction| reproduction.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_as_they_have_to() {
        let figure = |agreement, paper, flashlab| Figure {
            device: String::new(),
            zoo: "",
            quantity: String::new(),
            unit: String::new(),
            paper,
            flashlab,
            agreement,
        };
        assert!(figure(Agreement::Within(0.15), Some(100.0), Some(114.0)).agrees());
        assert!(!figure(Agreement::Within(0.15), Some(100.0), Some(116.0)).agrees());
        assert!(figure(Agreement::PowerOfTwo, Some(8.0), Some(10.0)).agrees());
        assert!(!figure(Agreement::PowerOfTwo, Some(8.0), Some(16.0)).agrees());
        assert!(figure(Agreement::AtMost, Some(0.5), Some(0.4)).agrees());
        assert!(!figure(Agreement::AtLeast, Some(0.5), Some(0.4)).agrees());
        assert!(figure(Agreement::PowerOfTwo, Some(0.0), Some(0.0)).agrees());
        assert!(!figure(Agreement::Within(1.0), None, Some(1.0)).agrees());
        assert!(figure(Agreement::Within(0.0), None, None).agrees());
        assert_eq!(figure(Agreement::Any, Some(4.0), Some(5.0)).difference(), Some(0.25));
    }
}
