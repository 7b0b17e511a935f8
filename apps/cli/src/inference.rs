//! An inference and its folder.
//!
//! ```text
//! manifest.json        what is inferred, how, and by whose consent; written at the start
//! under-way.json       what the group that is under way may have written
//! inference.json       what is known so far
//! probes/NN-PROBE.toml what each probe ran, a plan for `flashlab run`
//! runs.jsonl           each step of the probes; samples/ has the IOs
//! report.html, report.txt
//! ```
//! All files except the manifest are written after each probe, and get their names when they are complete. So
//! an interrupted or killed inference keeps what it found.

pub mod folder;
mod keeper;
pub mod ongoing;
mod recorder;
pub mod replay;
pub mod settings;
pub mod show;
