//! The verbs of the command line. A verb is one file: its arguments, with their help texts, and its function `run`.
//!
//! To add a verb, write its file and add it here in three places: `mod`, variant, arm.

pub mod bench;
pub mod caretaker;
pub mod compare;
pub mod completions;
pub mod devices;
pub mod em;
pub mod infer;
pub mod live;
pub mod manual;
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
pub mod view;
pub mod wear_out;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

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
    View(view::View),
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
    Completions(completions::Completions),
    Manual(manual::Manual),
    #[command(hide = true)]
    Caretaker(caretaker::Caretaker),
    #[command(hide = true)]
    MountedProgram(mounted_program::MountedProgram),
    #[command(hide = true)]
    MeasureTransportLatency(measure_transport_latency::MeasureTransportLatency),
}

/// The command line without the verbs that flashlab calls itself, as completions and manual pages have it.
fn public_command() -> clap::Command {
    let command = CommandLine::command();
    let verbs: Vec<_> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let about = command.get_about().cloned().unwrap_or_default();
    clap::Command::new("flashlab").version(env!("CARGO_PKG_VERSION")).about(about).subcommands(verbs)
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
            Verb::View(view) => view.run(),
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
            Verb::Completions(completions) => completions.run(public_command()),
            Verb::Manual(manual) => manual.run(public_command()),
            Verb::Caretaker(caretaker) => caretaker.run(),
            Verb::MountedProgram(program) => program.run(),
            Verb::MeasureTransportLatency(measure) => measure.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::collections::BTreeSet;

    use flashlab_base::{Bytes, Nanos, Seed};

    use super::*;

    /// How each argument that may name a file is used, and by which guard it is covered.
    const FILE_ARGUMENTS: &str = include_str!("../tests/file_arguments.tsv");

    #[test]
    fn every_argument_that_may_name_a_file_is_in_the_table_of_files() {
        let mut found = BTreeSet::new();
        collect(&CommandLine::command(), "", &mut found);
        let rows = FILE_ARGUMENTS.lines().filter(|line| !line.starts_with('#'));
        let listed: BTreeSet<(String, String)> = rows
            .map(|row| {
                let cells: Vec<&str> = row.split('\t').collect();
                assert_eq!(cells.len(), 4, "{row}");
                (cells[0].to_owned(), cells[1].to_owned())
            })
            .collect();
        let unlisted: Vec<_> = found.difference(&listed).collect();
        let gone: Vec<_> = listed.difference(&found).collect();
        assert!(
            unlisted.is_empty() && gone.is_empty(),
            "apps/cli/tests/file_arguments.tsv lacks {unlisted:?}, and has {gone:?}, which do not exist"
        );
    }

    fn collect(command: &clap::Command, verb: &str, found: &mut BTreeSet<(String, String)>) {
        for argument in command.get_arguments().filter(|argument| may_name_a_file(argument)) {
            let name = match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => argument.get_value_names().map_or_else(String::new, |names| names[0].to_string()),
            };
            found.insert((verb.to_owned(), name));
        }
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            collect(inner, format!("{verb} {}", inner.get_name()).trim(), found);
        }
    }

    /// Whether the value may be a path: it is not one of some words, and no number.
    fn may_name_a_file(argument: &clap::Arg) -> bool {
        let numbers = [
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<f64>(),
            TypeId::of::<bool>(),
            TypeId::of::<Bytes>(),
            TypeId::of::<Nanos>(),
            TypeId::of::<Seed>(),
        ];
        let parsed = argument.get_value_parser().type_id();
        argument.get_action().takes_values()
            && argument.get_possible_values().is_empty()
            && !numbers.iter().any(|number| parsed == *number)
    }
}
