//! `cargo xtask fsx`: random operations on files of a directory, compared with a model (see `flashlab_judge::fsx`).

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use flashlab_base::Seed;
use flashlab_judge::fsx::{Fsx, fsx};

/// Does random operations on files of a directory, with mmap, and compares them with bytes in memory.
#[derive(Args)]
pub struct FsxArguments {
    /// The directory: a mounted volume, or one of another file system, to judge the judge
    #[arg(long)]
    directory: PathBuf,
    /// How many operations
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// What decides each operation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Changes bytes of the files before this operation, which has to be found
    #[arg(long, value_name = "OPERATION")]
    tamper_at: Option<u64>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// Tests the directory, prints, and fails if a file differs from its model.
pub fn test_directory(arguments: &FsxArguments) -> anyhow::Result<()> {
    let test = Fsx {
        directory: arguments.directory.clone(),
        operations: arguments.operations,
        seed: Seed(arguments.seed),
        tamper_at: arguments.tamper_at,
    };
    let report = match fsx(&test) {
        Ok(report) => report,
        Err(failure) => bail!("{failure}"),
    };
    if arguments.json {
        let json = serde_json::json!({
            "operations": arguments.operations,
            "seed": arguments.seed,
            "failures": 0,
            "written_bytes": report.written_bytes,
            "done": report.operations,
            "unsupported": report.unsupported,
        });
        println!("{json}");
    } else {
        println!(
            "{} operations, which wrote {} MB, differ in none; not supported: {:?}",
            arguments.operations,
            report.written_bytes / 1_000_000,
            report.unsupported
        );
    }
    Ok(())
}
