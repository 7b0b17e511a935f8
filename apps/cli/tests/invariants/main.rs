//! The invariants of ARCHITECTURE.md, read off the manifests and the sources.

mod circles;
mod rules;
mod sources;
mod type_names;
mod words;
