//! The options that several verbs share, and how their values are read.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Nanos, Seed};

use crate::exit::Usage;
use crate::expectations::ExpectationOptions;

/// Reads a size above 0.
pub fn size(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(Bytes::ZERO) => Err("must be more than 0".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a duration above 0.
pub fn duration(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => Err("must be more than 0".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// Reads a seed.
pub fn seed(text: &str) -> Result<Seed, String> {
    text.parse().map_err(|_| format!("a seed is a whole number, 0 to {}", u64::MAX))
}

/// How the user consents to losing the content of TARGET.
#[derive(Args, Clone, Default)]
pub struct ConsentOptions {
    /// Consent to destroying all data on this block device, which must be TARGET
    #[arg(long, value_name = "PATH")]
    pub destroy_data_on: Option<PathBuf>,
    /// Consent to overwriting TARGET, a regular file
    #[arg(long)]
    pub overwrite_file: bool,
}

impl ConsentOptions {
    /// Whether any consent is given.
    pub fn is_given(&self) -> bool {
        self.destroy_data_on.is_some() || self.overwrite_file
    }

    /// Refuses consent without a TARGET: the user may have forgotten it.
    pub fn check_unneeded(&self) -> Result<()> {
        match self.is_given() {
            true => bail!(Usage(
                "consent is given, but no TARGET: name the device or file that may be overwritten; a scratch file needs \
                 no consent"
                    .to_owned()
            )),
            false => Ok(()),
        }
    }
}

/// Where the scratch file is created that is used without TARGET.
#[derive(Args, Clone)]
pub struct ScratchOptions {
    /// The directory of the scratch file; the current directory if not given
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    pub directory: Option<PathBuf>,
    /// Keep the scratch file
    #[arg(long, conflicts_with = "target")]
    pub keep_file: bool,
}

/// How IOs are issued to a real device.
#[derive(Args, Clone, Copy, Default)]
pub struct EngineOptions {
    /// How IOs are issued; io_uring where a plan has a queue depth, one at a time otherwise
    #[arg(long, value_enum)]
    pub engine: Option<EngineChoice>,
    /// Go through the page cache: measures memory, and says so
    #[arg(long)]
    pub buffered: bool,
}

/// What is measured beside the name of TARGET, how, and where the results go.
#[derive(Args)]
pub struct TargetOptions {
    #[command(flatten)]
    pub scratch: ScratchOptions,
    /// Size of the scratch file (1GiB if not given), or the part of TARGET that is used (all of it)
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub size: Option<Bytes>,
    #[command(flatten)]
    pub consent: ConsentOptions,
    #[command(flatten)]
    pub engine: EngineOptions,
    /// The seed of everything random
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = seed)]
    pub seed: Seed,
    /// The folder for the results; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Another capacity of a simulated device. `--size` is the same; everywhere else that is the part of TARGET that is used,
/// or the size of a file that is made.
#[derive(Args, Clone, Copy, Default)]
pub struct CapacityOption {
    /// The capacity of a simulated device, instead of its profile's
    #[arg(long, alias = "size", value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub capacity: Option<Bytes>,
}

/// A way to issue IOs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// One pread or pwrite at a time, a thread for each process of a parallel pattern
    Sync,
    /// io_uring
    IoUring,
}

/// The option of verbs that print a document.
#[derive(Args, Clone, Copy)]
pub struct JsonOption {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The options of verbs that print a table.
#[derive(Args, Clone, Copy)]
pub struct TableOptions {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Print the table as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl TableOptions {
    /// Whether a program reads standard output, so that nothing else may be printed there.
    pub fn is_for_a_program(self) -> bool {
        self.json || self.csv
    }
}

/// How a run is printed, and what is expected of it.
#[derive(Args, Clone)]
pub struct PrintOptions {
    #[command(flatten)]
    pub table: TableOptions,
    #[command(flatten)]
    pub expectations: ExpectationOptions,
}

/// What is printed of an inference.
#[derive(Args, Clone)]
pub struct InferencePrintOptions {
    /// Print advice, too: partitions, file systems, sizes, each with its reason and command; with --json, the advice
    /// alone; of an inference only
    #[arg(long)]
    pub advise: bool,
    #[command(flatten)]
    pub print: PrintOptions,
}
