//! Other programs read segments without conversion.

use std::process::Command;

use flashlab_base::{Bytes, Sample, Seed};
use flashlab_samples::RunFolder;

use crate::synthetic::{folder, mixed_ios, random_reads, record};

macro_rules! pandas_figures {
    () => {
        "print(len(d), d.run.sum(), d.position.sum(), (d['mode'] == 'write').sum(), d.offset_bytes.sum(),
    d.size_bytes.sum(), (d.intended_ns + d.submission_delay_ns).max(),
    (d.intended_ns + d.response_ns).max(), d.response_ns.sum(), (d.errno != 0).sum())"
    };
}

/// How each is imported, and the code that prints the same figures of all segments in the folder, which is the last argument.
const READERS: [(&str, &str); 5] = [
    ("import duckdb", DUCKDB),
    // `.ci/run` puts it into a folder beside the Python's `bin`.
    (
        "import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(sys.executable)), 'duckdb-1.3'))
import duckdb
assert duckdb.__version__.startswith('1.3.'), 'this is DuckDB ' + duckdb.__version__",
        DUCKDB,
    ),
    (
        "import polars as pl",
        "c = pl.col
print(*pl.scan_parquet(sys.argv[1] + '/*.parquet').select(
    pl.len(), c('run').cast(pl.Int64).sum().alias('r'), c('position').sum(), (c('mode') == 'write').sum(),
    c('offset_bytes').sum(), c('size_bytes').sum(), (c('intended_ns') + c('submission_delay_ns')).max().alias('s'),
    (c('intended_ns') + c('response_ns')).max().alias('c'), c('response_ns').sum(), (c('errno') != 0).sum(),
).collect().row(0))",
    ),
    ("import pandas as pd, pyarrow", concat!("d = pd.read_parquet(sys.argv[1])\n", pandas_figures!())),
    (
        "import fastparquet, glob, pandas as pd",
        concat!(
            "names = glob.glob(sys.argv[1] + '/*.parquet')
d = pd.concat(fastparquet.ParquetFile(name).to_pandas() for name in names)\n",
            pandas_figures!()
        ),
    ),
];

const DUCKDB: &str =
    "print(*duckdb.sql(f\"\"\"SELECT count(*), sum(run), sum(position), count(*) FILTER (mode = 'write'),
    sum(offset_bytes)::HUGEINT, sum(size_bytes), max(intended_ns + submission_delay_ns),
    max(intended_ns + response_ns), sum(response_ns), count(*) FILTER (errno <> 0)
    FROM '{sys.argv[1]}/*.parquet'\"\"\").fetchall()[0])";

/// What a reader must print.
fn expected(run: u64, samples: &[Sample]) -> String {
    let sum = |of: fn(&Sample) -> u64| samples.iter().map(of).sum::<u64>();
    let max = |of: fn(&Sample) -> u64| samples.iter().map(of).max().expect("there are samples");
    let figures = [
        samples.len() as u64,
        run * samples.len() as u64,
        sum(|sample| sample.position),
        sum(|sample| u64::from(sample.mode.is_write())),
        sum(|sample| sample.offset.0),
        sum(|sample| sample.size.0),
        max(|sample| sample.submitted.0),
        max(|sample| sample.completed.0),
        sum(|sample| sample.response().0),
        sum(|sample| u64::from(sample.errno != 0)),
    ];
    figures.map(|figure| figure.to_string()).join(" ")
}

/// The output of Python, or why it cannot run.
fn python(arguments: &[&str]) -> Result<String, String> {
    let python = std::env::var("FLASHLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output =
        Command::new(&python).args(arguments).output().map_err(|error| format!("{python}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

fn is_read_by_all(folder: &RunFolder, expected: &str) {
    let samples = folder.samples();
    for (import, script) in READERS {
        if let Err(reason) = python(&["-c", import]) {
            flashlab_skip::skip(
                flashlab_skip::Need::Python,
                format_args!("{import}: {}", reason.lines().last().unwrap_or_default()),
            );
            continue;
        }
        let script = format!("import sys\n{import}\n{script}");
        let figures = python(&["-c", &script, samples.to_str().expect("a temporary path is text")]);
        assert_eq!(figures.as_deref(), Ok(expected), "{import}");
        println!("read by: {}", import.lines().last().unwrap_or_default());
    }
}

#[test]
fn segments_are_read_by_duckdb_polars_and_pandas() {
    let directory = tempfile::tempdir().unwrap();
    let in_order = |sample: Sample| Sample { offset: Bytes::kib(4) * sample.position, ..sample };
    for (run, samples) in [
        // Files of either encoding of offsets.
        (6, random_reads(Bytes::gib(1), 20_000, Seed(5)).map(in_order).collect()),
        (7, mixed_ios(0, 50_000, Seed(6)).collect::<Vec<_>>()),
        (8, random_reads(Bytes::gib(1024), 1_100_000, Seed(7)).collect()),
    ] {
        let folder = folder(&directory.path().join(format!("run-{run}")));
        record(&folder, run, samples.iter().copied());
        is_read_by_all(&folder, &expected(u64::from(run), &samples));
    }
}
