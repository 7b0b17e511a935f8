//! What fio measured, as points that models are fitted to.
//!
//! Two of fio's formats are read, of its version 3: the JSON output of one or more jobs, and a latency log with offsets
//! (`--write_lat_log=NAME --log_offset=1`; lines of `time, latency, direction, size, offset, priority` in ms, ns and bytes).
//! Version 2 has microseconds under other names, and is refused.

use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ModelError;
use crate::run_points::{Quantiles, RunPoint, Workload};

/// In a log, a share of IOs that begin where the one before ended is sequential from here on, and random up to the other.
const SEQUENTIAL_SHARE: f64 = 0.9;
const RANDOM_SHARE: f64 = 0.1;

/// The points of fio's output; `name` is for the errors.
///
/// # Errors
/// When it is none, or of another version.
pub fn fio_points(text: &str, name: &str) -> Result<Vec<RunPoint>, ModelError> {
    // Where a job failed, fio writes messages before the document.
    let document =
        text.find('{').filter(|_| text.contains("\"fio version\"") || text.trim_start().starts_with('{'));
    let points = match document {
        Some(start) => json_points(&text[start..], name)?,
        None => log_points(text, name)?,
    };
    if points.is_empty() {
        return Err(ModelError::Input(format!(
            "{name}: no job of it does reads or writes of one size: give bs=, and rw= as read, randread, write, randwrite \
             or randrw"
        )));
    }
    Ok(points)
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(rename = "global options", default)]
    global: Map<String, Value>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: Map<String, Value>,
    read: Direction,
    write: Direction,
}

#[derive(Deserialize)]
struct Direction {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    iops: f64,
    clat_ns: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    mean: f64,
    #[serde(default)]
    percentile: Map<String, Value>,
}

fn json_points(text: &str, name: &str) -> Result<Vec<RunPoint>, ModelError> {
    let wrong = |message: String| ModelError::Input(format!("{name}: {message}"));
    let version: Value = serde_json::from_str(text).map_err(|error| {
        wrong(format!(
            "is no JSON output of fio ({error}): make it with fio --output-format=json --output=FILE"
        ))
    })?;
    let version = version["fio version"].as_str().unwrap_or("no version").to_owned();
    if !version.starts_with("fio-3.") {
        return Err(wrong(format!(
            "was written by {version}; flashlab reads the JSON of fio 3, whose latencies are in nanoseconds: run the job with it"
        )));
    }
    let output: Output = serde_json::from_str(text)
        .map_err(|error| wrong(format!("is not the JSON of {version} that flashlab reads: {error}")))?;
    debug_assert_eq!(output.version, version);
    let mut points = Vec::new();
    for (job, number) in output.jobs.iter().zip(1u32..) {
        if job.error != 0 {
            return Err(wrong(format!("job {} failed with error {}: repeat it", job.jobname, job.error)));
        }
        let option =
            |key: &str| job.options.get(key).or_else(|| output.global.get(key)).and_then(Value::as_str);
        points.extend(
            job_points(job, number, &option)
                .map_err(|message| wrong(format!("job {}: {message}", job.jobname)))?,
        );
    }
    Ok(points)
}

/// Engines that have one IO in flight, whatever iodepth says.
const SYNCHRONOUS: [&str; 7] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];

fn job_points<'a>(
    job: &Job,
    run: u32,
    option: &impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<RunPoint>, String> {
    if ["bsrange", "bssplit", "rate", "rate_iops", "thinktime"].iter().any(|key| option(key).is_some()) {
        return Ok(Vec::new());
    }
    let size = size(option("bs").or_else(|| option("blocksize")).unwrap_or("4k"))?;
    let (reads, writes) = match option("rw").or_else(|| option("readwrite")).unwrap_or("read") {
        "read" => (ThroughputClass::SequentialRead, ThroughputClass::SequentialWrite),
        "write" => (ThroughputClass::SequentialRead, ThroughputClass::SequentialWrite),
        "randread" | "randwrite" | "randrw" => (ThroughputClass::RandomRead, ThroughputClass::RandomWrite),
        _ => return Ok(Vec::new()),
    };
    let number = |key: &str, usual: u32| match option(key) {
        None => Ok(usual),
        Some(text) => text
            .parse::<u32>()
            .ok()
            .filter(|&n| n > 0)
            .ok_or_else(|| format!("{key}={text} is no number above 0")),
    };
    let engine = option("ioengine").unwrap_or("psync");
    let queue = if SYNCHRONOUS.contains(&engine) { 1 } else { number("iodepth", 1)? };
    let depth = queue.saturating_mul(number("numjobs", 1)?);
    let all = (job.read.total_ios + job.write.total_ios).max(1) as f64;
    let mut points = Vec::new();
    for (class, direction) in [(reads, &job.read), (writes, &job.write)] {
        let Some(latency) = &direction.clat_ns else { continue };
        if direction.total_ios == 0 || direction.iops <= 0.0 {
            continue;
        }
        let percentile = |key: &str| {
            latency.percentile.get(key).and_then(Value::as_f64).ok_or_else(|| {
                format!("its clat_ns has no percentile {key}: leave clat_percentiles and percentile_list as they are")
            })
        };
        let write_share = job.write.total_ios as f64 / all;
        points.push(RunPoint {
            run,
            workload: Workload {
                class,
                size,
                depth,
                write_share,
                target_offset: Bytes::ZERO,
                target_size: None,
                filled: None,
                distance: None,
            },
            ios: direction.total_ios as usize,
            ignored: 0,
            p50_ns: percentile("50.000000")?,
            p95_ns: percentile("95.000000")?,
            p99_ns: percentile("99.000000")?,
            mean_ns: latency.mean,
            ios_per_s: direction.iops,
            write_amplification: None,
            is_disturbed: false,
        });
    }
    Ok(points)
}

/// A size as fio has it: `4k`, `128kb`, `1m` with 1024, a bare number of bytes; a pair counts if both are the same.
fn size(text: &str) -> Result<Bytes, String> {
    let wrong = || format!("bs={text} is no single size");
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default().trim();
    if parts.any(|other| !other.is_empty() && other != first) {
        return Err(wrong());
    }
    let digits = first.chars().take_while(char::is_ascii_digit).count();
    let number: u64 = first[..digits].parse().map_err(|_| wrong())?;
    let factor = match first[digits..].to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).filter(|&size| size > 0).map(Bytes).ok_or_else(wrong)
}

/// A line of a latency log.
struct Logged {
    at_ms: u64,
    latency_ns: u64,
    writes: bool,
    size: u64,
    offset: u64,
}

fn log_points(text: &str, name: &str) -> Result<Vec<RunPoint>, ModelError> {
    let mut logged = Vec::new();
    for (line, number) in text.lines().zip(1usize..).filter(|(line, _)| !line.trim().is_empty()) {
        let wrong = |message: &str| ModelError::Input(format!("{name}:{number}: {message}"));
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [at, latency, direction, size, offset, _priority] = fields[..] else {
            return Err(wrong(&format!(
                "has {} fields in place of 6: flashlab reads latency logs of fio 3.20 and later with offsets; repeat the job with \
                 --write_lat_log=NAME --log_offset=1",
                fields.len()
            )));
        };
        let parse = |text: &str, what: &str| {
            text.parse::<u64>().map_err(|_| {
                wrong(&format!("expected {what}, found `{}`", text.chars().take(40).collect::<String>()))
            })
        };
        logged.push(Logged {
            at_ms: parse(at, "a time in milliseconds")?,
            latency_ns: parse(latency, "a latency in nanoseconds")?,
            writes: match direction {
                "0" => false,
                "1" => true,
                _ => continue,
            },
            size: parse(size, "a size in bytes")?,
            offset: parse(offset, "an offset in bytes")?,
        });
    }
    let mut kinds: Vec<(bool, u64)> = logged.iter().map(|io| (io.writes, io.size)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let points = kinds.into_iter().zip(1u32..).map(|((writes, size), run)| {
        let ios: Vec<&Logged> = logged.iter().filter(|io| (io.writes, io.size) == (writes, size)).collect();
        log_point(&ios, writes, size, run)
    });
    Ok(points.flatten().collect())
}

/// The point of the reads or the writes of one size; none where they are neither sequential nor random.
fn log_point(ios: &[&Logged], writes: bool, size: u64, run: u32) -> Option<RunPoint> {
    let follow = ios.windows(2).filter(|pair| pair[0].offset.saturating_add(pair[0].size) == pair[1].offset);
    let share = follow.count() as f64 / (ios.len().checked_sub(1).filter(|&pairs| pairs > 0)?) as f64;
    let class = match (writes, share >= SEQUENTIAL_SHARE, share <= RANDOM_SHARE) {
        (false, true, _) => ThroughputClass::SequentialRead,
        (true, true, _) => ThroughputClass::SequentialWrite,
        (false, _, true) => ThroughputClass::RandomRead,
        (true, _, true) => ThroughputClass::RandomWrite,
        _ => return None,
    };
    let mut times: Vec<u64> = ios.iter().map(|io| io.latency_ns).collect();
    let mean_ns = times.iter().map(|&ns| ns as f64).sum::<f64>() / times.len() as f64;
    let quantiles = Quantiles::of(&mut times)?;
    // The log has milliseconds: of short ones the mean response time is the better rate.
    let milliseconds = ios.last()?.at_ms.saturating_sub(ios[0].at_ms);
    let rate = if milliseconds < 100 { 1e9 / mean_ns } else { ios.len() as f64 * 1e3 / milliseconds as f64 };
    Some(RunPoint {
        run,
        workload: Workload {
            class,
            size: Bytes(size),
            depth: 1,
            write_share: if writes { 1.0 } else { 0.0 },
            target_offset: Bytes::ZERO,
            target_size: None,
            filled: None,
            distance: None,
        },
        ios: ios.len(),
        ignored: 0,
        p50_ns: quantiles.p50_ns,
        p95_ns: quantiles.p95_ns,
        p99_ns: quantiles.p99_ns,
        mean_ns,
        ios_per_s: rate,
        write_amplification: None,
        is_disturbed: false,
    })
    .filter(|point| point.p50_ns > 0.0 && point.workload.size > Bytes::ZERO)
}
