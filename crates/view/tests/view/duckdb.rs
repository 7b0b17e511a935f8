//! Counts and extremes of every bin are those of a query of the samples by DuckDB.

use std::process::Command;
use std::sync::Arc;

use crate::shared::{LARGE, serve};

#[test]
fn every_bin_has_the_counts_and_extremes_of_a_query() {
    let python = std::env::var("FLASHLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let works = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        let missing = format_args!("{python} has no DuckDB");
        return flashlab_skip::skip(flashlab_skip::Need::Python, missing);
    }
    let server = serve(vec![Arc::clone(&LARGE.recording)]);
    let output = Command::new(&python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/view/counts.py"))
        .arg(server.url())
        .arg(LARGE.folder().join("samples"))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let compared: u64 = out.trim().strip_prefix("compared ").unwrap().parse().unwrap();
    assert!(compared > 10_000, "only {compared} figures were compared");
}
