//! Files of other programs are looked at: each IO is where the file says, what was assumed is a note, and wrong files are refused in words.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flashlab_view::{ForeignFiles, ForeignFormat, LiveRecording, ViewedRecording};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::shared::{SMALL, ask, serve};

/// Files in a directory of their own, and a cache.
struct Given(TempDir);

impl Given {
    fn new() -> Given {
        Given(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Opens the files as one recording.
    fn open(&self, paths: &[PathBuf]) -> Result<Arc<ViewedRecording>, String> {
        let of = |path: &PathBuf| {
            ForeignFormat::of(path).map(|format| (path.clone(), format.expect("it is foreign")))
        };
        let given = paths.iter().map(of).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let files = ForeignFiles::grouped(&given);
        assert_eq!(files.len(), 1);
        let source =
            files[0].import(&[self.path("cache")], &|_, _, _| {}).map_err(|error| error.to_string())?;
        ViewedRecording::open(source, &|_, _, _| {}).map(Arc::new).map_err(|error| error.to_string())
    }

    fn refused(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.write(name, content);
        let message = self.open(&[path]).err().unwrap_or_else(|| panic!("{name} was shown"));
        message.replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// The IOs of a recording, each as its columns.
fn rows(recording: impl Into<LiveRecording>) -> Vec<Value> {
    let server = serve(vec![recording]);
    let (status, body) = ask(&server, "api/ios?count=10000");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice::<Value>(&body).unwrap()["rows"].as_array().unwrap().clone()
}

fn real(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/foreign");
    let path = folder.join(name);
    if !path.exists() {
        flashlab_skip::skip(flashlab_skip::Need::Reference, format_args!("{} is not there", path.display()));
        return None;
    }
    Some(path)
}

#[test]
fn an_io_of_a_log_began_at_its_end_minus_its_latency() {
    let given = Given::new();
    let log = given
        .write("a_lat.1.log", "1, 400000, 0, 4096, 8192, 0\n3, 500000, 1, 512, 0, 0\n3, 1, 2, 512, 0, 0\n");
    let recording = given.open(&[log]).unwrap();
    assert_eq!(
        rows(Arc::clone(&recording)),
        [
            serde_json::json!([0, 0, 0, "read", 0, 8192, 4096, 0, 400_000, 0]),
            serde_json::json!([0, 0, 1, "write", 1_900_000, 0, 512, 0, 500_000, 0]),
        ]
    );
    let notes = recording.source.notes.join("\n");
    assert!(notes.contains("minus its latency") && notes.contains("1 trims are left out"), "{notes}");
    // The issue time, since the job began, and a priority in hexadecimal.
    let log =
        given.write("b_clat.1.log", "1, 400000, 0, 4096, 8192, 0x2001, 7\n1, 9, 0, 512, 0, 0x2001, 900\n");
    let recording = given.open(&[log]).unwrap();
    let begins: Vec<Value> = rows(Arc::clone(&recording)).iter().map(|row| row[4].clone()).collect();
    assert_eq!(begins, [0, 893]);
    let notes = recording.source.notes.join("\n");
    assert!(notes.contains("issue time") && notes.contains("completion latencies"), "{notes}");
}

#[test]
fn logs_with_fewer_columns_have_no_offsets_and_say_so() {
    let given = Given::new();
    for (name, lines) in [
        ("four_lat.log", "1, 5, 0, 4096\n2, 5, 0, 4096\n"),
        ("five_lat.log", "1, 5, 0, 4096, 0\n2, 5, 0, 4096, 1\n"),
        ("six_lat.log", "1, 5, 0, 4096, 0x0, 11\n2, 5, 0, 4096, 0x0, 12\n"),
    ] {
        let recording = given.open(&[given.write(name, lines)]).unwrap();
        assert!(recording.source.notes.join("\n").contains("no offsets"), "{name}");
        assert_eq!(rows(recording)[1][5], 0, "{name}");
    }
    // Before 3.20 a log with offsets had five columns.
    let log = given.write("old_lat.log", "1, 5, 0, 4096, 0\n2, 5, 0, 4096, 8192\n");
    assert_eq!(rows(given.open(&[log]).unwrap())[1][5], 8192);
}

#[test]
fn the_logs_of_several_jobs_are_the_processes_of_one_recording() {
    let given = Given::new();
    let first = given.write("a_lat.1.log", "1, 5, 0, 4096, 0, 0\n3, 5, 0, 4096, 4096, 0\n");
    let second = given.write("a_lat.2.log", "2, 5, 1, 4096, 8192, 0\n");
    let recording = given.open(&[first, second]).unwrap();
    assert_eq!(recording.overview.process_count, 2);
    let processes: Vec<Value> = rows(recording).iter().map(|row| row[1].clone()).collect();
    assert_eq!(processes, [0, 1, 0]);
}

#[test]
fn logs_that_are_real_are_shown_or_refused_by_what_they_are() {
    let given = Given::new();
    for (name, ios) in
        [("sizes_lat.1.log.gz", true), ("issue-time_lat.1.log.gz", true), ("job_slat.1.log.gz", true)]
    {
        let Some(path) = real(name) else { return };
        assert_eq!(given.open(&[path]).unwrap().overview.ios() > 1000, ios, "{name}");
    }
    for (name, words) in [
        ("windowed_lat.1.log.gz", "log_avg_msec"),
        ("job_bw.1.log.gz", "is a log of bandwidths"),
        ("job_iops.1.log.gz", "is a log of IOPS"),
        ("two-jobs.iolog", "has no response times"),
        ("right.json", "holds JSON output of fio"),
    ] {
        let Some(path) = real(name) else { return };
        let message = given.open(&[path]).err().unwrap();
        assert!(message.contains(words), "{name}: {message}");
    }
    let Some(path) = real("from-file.blkparse.txt") else { return };
    let recording = given.open(&[path]).unwrap();
    assert_eq!(
        recording.overview.ios(),
        u64::from(!recording.source.notes.join("").contains("no read or write"))
    );
}

#[test]
fn an_io_of_blkparse_takes_from_its_queueing_to_its_completion() {
    let given = Given::new();
    let trace = given.write(
        "sda.txt",
        "Input file sda.blktrace.0 added\n\
         8,0 0 1 0.000000000 697 Q WS 1000 + 8 [fio]\n\
         8,0 0 2 0.000001000 697 Q WS 1008 + 8 [fio]\n\
         8,0 0 3 0.000001500 697 M WS 1008 + 8 [fio]\n\
         8,0 0 4 0.000003000 697 D WS 1000 + 16 [fio]\n\
         8,0 0 5 0.000004000 697 Q R 0 + 64 [fio]\n\
         8,0 0 6 0.000005000 697 D R 0 + 32 [fio]\n\
         8,0 0 7 0.000006000 697 D R 32 + 32 [fio]\n\
         8,0 0 8 0.000050000 0 C R 0 + 32 [0]\n\
         8,0 0 9 0.000090000 0 C WS 1000 + 16 [0]\n\
         8,0 0 10 0.000100000 0 C R 32 + 32 [-5]\n\
         8,16 0 11 0.000100000 1 D R 8 + 8 [a]\n\
         8,0 0 12 0.000101000 1 Q FWS [a]\n\
         8,16 0 13 0.000110000 0 C R 8 + 8 [0]\n\
         8,0 0 14 0.000120000 1 Q R 8 + 8 [a]\n\
         CPU0 (8,0):\n",
    );
    let recording = given.open(&[trace]).unwrap();
    assert_eq!(
        rows(Arc::clone(&recording)),
        [
            // Run, process, position, mode, time, offset, size, delay of the submission, response time, error.
            serde_json::json!([0, 0, 0, "write", 0, 512_000, 4096, 3000, 90_000, 0]),
            serde_json::json!([0, 0, 1, "write", 1000, 516_096, 4096, 2000, 89_000, 0]),
            serde_json::json!([0, 0, 2, "read", 4000, 0, 32_768, 1000, 96_000, 5]),
            serde_json::json!([1, 0, 3, "read", 100_000, 4096, 4096, 0, 10_000, 0]),
        ]
    );
    let notes = recording.source.notes.join("\n");
    assert!(notes.contains("1 IOs whose completion is not in the trace"), "{notes}");
    assert_eq!(recording.source.runs[1].name, "device 8,16");
}

#[test]
fn a_file_is_converted_once_and_anew_when_it_or_the_copy_changes() {
    let given = Given::new();
    let log = given.write("a_lat.1.log", "1, 5, 0, 4096, 0, 0\n3, 5, 0, 4096, 4096, 0\n");
    let segment = given.path("cache/imported-00000.parquet");
    given.open(std::slice::from_ref(&log)).unwrap();
    let made = fs::metadata(&segment).unwrap().modified().unwrap();
    let is_as_made = || fs::metadata(&segment).unwrap().modified().unwrap() == made;
    assert_eq!(given.open(std::slice::from_ref(&log)).unwrap().overview.ios(), 2);
    assert!(is_as_made());
    let whole = fs::read(&segment).unwrap();
    let mut damaged = whole.clone();
    damaged[40] ^= 1;
    fs::write(&segment, &damaged).unwrap();
    assert_eq!(given.open(std::slice::from_ref(&log)).unwrap().overview.ios(), 2);
    assert!(fs::read(&segment).unwrap() == whole, "a damaged copy was believed");
    let document = given.path("cache/imported.json");
    let text = fs::read_to_string(&document).unwrap();
    fs::write(&document, text.replace("\"fio\"", "\"fib\"")).unwrap();
    assert_eq!(given.open(std::slice::from_ref(&log)).unwrap().source.verb, "fio");
    given.write("a_lat.1.log", "1, 5, 0, 4096, 0, 0\n");
    assert_eq!(given.open(&[log]).unwrap().overview.ios(), 1);
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let given = Given::new();
    given.write("cache", "a file");
    let log = given.write("a_lat.1.log", "1, 5, 0, 4096, 0, 0\n");
    let files = ForeignFiles { name: "a".to_owned(), paths: vec![log], format: ForeignFormat::FioLogs };
    let below = given.path("cache/imported");
    let error = files.import(std::slice::from_ref(&below), &|_, _, _| {}).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot write {}", below.display())), "{error}");
    let usable = given.path("other");
    assert_eq!(
        files.import(&[below, usable.clone()], &|_, _, _| {}).unwrap().segments[0].parent(),
        Some(&*usable)
    );
}

#[test]
fn what_holds_no_ios_is_refused_with_what_it_is() {
    let given = Given::new();
    for (name, content, words) in [
        ("empty", "", "empty: holds nothing, and no IOs to look at"),
        ("text.txt", "some words\n", "text.txt: holds text"),
        ("page.html", "<!DOCTYPE html><p>x", "page.html: holds "),
        ("torn.parquet", "PAR1 and no more", "torn.parquet: no samples"),
        ("a_lat.1.log", "1, 5, 0, 4096, 0, 0\n2, 5, 0\n", "a_lat.1.log:2: expected a size in bytes"),
        ("b_lat.1.log", "1, 5, 0, 4096, 0, 0\n2, 5, 0, 4096\n", "b_lat.1.log:2: has 4 fields"),
        (
            "c_lat.1.log",
            "1, 5, 0, 4096, 0, 0\n2, 5, 7, 4096, 0, 0\n",
            "expected a direction (0, 1 or 2), found `7`",
        ),
        ("d_lat.1.log", "1, 5, 0, 0, 0, 0\n", "log_avg_msec"),
        (
            "e_lat.1.log",
            "18446744073709551615, 5, 0, 4096, 0, 0\n",
            "line 1: a time or latency is beyond what a job of fio can take",
        ),
        ("f_lat.1.log", "1, 18446744073709551615, 0, 4096, 0, 0\n", "line 1: a time or latency is beyond"),
        (
            "g_lat.1.log",
            "1, 5, 0, 18446744073709551615, 4096, 0\n",
            "line 1: has a range that no IO can have",
        ),
        ("iolog", "fio version 2 iolog\na add\na open\na write 0 512\n", "has no response times"),
    ] {
        let message = given.refused(name, content);
        assert!(message.contains(words), "{name}: {message}");
    }
    // A last line that was torn when the program was killed is no number of fields of the others.
    let line = "1, 5, 0, 4096, 0, 0\n".repeat(5000);
    let message = given.refused("torn_lat.1.log", format!("{line}2, 5"));
    assert!(message.contains("torn_lat.1.log:5001: expected a direction"), "{message}");
    let long = format!("1, 5, 0, 4096, 0, 0\n{}", "7".repeat(100_000));
    assert!(given.refused("long_lat.1.log", long).contains("longer than 64 KiB"));
}

/// Writes the IOs of a file that the page exported in the ways of other programs. Each line: what is imported, and the code.
const WRITERS: [(&str, &str); 6] = [
    (
        "import pandas as pd, pyarrow",
        "d = pd.read_parquet(source)
d['intended_ns'] = d.pop('time_ns') + 10**15
d['mode'] = d['mode'].astype('category')
d['errno'] = d['errno'].astype('int8')
d = d[sorted(d.columns)]
d.to_parquet(target)",
    ),
    (
        "import polars as pl",
        "d = pl.read_parquet(source).with_columns(pl.col('offset_bytes').cast(pl.UInt64), pl.col('process').cast(pl.UInt8))
d.select(reversed(d.columns)).write_parquet(target, compression='lz4', row_group_size=777)",
    ),
    (
        "import pyarrow as pa, pyarrow.parquet as q, pyarrow.compute as pc",
        "d = q.read_table(source)
d = d.set_column(4, 'intended_ns', d['time_ns'].cast(pa.timestamp('ns')))
d = d.set_column(8, 'response_ns', d['response_ns'].cast(pa.float64())).append_column('notes', pa.array([['x']] * len(d)))
q.write_table(d, target, compression='gzip', version='2.6', data_page_version='2.0', use_byte_stream_split=['response_ns'], use_dictionary=False)",
    ),
    (
        "import duckdb",
        "duckdb.sql(f\"COPY (SELECT response_ns, size_bytes::UINTEGER AS size_bytes, * EXCLUDE (response_ns, size_bytes) REPLACE (mode[1] AS mode) FROM '{source}') TO '{target}' (FORMAT parquet, COMPRESSION snappy)\")",
    ),
    (
        "import fastparquet, pandas",
        "d = fastparquet.ParquetFile(source).to_pandas()
fastparquet.write(target, d, compression='BROTLI' if 'BROTLI' in fastparquet.compression.compressions else 'GZIP')",
    ),
    (
        "import pyarrow as pa, pyarrow.parquet as q",
        "q.write_table(q.read_table(source), target, compression='zstd', column_encoding={'offset_bytes': 'BYTE_STREAM_SPLIT', 'time_ns': 'DELTA_BINARY_PACKED'}, use_dictionary=False)",
    ),
];

/// Runs Python with `source` and `target`; `false` if it lacks what is imported.
fn python(import: &str, script: &str, source: &Path, target: &Path) -> bool {
    let python = std::env::var("FLASHLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !Command::new(&python).args(["-c", import]).output().is_ok_and(|output| output.status.success()) {
        flashlab_skip::skip(flashlab_skip::Need::Python, format_args!("{python}: {import}"));
        return false;
    }
    let script = format!("import sys\n{import}\nsource, target = sys.argv[1:]\n{script}");
    let output = Command::new(&python).args(["-c", &script]).arg(source).arg(target).output().unwrap();
    assert!(output.status.success(), "{import}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

/// The IOs of the small recording as Parquet.
fn exported(given: &Given) -> PathBuf {
    let server = serve(vec![Arc::clone(&SMALL.recording)]);
    given.write("exported.parquet", ask(&server, "api/export?format=parquet").1)
}

/// Panels without their points, which are in the order of the file.
fn without_points(mut answer: Vec<u8>) -> Vec<u8> {
    let length = u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize;
    if let Some(Ok(header)) = answer.get(4..4 + length).map(serde_json::from_slice::<Value>)
        && let Some(points) = header["arrays"]["point_time"]["start"].as_u64()
    {
        answer.truncate((4 + length).next_multiple_of(8) + points as usize);
    }
    answer
}

#[test]
fn parquet_of_other_programs_is_shown_as_the_run_that_it_is_of() {
    let given = Given::new();
    let source = exported(&given);
    let own = serve(vec![Arc::clone(&SMALL.recording)]);
    let mut files = vec![("the page".to_owned(), source.clone())];
    for ((import, script), number) in WRITERS.iter().zip(0..) {
        let target = given.path(&format!("{number}.parquet"));
        if python(import, script, &source, &target) {
            files.push(((*import).to_owned(), target));
        }
    }
    for (writer, file) in files {
        let recording = given.open(&[file]).unwrap();
        assert_eq!(recording.source.notes, Vec::<String>::new(), "{writer}");
        let server = serve(vec![recording]);
        for view in
            ["api/panels?width=500", "api/panels?width=500&run=2&errors=none", "api/export?format=csv"]
        {
            let (expected, found) = (ask(&own, view), ask(&server, view));
            assert_eq!(found.0, 200, "{writer}");
            let [found, expected] = [found.1, expected.1].map(without_points);
            assert!(found == expected, "{writer}: {view} is another one than that of the run");
        }
    }
}

#[test]
fn columns_that_are_not_there_are_noted_or_refused_by_name() {
    let given = Given::new();
    let source = exported(&given);
    const PYARROW: &str = "import pyarrow as pa, pyarrow.parquet as q";
    let target = given.path("some.parquet");
    let write = |script: &str| python(PYARROW, script, &source, &target);
    if !write(
        "q.write_table(q.read_table(source, columns=['response_ns', 'time_ns', 'offset_bytes']), target)",
    ) {
        return;
    }
    let recording = given.open(std::slice::from_ref(&target)).unwrap();
    assert_eq!(recording.overview.ios(), 20_000);
    let notes = recording.source.notes.join("\n");
    for words in [
        "no column mode: each IO is shown as a read",
        "no column size_bytes: 0",
        "no column position: the number",
    ] {
        assert!(notes.contains(words), "{notes}");
    }
    for (script, words) in [
        (
            "q.write_table(q.read_table(source, columns=['offset_bytes']), target)",
            "has no column intended_ns and no column response_ns",
        ),
        (
            "q.write_table(pa.table({'time_ns': [1], 'response_ns': ['x']}), target)",
            "its column response_ns has text",
        ),
        (
            "q.write_table(pa.table({'time_ns': [1], 'response_ns': [[1]]}), target)",
            "has lists or structures",
        ),
        ("q.write_table(pa.table({'time_ns': [1], 'response_ns': [1.5]}), target)", "1.5 is no whole number"),
        (
            "q.write_table(pa.table({'time_ns': [1], 'response_ns': [1], 'mode': ['trim']}), target)",
            "the mode `trim` is neither",
        ),
        (
            "q.write_table(pa.table({'time_ns': [1], 'response_ns': [1], 'mode': [True]}), target)",
            "its column mode is no text",
        ),
        (
            "q.write_table(pa.table({'time_ns': [1], 'response_ns': [1], 'offset_bytes': [-1]}), target)",
            "row 1: offset_bytes is -1",
        ),
        (
            "q.write_table(pa.table({'time_ns': [1], 'response_ns': [1], 'run': [2**40]}), target)",
            "row 1: run is 1099511627776",
        ),
        (
            "q.write_table(pa.table({'time_ns': [1], 'response_ns': [2**62]}), target)",
            "row 1: a time is 4611686018427387904 ns",
        ),
        (
            "q.write_table(pa.table({'time_ns': [True], 'response_ns': [1]}), target)",
            "its column time_ns has true and false",
        ),
    ] {
        assert!(write(script));
        let message =
            given.open(std::slice::from_ref(&target)).err().unwrap_or_else(|| panic!("{script}: was shown"));
        assert!(message.contains(words), "{script}: {message}");
    }
    // Rows that are no IO, no row at all, and the largest times of either sign.
    assert!(write(
        "q.write_table(pa.table({'time_ns': [1, None, 2], 'response_ns': [1.0, 2.0, None]}), target)"
    ));
    let recording = given.open(std::slice::from_ref(&target)).unwrap();
    assert_eq!(recording.overview.ios(), 1);
    assert!(
        recording.source.notes.contains(&"2 rows without a begin or a response time are left out".to_owned())
    );
    assert!(write(
        "q.write_table(pa.table({'time_ns': pa.array([], 'int64'), 'response_ns': pa.array([], 'int64')}), target)"
    ));
    assert_eq!(given.open(std::slice::from_ref(&target)).unwrap().overview.ios(), 0);
    assert!(write(
        "q.write_table(pa.table({'time_ns': [-2**61, 2**61, 0, 5], 'response_ns': [2**61, -2**61, -1, 0], 'errno': [5, 5, 5, 5]}), target)"
    ));
    let recording = given.open(std::slice::from_ref(&target)).unwrap();
    assert_eq!((recording.overview.ios(), recording.overview.backward), (4, 2));
    let server = serve(vec![recording]);
    for path in
        ["api/recordings", "api/panels", "api/ios?sort=response_ns&descending=1", "api/export?format=arrow"]
    {
        assert_eq!(ask(&server, path).0, 200, "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn damaged_parquet_of_others_is_shown_or_refused(at in 0..1000_usize, bit in 0..8_u32, cut in 500..3000_usize) {
        static WHOLE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
            let server = serve(vec![Arc::clone(&SMALL.recording)]);
            ask(&server, "api/export?format=parquet&run=3&response_ns=0,70000").1
        });
        let given = Given::new();
        let mut bytes = WHOLE.clone();
        let at = at * bytes.len() / 1000;
        bytes[at] ^= 1 << bit;
        bytes.truncate(cut * bytes.len() / 1000);
        let file = given.write("damaged.parquet", &bytes);
        if ForeignFormat::of(&file).is_ok_and(|format| format.is_some()) {
            let _ = given.open(&[file]);
        }
    }

    #[test]
    fn no_text_makes_a_panic(text in "([0-9]{1,3}, ?){3,6}[0-9]\n(8,0 0 [1-9] 0\\.[0-9]{9} 1 [QDC] [RWF]S [0-9]{1,4} \\+ [0-9]{1,2} \\[0\\]\n|[0-9, x]{0,30}\n){0,12}") {
        let given = Given::new();
        let file = given.write("a.log", &text);
        if ForeignFormat::of(&file).is_ok_and(|format| format.is_some()) {
            let _ = given.open(&[file]);
        }
        let file = given.write("b.txt", text.split_once('\n').unwrap().1);
        if ForeignFormat::of(&file).is_ok_and(|format| format.is_some()) {
            let _ = given.open(&[file]);
        }
    }
}
