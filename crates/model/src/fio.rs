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

use crate::ModelError;

/// The points of fio's output; `name` is its path, for the errors and because fio's names say what is in a log.
///
/// # Errors
/// When it is none, or of another version, or when none of its jobs can be used; the reasons are in the error.
pub fn fio_points(text: &str, name: &str) -> Result<FioPoints, ModelError> {
    // fio's messages and its text for people may stand before the JSON, but a log is numbers only.
    let is_log = text.trim_start().starts_with(|c: char| c.is_ascii_digit())
        && !text.contains("\"fio version\"")
        && !text.contains(";fio-");
    match is_log {
        true => Ok(FioPoints { points: log::log_points(text, name)?, notes: Vec::new() }),
        false => measurement::json_points(text, name),
    }
}
