//! A model of the read and write path: pages, planes, chunks, dies and channels, and the times of their operations.
//!
//! # Model
//! A [`FlashLayout`] says where pages lie. A replay of the IOs with that layout, and with four unknown times, says
//! how long each IO takes (El Maghraoui et al., SIGMETRICS/ICPE 2010, equations 1 to 3). [`Likely`] has the layouts
//! with which the measured times are most likely.
//!
//! # Invariants
//! - The same IOs give the same layouts.

mod crossings;
mod fitting;
mod layouts;
mod likely;
mod programs;
mod replay;
mod runs;

pub use crossings::Crossings;
pub use likely::Likely;
pub use replay::FlashLayout;
pub use runs::{TimedRun, alone, are_served_in_turn, in_a_row, is_mixed, nanos, weighted};
