//! Runs a plan on any Device into a sink.
