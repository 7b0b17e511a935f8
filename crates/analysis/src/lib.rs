//! Pure functions: samples to findings with evidence and confidence.

pub mod findings;
