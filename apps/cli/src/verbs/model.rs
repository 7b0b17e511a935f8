//! `flashlab model`: equations that predict a device. A sub-verb is one file of this folder.

mod fit;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Fit equations to a device, predict with them, check them, derive settings of other software
#[derive(Args)]
pub struct Model {
    #[command(subcommand)]
    action: ModelAction,
}

#[derive(Subcommand)]
enum ModelAction {
    Fit(fit::Fit),
}

impl Model {
    /// Does what the sub-verb says.
    pub fn run(self) -> Result<()> {
        match self.action {
            ModelAction::Fit(fit) => fit.run(),
        }
    }
}
