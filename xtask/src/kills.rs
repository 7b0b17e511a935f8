//! `cargo xtask kills`: servers are killed while programs write (see `flashlab_judge::kills`).

use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use flashlab_base::Seed;
use flashlab_judge::kills::{Kills, Kind, kills, write_session};

/// The command of the writing process.
pub const WRITER: &str = "kills-writer";

/// How many breaches are printed; the document has all.
const SHOWN: usize = 20;

/// Kills the servers of a volume while programs write, and looks for what had been acknowledged.
#[derive(Args)]
pub struct KillsArguments {
    /// What is killed: `repair serve` (block), `repair mount` or `repair run`
    #[arg(long)]
    kind: Kind,
    /// How often
    #[arg(long, default_value_t = 1_000)]
    kills: u64,
    /// Let data take 95 % of the volume, and fill it first (block and mount)
    #[arg(long)]
    nearly_full: bool,
    /// What decides what is written and when the server is killed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The binary `flashlab`; the one beside this program if not given
    #[arg(long)]
    program: Option<PathBuf>,
    /// Where the volume and the mount are made, in a folder of their own that stays if something was found
    #[arg(long, default_value = "/tmp")]
    directory: PathBuf,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// Kills, prints, and fails if a promise was broken.
pub fn kill_servers(arguments: &KillsArguments) -> anyhow::Result<()> {
    let this = std::env::current_exe()?;
    let program = arguments.program.clone().unwrap_or_else(|| this.with_file_name("flashlab"));
    ensure!(program.exists(), "{} is missing: cargo build --release, or --program", program.display());
    let made =
        tempfile::Builder::new().prefix("kills-").disable_cleanup(true).tempdir_in(&arguments.directory);
    let folder = made.with_context(|| format!("a folder in {}", arguments.directory.display()))?.keep();
    let writer = vec![this.into_os_string(), WRITER.into()];
    let test = Kills {
        program,
        writer,
        kind: arguments.kind,
        kills: arguments.kills,
        nearly_full: arguments.nearly_full,
        seed: Seed(arguments.seed),
        folder: folder.clone(),
        fault: None,
    };
    let report = kills(&test)
        .map_err(|what| anyhow!("{what}\n    the volume and the journals are in {}", folder.display()))?;
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!(
            "{} kills, {} of them before the server was ready; {} operations, {} acknowledged as durable and {} durable by age; {} lost, {} out of \
             order, {} beneath the mount, {} other breaches; {} extensions in part",
            report.kills,
            report.killed_before_ready,
            report.operations,
            report.acknowledged,
            report.aged,
            report.lost,
            report.out_of_order,
            report.beneath,
            report.other,
            report.torn_extensions
        );
    }
    for breach in report.breaches.iter().take(SHOWN) {
        eprintln!("{breach}");
    }
    let folder_is = folder.display();
    ensure!(
        report.breaches.is_empty(),
        "{} promises were broken; the volumes and the journals are in {folder_is}\n    the same seed writes the same: --seed {}",
        report.breaches.len(),
        arguments.seed
    );
    std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())
}

/// The writing process.
pub fn write_files() -> anyhow::Result<()> {
    write_session().map_err(|what| anyhow!(what))
}
