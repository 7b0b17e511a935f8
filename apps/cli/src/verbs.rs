//! The verbs of the command line. A verb is one file: its arguments, with their help texts, and its function `run`.
//!
//! To add a verb, write its file and add it here in three places: `mod`, variant, arm.

pub mod bench;
pub mod caretaker;
pub mod compare;
pub mod devices;
pub mod em;
pub mod infer;
pub mod live;
pub mod measure_transport_latency;
pub mod model;
pub mod mounted_program;
pub mod plan;
pub mod repair;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod resume;
pub mod run;
pub mod serve;
pub mod sim;
pub mod sim_run;
pub mod sweep;
pub mod wear_out;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// A laboratory for flash storage: measures, explains, simulates and serves devices.
#[derive(Parser)]
#[command(name = "flashlab", version, max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Bench(bench::Bench),
    Run(run::Run),
    Infer(infer::Infer),
    WearOut(wear_out::WearOut),
    Resume(resume::Resume),
    Report(report::Report),
    Compare(compare::Compare),
    Model(model::Model),
    Plan(plan::PlanCommand),
    Devices(devices::Devices),
    Em(em::Em),
    Sim(sim::Sim),
    Sweep(sweep::Sweep),
    Replay(replay::Replay),
    Serve(serve::Serve),
    Repair(repair::Repair),
    Live(live::Live),
    Reproduce(reproduce::Reproduce),
    #[command(hide = true)]
    Caretaker(caretaker::Caretaker),
    #[command(hide = true)]
    MountedProgram(mounted_program::MountedProgram),
    #[command(hide = true)]
    MeasureTransportLatency(measure_transport_latency::MeasureTransportLatency),
}

impl Verb {
    /// Does what the verb says.
    pub fn run(self) -> Result<()> {
        match self {
            Verb::Bench(bench) => bench.run(),
            Verb::Run(run) => run.run(),
            Verb::Infer(infer) => infer.run(),
            Verb::WearOut(wear_out) => wear_out.run(),
            Verb::Resume(resume) => resume.run(),
            Verb::Report(report) => report.run(),
            Verb::Compare(compare) => compare.run(),
            Verb::Model(model) => model.run(),
            Verb::Plan(plan) => plan.run(),
            Verb::Devices(devices) => devices.run(),
            Verb::Em(em) => em.run(),
            Verb::Sim(sim) => sim.run(),
            Verb::Sweep(sweep) => sweep.run(),
            Verb::Replay(replay) => replay.run(),
            Verb::Serve(serve) => serve.run(),
            Verb::Repair(repair) => repair.run(),
            Verb::Live(live) => live.run(),
            Verb::Reproduce(reproduce) => reproduce.run(),
            Verb::Caretaker(caretaker) => caretaker.run(),
            Verb::MountedProgram(program) => program.run(),
            Verb::MeasureTransportLatency(measure) => measure.run(),
        }
    }
}
