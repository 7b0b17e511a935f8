//! `flashlab`: the command line.
//!
//! Standard output carries results (a summary, or one JSON document with `--json`), standard error
//! everything else. Exit codes: 0 done, 1 the work failed, 2 the command line or an input file is wrong,
//! 3 refused for safety.

/// Prints a line on standard error.
macro_rules! tell {
    ($($argument:tt)*) => { $crate::output::tell(&format!($($argument)*)) };
}

mod args;
mod bench;
mod caretaker;
mod devices;
mod exit;
mod flash_statistics;
mod infer;
mod inference_run;
mod input;
mod nbd;
mod output;
mod plans;
mod progress;
mod recordings;
mod report;
mod reproduce;
mod resume;
mod scratch;
mod selection;
mod serve;
mod served;
mod session;
mod sim;
mod sim_run;
mod target;
mod traces;
mod transport_latency;
mod watch;
mod wear_out;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Verb};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.verb {
        Verb::Bench(bench) => bench::bench(bench),
        Verb::Run(run) => bench::run(run),
        Verb::Infer(arguments) => infer::infer(arguments),
        Verb::Plan(plan) => plans::plan(plan),
        Verb::Devices(devices) => devices::devices(devices),
        Verb::Sim(sim) => sim::sim(sim),
        Verb::Serve(arguments) => serve::serve(arguments),
        Verb::Reproduce(arguments) => reproduce::reproduce(arguments),
        Verb::Report(report) => report::report(report),
        Verb::Caretaker => caretaker::caretaker(),
        Verb::MeasureTransportLatency { path } => transport_latency::probe(&path),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::tell(&error),
    }
}
