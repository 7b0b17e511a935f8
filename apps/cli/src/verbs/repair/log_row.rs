//! A log of a volume or of a simulated one, as `--json` and tables show it.

use std::fmt::Write;

use flashlab_repair::LogStatus;
use serde::{Deserialize, Serialize};

/// One log over a span of time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LogRow {
    log: u8,
    physical_pages: f64,
    live_pages: f64,
    /// Physical pages for each live page.
    alpha: Option<f64>,
    /// The share of pages that were live when they were packed.
    p: Option<f64>,
    p_predicted: Option<f64>,
}

impl LogRow {
    /// Of a placer's log.
    pub fn of(log: &LogStatus) -> LogRow {
        LogRow {
            log: log.log.0,
            physical_pages: log.physical_pages,
            live_pages: log.live_pages,
            alpha: log.alpha,
            p: log.survival,
            p_predicted: log.survival_predicted,
        }
    }
}

/// The logs as a table.
pub fn log_table(rows: &[LogRow]) -> String {
    let mut text = "log   physical pages   live pages   alpha   p measured   p predicted\n".to_owned();
    for row in rows {
        let value = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let _ = writeln!(
            text,
            "{:>3}   {:>14.0}   {:>10.0}   {:>5}   {:>10}   {:>11}",
            row.log,
            row.physical_pages,
            row.live_pages,
            row.alpha.map_or("-".to_owned(), |alpha| format!("{alpha:.2}")),
            value(row.p),
            value(row.p_predicted)
        );
    }
    text
}
