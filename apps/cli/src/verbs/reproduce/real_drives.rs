//! `flashlab reproduce ssd-iq`: rows measured on real drives, next to their models.

use std::path::Path;

use anyhow::Result;
use flashlab_base::Seed;
use flashlab_reproduce::{
    DriveRows, FigurePicture, RowComparison, RowUse, draw_drives, judge, known_rows, orders_of_drives,
    summaries,
};
use serde::Serialize;

use super::four_digits::four_digits;
use crate::arguments::TableOptions;
use crate::exit::Usage;
use crate::{csv_table, files, output};

/// Its name on the command line.
pub const NAME: &str = "ssd-iq";
pub const TITLE: &str = "Seven real data-centre drives, with rows that no model was fitted to";

/// A row of `--json` and `--csv`.
#[derive(Serialize)]
struct Row<'a> {
    drive: &'a str,
    device: &'a str,
    workload: &'a str,
    quantity: String,
    unit: &'a str,
    rows: usize,
    drive_value: f64,
    flashlab: f64,
    r#use: &'a str,
}

/// Measures the models and prints all rows, with those of a file if there is one. Returns the pictures.
pub fn reproduce(further: Option<&Path>, seed: Seed, table: TableOptions) -> Result<Vec<FigurePicture>> {
    let mut rows = known_rows();
    if let Some(file) = further {
        rows.add(&file.display().to_string(), &files::rows(file)?)
            .map_err(|error| Usage(error.to_string()))?;
    }
    tell!("{NAME}: measuring");
    let comparisons = judge(&rows, seed)?;
    if table.is_for_a_program() {
        let rows: Vec<Row<'_>> = comparisons.iter().map(row).collect();
        if table.json { output::json(&rows)? } else { csv_table::print(&rows)? }
    } else {
        output::text(&text(&rows, &comparisons))?;
    }
    Ok(draw_drives(&comparisons))
}

fn row(one: &RowComparison) -> Row<'_> {
    Row {
        drive: one.drive.name,
        device: one.drive.zoo,
        workload: &one.workload,
        quantity: one.quantity.to_string(),
        unit: one.quantity.unit(),
        rows: one.rows,
        drive_value: one.measured,
        flashlab: one.simulated,
        r#use: match one.row_use {
            RowUse::Fit => "fit",
            RowUse::Test => "test",
        },
    }
}

fn text(rows: &DriveRows, comparisons: &[RowComparison]) -> String {
    let mut text = format!(
        "{TITLE}\nSSD-iq (Haas et al., PVLDB 18, 2025; repository gabriel-haas/ssdiq-pub, commit 8a0a3f4); {} rows\n",
        rows.len()
    );
    let width = comparisons.iter().map(|one| one.workload.chars().count()).max().unwrap_or(8);
    for row_use in [RowUse::Fit, RowUse::Test] {
        text += &format!(
            "\nRows {row_use}\n{:<16} {:<width$} {:<12} {:>4} {:>10} {:>10} {:>10}\n",
            "device", "workload", "quantity", "rows", "drive", "flashlab", "difference"
        );
        for one in comparisons.iter().filter(|one| one.row_use == row_use) {
            text += &format!(
                "{:<16} {:<width$} {:<12} {:>4} {:>10} {:>10} {:>8.1} %  {}\n",
                one.drive.zoo,
                one.workload,
                one.quantity,
                one.rows,
                four_digits(Some(one.measured)),
                four_digits(Some(one.simulated)),
                100.0 * one.difference(),
                one.quantity.unit(),
            );
        }
    }
    text += &format!("\n{:<12} {:<10} {:>6} {:>10} {:>10}\n", "quantity", "rows", "values", "median", "p95");
    for one in summaries(comparisons) {
        text += &format!(
            "{:<12} {:<10} {:>6} {:>8.1} % {:>8.1} %\n",
            one.quantity,
            one.row_use.to_string(),
            one.values,
            100.0 * one.median,
            100.0 * one.p95
        );
    }
    text += "\nOrder of the drives by steady rate, the fastest first\n";
    let (mut right, mut all) = (0, 0);
    for order in orders_of_drives(comparisons) {
        text += &format!("{}: {} of {} pairs as measured", order.workload, order.pairs.0, order.pairs.1);
        if order.measured != order.simulated {
            text += &format!(
                "\n  drives: {}\n  models: {}",
                order.measured.join(", "),
                order.simulated.join(", ")
            );
        }
        text += "\n";
        (right, all) = (right + order.pairs.0, all + order.pairs.1);
    }
    text + &format!("{right} of {all} pairs in the measured order\n")
}
