//! An inference and its folder.
//!
//! ```text
//! manifest.json        what is inferred, how, and by whose consent; written at the start
//! under-way.json       what the group that is under way may have written
//! inference.json       what is known so far
//! probes/NN-GROUP.toml what each group ran, a plan for `flashlab run`
//! report.html, report.txt
//! ```
//! All but the manifest are written after each group, and appear when they are complete: an inference that is
//! interrupted or killed keeps what is known.

pub mod folder;
mod keeper;
pub mod ongoing;
pub mod settings;
pub mod show;
