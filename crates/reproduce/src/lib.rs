//! Reproduces tables and figures of papers on the simulated devices of the zoo.
//!
//! # Model
//! A [`Reproduction`] measures devices of the zoo with flashlab's own benchmark and engine. It returns
//! [`Figure`]s (the paper's value, flashlab's value, and the tolerance) and [`FigurePicture`]s of what was
//! measured. The profiles contain mechanisms and do not know the papers' values.
//!
//! # Invariants
//! - The papers' values are in `figures/`, with their source, and nowhere else.
//! - Measurements do not depend on them. They are added to the results and the pictures afterwards.
//! - The same program and seed give the same figures and pictures, whatever the number of CPUs.

mod ajwani;
mod append_and_pack;
mod figure;
mod iodrive;
mod lab;
mod papers;
mod picture;
mod reproduction;
mod ssd_iq;
mod sun_zhang;
mod today;
mod uflip;
mod uflip_figures;
mod zeus;

pub use figure::{Agreement, Figure};
pub use lab::ReproduceError;
pub use picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
pub use reproduction::{Reproduced, Reproduction};
pub use ssd_iq::{
    DriveRows, ErrorSummary, OrderOfDrives, Quantity, REAL_DRIVES, RealDrive, RowComparison, RowError,
    RowUse, draw_drives, judge, judge_profile, known_rows, orders_of_drives, summaries,
};

/// Every table and figure that flashlab reproduces.
pub const ALL: &[Reproduction] = &[
    ajwani::TABLE_3_1,
    ajwani::FIGURE_3_2,
    ajwani::FIGURE_3_3,
    ajwani::FIGURE_3_4,
    ajwani::FIGURE_C_1,
    ajwani::FIGURE_C_2,
    ajwani::FIGURE_C_3,
    ajwani::FIGURE_C_4,
    ajwani::ALGORITHMS,
    uflip::TABLE_3,
    uflip_figures::FIGURE_3,
    uflip_figures::FIGURE_4,
    uflip_figures::FIGURE_5,
    uflip_figures::FIGURE_6,
    uflip_figures::FIGURE_7,
    uflip_figures::FIGURE_8,
    uflip_figures::STATE,
    uflip_figures::ALIGNMENT,
    sun_zhang::ALL_OF_IT,
    iodrive::FIGURES,
    append_and_pack::TABLES,
    zeus::TABLES,
    today::CALIBRATED,
];

/// The reproduction of this name.
pub fn find(name: &str) -> Option<&'static Reproduction> {
    ALL.iter().find(|reproduction| reproduction.name == name)
}
