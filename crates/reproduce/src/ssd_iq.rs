//! Seven real data-centre drives: rows that others measured, next to what the zoo's models of the drives do.
//!
//! # Model
//! A row is one measurement of a real drive: the rate of a write workload that lasted several overwrites, what the drive's counter
//! said of media writes, or latencies under a rate of writes. [`judge()`] runs the workload of each row on the drive's model, which is
//! scaled down: a smaller capacity with blocks, zones and parts in use in the same proportion to it, and the bandwidth of the whole drive.
//!
//! # Invariants
//! - A model contains mechanisms and no row. `cargo xtask fit-zoo` fits it to rows marked `fit` only.
//! - Rows marked `test`, and rows from elsewhere (`--rows`), are shown apart from those.

mod drives;
mod experiment;
mod judge;
mod ladder;
mod pictures;
mod rows;
mod summary;
mod workload;

pub use drives::{REAL_DRIVES, RealDrive};
pub use judge::{Quantity, RowComparison, judge, judge_profile};
pub use pictures::draw as draw_drives;
pub use rows::{DriveRows, RowError, RowUse};
pub use summary::{ErrorSummary, OrderOfDrives, orders_of_drives, summaries};

/// The rows that flashlab brings along.
///
/// # Panics
/// Never: a test parses them.
pub fn known_rows() -> DriveRows {
    let mut rows = DriveRows::default();
    for (name, text) in [
        ("steady_write_rate.csv", include_str!("../figures/ssd_iq/steady_write_rate.csv")),
        ("media_writes_by_counter.csv", include_str!("../figures/ssd_iq/media_writes_by_counter.csv")),
        ("latency_under_write_load.csv", include_str!("../figures/ssd_iq/latency_under_write_load.csv")),
    ] {
        rows.add(name, text).expect("a test parses the rows that flashlab brings along");
    }
    rows
}
