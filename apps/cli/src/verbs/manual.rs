//! `flashlab manual`: the manual pages, made from the command line itself.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};

use crate::run_folder;

/// Write the manual pages into a new folder
#[derive(Args)]
pub struct Manual {
    /// The folder, as man/man1
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

impl Manual {
    /// Writes a page for the program and one for each verb.
    pub fn run(self, command: Command) -> Result<()> {
        run_folder::check_output(Some(&self.output))?;
        let folder = self.output.display();
        fs::create_dir_all(&self.output).with_context(|| format!("cannot make the folder {folder}"))?;
        clap_mangen::generate_to(command, &self.output)
            .with_context(|| format!("cannot write the manual pages into {folder}"))?;
        tell!("the pages are in {folder}: man {folder}/flashlab.1");
        Ok(())
    }
}
