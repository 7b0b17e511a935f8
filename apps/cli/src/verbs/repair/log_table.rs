//! A log of a volume or of a simulated one, as tables show it.

use std::fmt::Write;

use flashlab_repair::LogReport;

/// The logs as a table.
pub fn log_table(rows: &[LogReport]) -> String {
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
