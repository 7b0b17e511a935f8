//! `flashlab repair`: volumes that turn random writes into the large sequential writes that flash likes.

mod check;
pub mod copy_in;
mod copy_out;
mod counters_status;
mod create;
mod dump;
mod erase;
mod inferred_geometry;
mod log_table;
pub mod managed;
mod mount;
mod open_files;
mod opened;
pub mod passed;
mod program;
mod resize;
mod run_program;
mod serve;
mod served_status;
mod simulate;
mod status;
mod volume_options;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Volumes that turn random writes into large sequential ones, durable and crash-safe
#[derive(Args)]
pub struct Repair {
    #[command(subcommand)]
    task: RepairTask,
}

#[derive(Subcommand)]
enum RepairTask {
    Create(create::Create),
    Serve(serve::ServeVolume),
    Mount(mount::MountFiles),
    Run(run_program::RunProgram),
    Status(status::Status),
    Check(check::Check),
    Dump(dump::Dump),
    Erase(erase::Erase),
    Resize(resize::Resize),
    Simulate(simulate::Simulate),
}

impl Repair {
    /// Does what the task says.
    pub fn run(self) -> Result<()> {
        match self.task {
            RepairTask::Create(create) => create.run(),
            RepairTask::Serve(serve) => serve.run(),
            RepairTask::Mount(mount) => mount.run(),
            RepairTask::Run(run) => run.run(),
            RepairTask::Status(status) => status.run(),
            RepairTask::Check(check) => check.run(),
            RepairTask::Dump(dump) => dump.run(),
            RepairTask::Erase(erase) => erase.run(),
            RepairTask::Resize(resize) => resize.run(),
            RepairTask::Simulate(simulate) => simulate.run(),
        }
    }
}
