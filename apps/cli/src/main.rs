//! `flashlab`: the command line program.
//!
//! Results go to standard output (a summary, or one JSON document with `--json`), and everything else to
//! standard error. Exit codes: 0 done, 1 the work failed, 2 the command line or an input file is wrong, 3
//! refused for safety, 4 an expectation is not met, 5 an expectation cannot be told.

/// Prints a line on standard error.
macro_rules! tell {
    ($($argument:tt)*) => { $crate::output::tell(&format!($($argument)*)) };
}

mod arguments;
mod caretaker;
mod class_document;
mod class_runner;
mod csv_table;
mod daemon;
mod exit;
mod expectations;
mod files;
mod flash_statistics;
mod inference;
mod interrupt;
mod measure;
mod measurement;
mod nbd;
mod output;
mod output_part;
mod progress;
mod recordings;
mod run_folder;
mod scratch;
mod selection;
mod served_paths;
mod target;
mod trace_replay;
mod traces;
mod transport_latency;
mod unwritten;
mod verbs;
mod viewed;

use std::process::ExitCode;

use clap::Parser;

use verbs::CommandLine;

fn main() -> ExitCode {
    if let Err(error) = interrupt::report_file_limit() {
        return exit::tell(&error);
    }
    match command_line().verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::tell(&error),
    }
}

/// The words of the command. Wrong ones, and a request for help, end the program.
fn command_line() -> CommandLine {
    CommandLine::try_parse().unwrap_or_else(|error| {
        // Help has no text from outside, but styles.
        if !error.use_stderr() {
            error.exit();
        }
        tell!("{}", error.render().to_string().trim_end());
        std::process::exit(error.exit_code())
    })
}
