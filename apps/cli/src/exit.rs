//! Turns an error into its message and its exit code.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use flashlab_bench::BenchError;
use flashlab_em::EmError;
use flashlab_engine::EngineError;
use flashlab_export::ExportError;
use flashlab_host::HostError;
use flashlab_infer::RecordingError;
use flashlab_model::ModelError;
use flashlab_plan::PlanError;
use flashlab_repair::RepairError;
use flashlab_samples::SamplesError;
use flashlab_sim::ProfileError;
use flashlab_sweep::SweepError;
use flashlab_trace::TraceError;
use flashlab_view::ViewError;

/// The work failed.
pub const FAILED: u8 = 1;
const WRONG_INPUT: u8 = 2;
const REFUSED: u8 = 3;
const NOT_MET: u8 = 4;
const CANNOT_BE_TOLD: u8 = 5;

/// An error in the command line that clap cannot detect.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Something that flashlab does not do without consent.
#[derive(Debug)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Not all expectations are met.
#[derive(Debug)]
pub struct Unmet {
    /// How many.
    pub summary: String,
    /// Whether an expectation is not met, or counts as not met.
    pub is_known: bool,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)
    }
}

impl std::error::Error for Unmet {}

/// Another flashlab process ended with this exit code, and has printed why.
#[derive(Debug)]
pub struct Ended(pub u8);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server ended before the disk was ready")
    }
}

impl std::error::Error for Ended {}

/// Prints the error and chooses the exit code.
pub fn tell(error: &anyhow::Error) -> ExitCode {
    tell!("flashlab: {}", message(error));
    ExitCode::from(code(error))
}

/// The error with its causes. A cause is left out if the error's message already contains it, as the errors
/// of our crates do.
fn message(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| match cause.to_string() {
        cause if told.is_empty() => cause,
        cause if told.contains(&cause) => told,
        cause => format!("{told}: {cause}"),
    })
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Refused>() {
        return REFUSED;
    }
    if let Some(&Ended(code)) = error.downcast_ref::<Ended>() {
        return code;
    }
    if let Some(unmet) = error.downcast_ref::<Unmet>() {
        return if unmet.is_known { NOT_MET } else { CANNOT_BE_TOLD };
    }
    if error.is::<Usage>()
        || error.is::<PlanError>()
        || error.is::<ProfileError>()
        || error.is::<EngineError>()
    {
        return WRONG_INPUT;
    }
    if error.is::<TraceError>() {
        return WRONG_INPUT;
    }
    if let Some(error) = error.downcast_ref::<ViewError>() {
        return if error.is_wrong_input() { WRONG_INPUT } else { FAILED };
    }
    match error.downcast_ref::<SweepError>() {
        Some(SweepError::Samples(error)) => return of_samples(error),
        Some(error) if error.is_wrong_input() => return WRONG_INPUT,
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<HostError>() {
        return of_host(error);
    }
    if let Some(error) = error.downcast_ref::<ExportError>() {
        return of_export(error);
    }
    match error.downcast_ref::<ModelError>() {
        Some(ModelError::Run(error)) => return of_bench(error),
        Some(_) => return WRONG_INPUT,
        None => {}
    }
    match error.downcast_ref::<RecordingError>() {
        Some(RecordingError::Folder(error)) => return of_samples(error),
        Some(_) => return WRONG_INPUT,
        None => {}
    }
    if let Some(error) = error.downcast_ref::<RepairError>() {
        return of_repair(error);
    }
    if let Some(error) = error.downcast_ref::<EmError>() {
        return of_em(error);
    }
    match error.downcast_ref::<BenchError>() {
        Some(error) => of_bench(error),
        None => error.downcast_ref::<SamplesError>().map_or(FAILED, of_samples),
    }
}

fn of_bench(error: &BenchError) -> u8 {
    if error.is_wrong_input() { WRONG_INPUT } else { FAILED }
}

fn of_host(error: &HostError) -> u8 {
    match error {
        HostError::Refused { .. }
        | HostError::ConsentMismatch { .. }
        | HostError::WrongConsent { .. }
        | HostError::TargetChanged { .. }
        | HostError::Locked { .. } => REFUSED,
        HostError::NoTarget { .. } | HostError::Empty { .. } | HostError::Depth { .. } => WRONG_INPUT,
        HostError::NoSpace { .. } => WRONG_INPUT,
        HostError::System { error, .. } if error.kind() == ErrorKind::NotFound => WRONG_INPUT,
        _ => FAILED,
    }
}

fn of_repair(error: &RepairError) -> u8 {
    match error {
        RepairError::NoVolume
        | RepairError::NoSuperblock
        | RepairError::OtherVersion(_)
        | RepairError::OtherFilesVersion(_)
        | RepairError::Options(_)
        | RepairError::Memory { .. }
        | RepairError::OutOfRange(_) => WRONG_INPUT,
        RepairError::NoFiles => REFUSED,
        _ => FAILED,
    }
}

fn of_em(error: &EmError) -> u8 {
    match error {
        EmError::Io { .. } | EmError::Interrupted | EmError::Wrong(_) => FAILED,
        _ => WRONG_INPUT,
    }
}

fn of_export(error: &ExportError) -> u8 {
    match error {
        ExportError::NotMadeByFlashlab { .. } | ExportError::NoState(_) => REFUSED,
        ExportError::Host(error) => of_host(error),
        ExportError::Io { .. } => FAILED,
        ExportError::Record(error) => of_samples(error),
        _ => WRONG_INPUT,
    }
}

fn of_samples(error: &SamplesError) -> u8 {
    if error.is_wrong_input() { WRONG_INPUT } else { FAILED }
}
