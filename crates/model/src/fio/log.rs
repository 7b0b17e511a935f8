//! A latency log of fio: a line for each request.
//!
//! # Model
//! 1. [`LogLine`] parses a line. Without offsets nobody can say in which order the requests were.
//! 2. fio writes bandwidths, IOPS, submission and completion times in the same format, and says which in the name of the file.
//! 3. By Little's law the sum of the latencies is the time that passed, if one request was in flight. That tells latencies from all
//!    other values and from a queue, whatever the name.
//! 4. The sizes of a log share its time. So the rate of a size is one over its mean latency.

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Operation};
use flashlab_sim::profile::ThroughputClass;
use flashlab_trace::{LogColumns, LogLine};

use super::job::{Figures, LITTLE_TOLERANCE};
use crate::ModelError;
use crate::run_points::{Quantiles, RunPoint};

/// A share of requests that begin where the one before ended is sequential from here on, and random up to the other.
const SEQUENTIAL_SHARE: f64 = 0.9;
const RANDOM_SHARE: f64 = 0.1;
/// Times are whole milliseconds: of this number the time that passed is known to a tenth.
const SHORTEST_MS: u64 = 20;

/// What fio's names say of a log; the latencies of whole requests are the only ones that are read.
const OTHER_LOGS: [(&str, &str); 5] = [
    ("_bw", "bandwidths"),
    ("_iops", "IOPS"),
    ("_slat", "submission latencies"),
    ("_clat_hist", "histograms"),
    ("_clat", "completion latencies, without the submission"),
];

/// A line.
struct Logged {
    at_ms: u64,
    latency_ns: u64,
    writes: bool,
    size: u64,
    offset: u64,
}

/// The points of a log; `name` is its path, which may say what the values are.
pub(super) fn log_points(text: &str, name: &str) -> Result<Vec<RunPoint>, ModelError> {
    let wrong = |message: String| ModelError::Input(format!("{name}: {message}"));
    if let Some((suffix, what)) = other_log(name) {
        return Err(wrong(format!(
            "is a log of {what} (`{suffix}`): give the log with the latencies, which fio writes beside it as `_lat` \
             (--write_lat_log=NAME --log_offset=1)"
        )));
    }
    let logged = lines(text, name)?;
    if logged.iter().all(|io| io.size == 0) && !logged.is_empty() {
        return Err(wrong(
            "has means over windows of time and not requests (log_avg_msec): repeat the job without log_avg_msec".to_owned(),
        ));
    }
    check_in_flight(&logged).map_err(wrong)?;
    let mut kinds: Vec<(bool, u64)> = logged.iter().map(|io| (io.writes, io.size)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let write_share = logged.iter().filter(|io| io.writes).count() as f64 / logged.len().max(1) as f64;
    let orders = [false, true].map(|writes| order(logged.iter().filter(|io| io.writes == writes)));
    let mut points = Vec::new();
    for ((writes, size), run) in kinds.into_iter().zip(1u32..) {
        let class = match (writes, orders[usize::from(writes)]) {
            (false, Order::Sequential) => ThroughputClass::SequentialRead,
            (true, Order::Sequential) => ThroughputClass::SequentialWrite,
            (false, Order::Random) => ThroughputClass::RandomRead,
            (true, Order::Random) => ThroughputClass::RandomWrite,
            (_, Order::Neither) => continue,
        };
        let times = logged.iter().filter(|io| (io.writes, io.size) == (writes, size)).map(|io| io.latency_ns);
        points.extend(log_point(times.collect(), class, Bytes(size), write_share, run));
    }
    if points.is_empty() {
        return Err(wrong(
            "its requests are neither in order nor at random offsets, so they are of no class: repeat the job with rw=read, \
             randread, write or randwrite"
                .to_owned(),
        ));
    }
    Ok(points)
}

/// What the name of a file says, if it is another log than one of latencies: `NAME_bw.1.log`.
fn other_log(name: &str) -> Option<(&'static str, &'static str)> {
    let file = name.rsplit('/').next()?;
    let stem = file.trim_end_matches(".gz").strip_suffix(".log")?;
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('.');
    OTHER_LOGS.into_iter().find(|(suffix, _)| stem.ends_with(suffix))
}

fn lines(text: &str, name: &str) -> Result<Vec<Logged>, ModelError> {
    let (mut found, mut trims) = (Vec::new(), 0_u64);
    for (line, number) in text.lines().zip(1usize..).filter(|(line, _)| !line.trim().is_empty()) {
        let wrong = |message: &str| ModelError::Input(format!("{name}:{number}: {message}"));
        let line = LogLine::parse(line).map_err(|message| wrong(&message))?;
        let fields = line.field_count();
        if fields < 6 {
            return Err(wrong(&format!(
                "has {fields} fields in place of 6 or 7: flashlab reads latency logs of fio 3.20 and later with offsets; repeat the job \
                 with --write_lat_log=NAME --log_offset=1"
            )));
        }
        if found.first().is_some_and(|first: &LogLine| first.field_count() != fields) {
            return Err(wrong(&format!("has {fields} fields, and the lines before have others")));
        }
        if line.operation == Operation::Discard {
            trims += 1;
            continue;
        }
        if found.last().is_some_and(|before: &LogLine| before.at_ms > line.at_ms.saturating_add(1)) {
            return Err(wrong(
                "has an earlier time than the line before: it is the log of several jobs; give one of each job",
            ));
        }
        found.push(line);
    }
    let wrong = |message: String| Err(ModelError::Input(format!("{name}: {message}")));
    if trims > 0 {
        return wrong(format!("has {trims} trims among its requests: repeat the job without them"));
    }
    let columns = LogColumns::of(&found);
    let has_windows = found.iter().all(|line| line.size == 0);
    if !columns.has_offset && !has_windows && !found.is_empty() {
        return wrong(NO_OFFSETS.to_owned());
    }
    let logged = |line: &LogLine| Logged {
        at_ms: line.at_ms,
        latency_ns: line.value,
        writes: line.operation == Operation::Write,
        size: line.size,
        offset: line.offset(columns).unwrap_or(0),
    };
    Ok(found.iter().map(logged).collect())
}

const NO_OFFSETS: &str = "has no offsets: its fifth field is a priority (a sixth is the time of issue); repeat the job with --log_offset=1";

/// Refuses values that are no latencies of one request after the other.
fn check_in_flight(logged: &[Logged]) -> Result<(), String> {
    let (Some(first), Some(last)) = (logged.first(), logged.last()) else {
        return Err("has no request in it".to_owned());
    };
    let milliseconds = last.at_ms.saturating_sub(first.at_ms);
    if milliseconds < SHORTEST_MS {
        return Err(format!(
            "its {} requests took {milliseconds} ms, and its times are whole milliseconds: give a log of at least {SHORTEST_MS} ms",
            logged.len()
        ));
    }
    let sum: f64 = logged.iter().map(|io| io.latency_ns as f64).sum();
    let in_flight = sum / (milliseconds as f64 * 1e6);
    match (in_flight - 1.0).abs() <= LITTLE_TOLERANCE {
        true => Ok(()),
        false => Err(format!(
            "IOPS times mean latency is {in_flight:.2} requests in flight, and a log does not say how many there were: it is one with a \
             queue, thinktime or a limited rate, or its values are no latencies in nanoseconds; fit the JSON of the job"
        )),
    }
}

#[derive(Clone, Copy)]
enum Order {
    Sequential,
    Random,
    Neither,
}

/// The order of requests, by the distance from the end of each to the begin of the next one.
fn order<'a>(ios: impl Iterator<Item = &'a Logged>) -> Order {
    let mut distances: BTreeMap<i128, usize> = BTreeMap::new();
    let mut end: Option<i128> = None;
    for io in ios {
        if let Some(end) = end {
            *distances.entry(i128::from(io.offset) - end).or_default() += 1;
        }
        end = Some(i128::from(io.offset) + i128::from(io.size));
    }
    let pairs: usize = distances.values().sum();
    let share = |count: usize| count as f64 / pairs.max(1) as f64;
    let follow = share(distances.get(&0).copied().unwrap_or_default());
    // Steps of one width are no random order either.
    let most_common = share(distances.values().copied().max().unwrap_or_default());
    match () {
        () if pairs == 0 => Order::Neither,
        () if follow >= SEQUENTIAL_SHARE => Order::Sequential,
        () if follow <= RANDOM_SHARE && (most_common <= RANDOM_SHARE || pairs < 10) => Order::Random,
        () => Order::Neither,
    }
}

fn log_point(
    mut times: Vec<u64>,
    class: ThroughputClass,
    size: Bytes,
    write_share: f64,
    run: u32,
) -> Option<RunPoint> {
    let ios = times.len();
    let mean_ns = times.iter().map(|&ns| ns as f64).sum::<f64>() / ios as f64;
    let Quantiles { p50_ns, p95_ns, p99_ns } = Quantiles::of(&mut times)?;
    let figures = Figures {
        class,
        ios: ios as u64,
        ios_per_s: 1e9 / mean_ns,
        mean_ns,
        percentiles_ns: [p50_ns, p95_ns, p99_ns],
    };
    (p50_ns > 0.0 && size > Bytes::ZERO).then(|| figures.point(run, size, 1, write_share))
}
