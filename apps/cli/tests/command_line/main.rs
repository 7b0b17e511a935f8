//! Tests of the program from outside: its output, its exit codes, and what it leaves behind.
//!
//! Tests that need root (loop devices, mounts) report that they are skipped without it. No test depends on
//! speed.

mod advice;
mod attacked;
mod damaged_volumes;
mod determinism;
mod documents;
mod em;
mod expectations;
mod file_arguments;
mod files;
mod files_after_kills;
mod files_full;
mod files_like_ext4;
mod flipped_bits;
mod folders;
mod foreign;
mod help;
mod infer;
mod interruption;
mod judged;
mod live_disk;
mod model;
mod mutants;
mod nbd;
mod odd_disks;
mod outside_text;
mod paging;
mod real_devices;
mod recorded_inferences;
mod repair;
mod replay;
mod run_databases;
mod run_odd_programs;
mod run_programs;
mod saved_states;
mod serve;
mod storage;
mod support;
mod sweep;
mod tuned_programs;
mod twin;
mod view;
mod wrong_commands;
mod wrong_files;
