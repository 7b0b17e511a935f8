//! Signals in the response times of equal IOs: levels, rises, cycles, stalls, lines over the size.
//!
//! The probes of an inference share them. Each is a pure function of the times, so that it is tested on made-up data.
//!
//! # Invariants
//! - The same times give the same signals.

pub mod amplification;
pub mod copied;
pub mod cycles;
pub mod depths;
pub mod fast_beginning;
pub mod full_logs;
pub mod kinds;
pub mod late_cycles;
pub mod likelihood;
pub mod log_allocations;
pub mod log_recency;
pub mod map_look_ups;
pub mod onset;
pub mod overwritten;
pub mod page_stalls;
pub mod pass_level;
pub mod pause_benefit;
pub mod pictures;
pub mod rate_limit;
pub mod recovery;
pub mod rounding;
pub mod row_cycles;
pub mod saturation;
pub mod sizes;
pub mod statistics;
pub mod steps;
pub mod unit_rows;
pub mod useful_depth;
