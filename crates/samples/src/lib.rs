//! The record of every IO and the manifest of a run.

mod sample;

pub use sample::Sample;
