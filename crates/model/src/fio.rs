//! What fio measured, as points that models are fitted to.
//!
//! Two of fio's formats are read, of its version 3: the JSON output of jobs (`json`, `json+`, `normal,json`), and a latency log with
//! offsets. Version 2 has microseconds under the same names, and is refused. What fio's options say is believed only where its
//! figures agree: bytes over requests are the size, and IOPS times latency the number in flight.

mod document;
mod job;
mod log;
mod measurement;
mod options;

pub use measurement::FioPoints;

use flashlab_input::FileContent;

use crate::ModelError;

/// The points of fio's output; `name` is its path, for the errors and because fio's names say what is in a log.
///
/// # Errors
/// When it is none, or of another version, or when none of its jobs can be used; the reasons are in the error.
pub fn fio_points(text: &str, name: &str) -> Result<FioPoints, ModelError> {
    match FileContent::of(text.as_bytes()) {
        FileContent::FioLog => Ok(FioPoints { points: log::log_points(text, name)?, notes: Vec::new() }),
        FileContent::FioJson => measurement::json_points(text, name),
        content => Err(ModelError::Input(format!(
            "{name}: holds {content}, and no JSON or log of fio: make it with fio --output-format=json --output=FILE"
        ))),
    }
}
