//! `flashlab caretaker`: the process that cleans up after a server; only servers start it.

use anyhow::Result;
use clap::Args;

/// Take down what a server leaves behind: started by `serve` itself
#[derive(Args)]
pub struct Caretaker {}

impl Caretaker {
    /// Waits until the server ends.
    pub fn run(self) -> Result<()> {
        crate::caretaker::caretaker()
    }
}
