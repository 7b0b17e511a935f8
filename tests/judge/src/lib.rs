//! Judges `flashlab repair` from outside: it sees what any program sees, files and processes.
//!
//! It uses nothing of `repair` and `export`, and knows their promises from docs/repair.md and docs/repair-files.md alone. So it judges
//! any directory; on ext4 it has to find nothing.
//!
//! - [`fsx`](mod@fsx): random operations on files of a directory, compared with bytes in memory.
//! - [`kills`](mod@kills): servers are killed while programs write, and what had been acknowledged has to be there.
//!
//! Invariant: everything random follows from a seed, and each failure prints the command that repeats it.

pub mod fsx;
pub mod kills;
pub mod server;
mod system;

pub use system::map;
