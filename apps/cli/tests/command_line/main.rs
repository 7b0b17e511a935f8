//! The binary from outside: what it prints, how it exits, what it leaves behind.
//!
//! Tests that need root (loop devices, mounts) say so and do nothing where they may not; no test
//! depends on how fast anything is.

mod advice;
mod attacked;
mod determinism;
mod documents;
mod expectations;
mod help;
mod infer;
mod interruption;
mod live_disk;
mod nbd;
mod odd_disks;
mod real_devices;
mod replay;
mod saved_states;
mod serve;
mod storage;
mod support;
mod sweep;
mod wrong_commands;
mod wrong_files;
