//! `flashlab model`: equations that predict a device. A sub-verb is one file of this folder.

mod check;
mod fit;
mod measuring;
mod predict;
mod show;
pub mod source;
mod tune;
mod twin;
pub mod twin_check;

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
    Predict(predict::Predict),
    Check(check::Check),
    Tune(tune::Tune),
    Twin(twin::Twin),
    TwinCheck(twin_check::TwinCheck),
}

impl Model {
    /// Does what the sub-verb says.
    pub fn run(self) -> Result<()> {
        match self.action {
            ModelAction::Fit(fit) => fit.run(),
            ModelAction::Predict(predict) => predict.run(),
            ModelAction::Check(check) => check.run(),
            ModelAction::Tune(tune) => tune.run(),
            ModelAction::Twin(twin) => twin.run(),
            ModelAction::TwinCheck(check) => check.run(),
        }
    }
}
