//! A table or figure of a paper, how it is measured, and how it is compared with the paper.

use std::fmt;

use flashlab_base::Seed;

use crate::figure::Figure;
use crate::lab::ReproduceError;
use crate::papers::{self, Measurement};
use crate::picture::{self, FigurePicture};

/// What a reproduction came to.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// Each value of the paper, with flashlab's.
    pub figures: Vec<Figure>,
    /// Pictures of what was measured, in the style of the paper.
    pub pictures: Vec<FigurePicture>,
}

/// What is measured for a reproduction.
pub(crate) struct Measured {
    pub values: Vec<Measurement>,
    pub pictures: Vec<FigurePicture>,
}

/// A table or figure of a paper.
#[derive(Clone, Copy)]
pub struct Reproduction {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// The paper, and where in it.
    pub source: &'static str,
    pub(crate) measure: fn(Seed) -> Result<Measured, ReproduceError>,
}

impl fmt::Debug for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Reproduction {
    /// Measures with IOs of this seed. What is random inside the devices follows from their profiles.
    ///
    /// # Errors
    /// If a device could not be measured.
    pub fn run(&self, seed: Seed) -> Result<Reproduced, ReproduceError> {
        let Measured { values, mut pictures } = (self.measure)(seed)?;
        let figures = papers::beside(self.name, values)?;
        if pictures.is_empty() {
            pictures.push(picture::of_table(self.name, self.title, &figures));
        }
        Ok(Reproduced { figures, pictures })
    }
}
