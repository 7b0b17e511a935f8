//! The IOs of a view as files of three formats, which other programs read with the right figures.

use std::process::Command;
use std::sync::Arc;

use flashlab_base::Sample;

use crate::shared::{LARGE, SMALL, ask, serve};

/// Reads a file with one program and prints its figures.
const READERS: [(&str, &str, &str); 7] = [
    ("arrow", "import polars as pl", "d = pl.read_ipc(sys.argv[1])"),
    ("arrow", "import pyarrow.feather as f", "d = f.read_table(sys.argv[1])"),
    ("arrow", "import pandas as pd, pyarrow", "d = pd.read_feather(sys.argv[1])"),
    ("parquet", "import polars as pl", "d = pl.read_parquet(sys.argv[1])"),
    ("parquet", "import pyarrow.parquet as q", "d = q.read_table(sys.argv[1])"),
    (
        "parquet",
        "import duckdb, pyarrow",
        "d = duckdb.sql(f\"FROM '{sys.argv[1]}'\").arrow()\nd = d.read_all() if hasattr(d, 'read_all') else d",
    ),
    ("parquet", "import fastparquet", "d = fastparquet.ParquetFile(sys.argv[1]).to_pandas()"),
];
const FIGURES: &str = "
column = lambda name: [x.as_py() if hasattr(x, 'as_py') else x for x in d[name]]
names = list(getattr(d, 'column_names', None) or d.columns)
print(len(d), sum(m == 'write' for m in column('mode')), *(sum(map(int, column(name))) for name in names if name != 'mode'))
print(*names)";

const NAMES: &str =
    "run process position mode time_ns offset_bytes size_bytes submission_delay_ns response_ns errno";

#[test]
fn files_of_a_view_are_read_by_other_programs() {
    let python = std::env::var("FLASHLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let server = serve(vec![Arc::clone(&SMALL.recording)]);
    let chosen: Vec<&(u32, Sample)> =
        SMALL.samples.iter().filter(|(run, sample)| *run == 1 && sample.errno == 0).collect();
    let sum =
        |of: &dyn Fn(u32, &Sample) -> u64| chosen.iter().map(|(run, sample)| of(*run, sample)).sum::<u64>();
    let figures = [
        chosen.len() as u64,
        sum(&|_, sample| u64::from(sample.mode.is_write())),
        sum(&|run, _| u64::from(run)),
        sum(&|_, sample| u64::from(sample.process)),
        sum(&|_, sample| sample.position),
        sum(&|_, sample| sample.intended.0 - SMALL.origin_ns()),
        sum(&|_, sample| sample.offset.0),
        sum(&|_, sample| sample.size.0),
        sum(&|_, sample| sample.submitted.0 - sample.intended.0),
        sum(&|_, sample| sample.completed.0 - sample.intended.0),
        0,
    ];
    let expected = figures.map(|figure| figure.to_string()).join(" ");
    let directory = tempfile::tempdir().unwrap();
    for (format, import, read) in READERS {
        let (status, bytes) = ask(&server, &format!("api/export?format={format}&run=1&errors=none"));
        assert_eq!(status, 200);
        let file = directory.path().join(format!("ios.{format}"));
        std::fs::write(&file, bytes).unwrap();
        if !Command::new(&python).args(["-c", import]).output().is_ok_and(|output| output.status.success()) {
            flashlab_skip::skip(flashlab_skip::Need::Python, format_args!("{python}: {import}"));
            continue;
        }
        let script = format!("import sys\n{import}\n{read}\n{FIGURES}");
        let output = Command::new(&python).args(["-c", &script]).arg(&file).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(out.trim(), format!("{expected}\n{NAMES}"), "{format}, {import}: {err}");
    }
}

#[test]
fn more_ios_than_a_file_has_are_refused_in_each_format() {
    let server = serve(vec![Arc::clone(&LARGE.recording)]);
    for format in ["csv", "arrow", "parquet"] {
        let (status, body) = ask(&server, &format!("api/export?format={format}"));
        assert_eq!(status, 400);
        assert!(String::from_utf8_lossy(&body).contains("narrow the view"), "{format}");
        let (status, body) = ask(&server, &format!("api/export?format={format}&run=9"));
        assert_eq!(status, 200, "{format}: a view without IOs is a file without rows");
        assert!(!body.is_empty());
    }
}
