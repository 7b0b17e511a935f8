//! Tests the invariants of ARCHITECTURE.md on the manifests and the sources.

mod circles;
mod constants;
mod rules;
mod sources;
mod type_names;
mod words;
