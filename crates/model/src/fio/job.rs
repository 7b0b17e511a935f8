//! One entry of fio's JSON: which requests it made, and what fio measured of them.

use std::path::Path;

use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;
use serde_json::{Map, Value};

use super::document::{Direction, Job, Latency};
use super::options::{Options, size};
use crate::run_points::{self, RunPoint};

/// Engines that have one IO in flight, whatever iodepth says.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "splice"];
/// Engines that keep iodepth IOs in flight.
const ASYNCHRONOUS: [&str; 7] =
    ["libaio", "io_uring", "io_uring_cmd", "posixaio", "sg", "windowsaio", "solarisaio"];

/// `io_bytes / total_ios` and the size of the options may differ by this share: an IO that was still in flight when the job ended
/// is counted by one of the two only.
const SIZE_TOLERANCE: f64 = 0.01;
/// By how much the number of requests in flight may differ from the one that is stated. Between two requests of a job without a queue
/// passes the time that fio itself takes; 1 to 2 us, a tenth of the fastest disk's response.
pub(super) const LITTLE_TOLERANCE: f64 = 0.2;
/// fio's histogram ends at this value: whatever took longer is in its last bin (stat.h: 29 groups of 64 bins).
const LAST_BIN_NS: f64 = 17_112_760_320.0;

/// The requests of one entry, all of one size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub classes: [ThroughputClass; 2],
    pub size: Bytes,
    pub engine: String,
    pub is_direct: bool,
    pub mix: Option<String>,
    /// The device, or the directory of the files.
    pub place: String,
}

/// What fio measured of the reads or the writes.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub class: ThroughputClass,
    pub ios: u64,
    pub ios_per_s: f64,
    pub mean_ns: f64,
    pub percentiles_ns: [f64; 3],
}

impl Figures {
    /// The point of requests of this size and depth, of which `write_share` are writes.
    pub(super) fn point(self, run: u32, size: Bytes, depth: u32, write_share: f64) -> RunPoint {
        let Figures { class, ios, ios_per_s, mean_ns, percentiles_ns: [p50_ns, p95_ns, p99_ns] } = self;
        RunPoint {
            run,
            workload: run_points::Workload {
                class,
                size,
                depth,
                write_share,
                target_offset: Bytes::ZERO,
                target_size: None,
                filled: None,
                distance: None,
            },
            regime: None,
            ios: ios as usize,
            ignored: 0,
            p50_ns,
            p95_ns,
            p99_ns,
            mean_ns,
            ios_per_s,
            write_amplification: None,
            is_disturbed: false,
        }
    }
}

/// An entry that says what it measured.
#[derive(Debug)]
pub(super) struct Entry {
    pub workload: Workload,
    /// What one process keeps in flight.
    pub queue: u32,
    /// How many processes there are by the options.
    pub processes: u32,
    pub figures: Vec<Figures>,
    pub notes: Vec<String>,
}

impl Entry {
    /// Reads an entry.
    ///
    /// # Errors
    /// The reason why it is no measurement of requests of one kind.
    pub(super) fn of(job: &Job, global: &Map<String, Value>) -> Result<Entry, String> {
        if job.error != 0 {
            return Err(format!("it failed with error {}: repeat it", job.error));
        }
        let options = Options::of(global, &job.options);
        if let Some(reason) = options.refusal() {
            return Err(reason);
        }
        check_files(&options)?;
        let (classes, directions) = directions(job, &options)?;
        let engine = options.get("ioengine").unwrap_or("psync").to_owned();
        let queue = match engine.as_str() {
            engine if SYNCHRONOUS.contains(&engine) => 1,
            engine if ASYNCHRONOUS.contains(&engine) => options.number("iodepth", 1)?,
            _ => {
                return Err(format!(
                    "ioengine={engine} does not send requests to a disk as they are: repeat the job with psync, libaio or io_uring"
                ));
            }
        };
        let size = one_size(&directions, &options)?;
        let mut figures = Vec::new();
        for (class, direction) in
            classes.into_iter().zip(directions).filter(|(_, direction)| direction.total_ios > 0)
        {
            figures.push(figures_of(class, &direction)?);
        }
        if figures.is_empty() {
            return Err("it has no read and no write".to_owned());
        }
        let is_direct = options.is_on("direct") || options.get("buffered") == Some("0");
        let mut notes = Vec::new();
        if !is_direct {
            notes.push("it went through the page cache (no direct=1): its times may be of memory and not of the disk".to_owned());
        }
        let mix = options.get("rwmixread").or_else(|| options.get("rwmixwrite")).map(str::to_owned);
        let processes = options.number("numjobs", 1)?;
        Ok(Entry {
            workload: Workload { classes, size, engine, is_direct, mix, place: place(&options) },
            queue,
            processes,
            figures,
            notes,
        })
    }

    /// IOPS times mean latency: how many requests were in flight on average (Little's law).
    pub(super) fn in_flight(&self) -> f64 {
        self.figures.iter().map(|figures| figures.ios_per_s * figures.mean_ns / 1e9).sum()
    }
}

/// The device, or the directory of the files: two of them may be two disks.
fn place(options: &Options) -> String {
    let directory = options.get("directory").unwrap_or_default();
    match options.get("filename") {
        Some(name) if Path::new(name).starts_with("/dev") => name.to_owned(),
        Some(name) => Path::new(directory)
            .join(name)
            .parent()
            .map(|parent| parent.display().to_string())
            .unwrap_or_default(),
        None => directory.trim_end_matches('/').to_owned(),
    }
}

/// Refuses several files or devices: the requests of a stream would alternate between them.
fn check_files(options: &Options) -> Result<(), String> {
    if let Some(name) = options.get("filename") {
        let is_list = name.match_indices(':').any(|(at, _)| !name[..at].ends_with('\\'));
        if is_list {
            return Err(format!("filename={name} names several files: repeat the job with one of them"));
        }
    }
    match options.get("nrfiles") {
        Some(count) if count != "1" => Err(format!("nrfiles={count}: its requests alternate between files")),
        _ => Ok(()),
    }
}

/// The classes of the reads and the writes, and what was measured of each.
fn directions(job: &Job, options: &Options) -> Result<([ThroughputClass; 2], [Direction; 2]), String> {
    use ThroughputClass::{RandomRead, RandomWrite, SequentialRead, SequentialWrite};
    let rw = options.get("rw").unwrap_or("read").to_owned();
    let (classes, reads, writes) = match rw.as_str() {
        "read" => ([SequentialRead, SequentialWrite], true, false),
        "write" => ([SequentialRead, SequentialWrite], false, true),
        "randread" => ([RandomRead, RandomWrite], true, false),
        "randwrite" => ([RandomRead, RandomWrite], false, true),
        "randrw" => ([RandomRead, RandomWrite], true, true),
        _ => {
            return Err(format!(
                "rw={rw} is none of read, write, randread, randwrite and randrw, and no other has one order of one kind"
            ));
        }
    };
    if classes[0] == RandomRead
        && options.get("percentage_random").is_some_and(|percent| percent.starts_with('0'))
    {
        return Err("percentage_random=0: its IOs are sequential".to_owned());
    }
    let none = || Direction {
        io_bytes: Some(0.0),
        total_ios: 0,
        iops: Some(0.0),
        runtime: 0.0,
        slat_ns: None,
        clat_ns: None,
        lat_ns: None,
    };
    let (read, write) = match (&job.read, &job.write, &job.mixed) {
        (None, None, Some(mixed)) if reads != writes => match reads {
            true => (mixed.clone(), none()),
            false => (none(), mixed.clone()),
        },
        (None, None, Some(_)) => {
            return Err(
                "unified_rw_reporting makes one figure of its reads and writes: repeat the job without it"
                    .to_owned(),
            );
        }
        (read, write, _) => (read.clone().unwrap_or_else(none), write.clone().unwrap_or_else(none)),
    };
    let trims = job.trim.as_ref().map_or(0, |trim| trim.total_ios);
    for (kind, count, is_expected) in
        [("reads", read.total_ios, reads), ("writes", write.total_ios, writes), ("trims", trims, false)]
    {
        if count > 0 && !is_expected {
            return Err(format!(
                "its options say rw={rw}, and it has {count} {kind}: with group_reporting fio adds different jobs up; repeat it \
                 without group_reporting, and with stonewall"
            ));
        }
    }
    Ok((classes, [read, write]))
}

/// The size that all requests had: bytes over requests, of the options if they agree with it.
fn one_size(directions: &[Direction; 2], options: &Options) -> Result<Bytes, String> {
    let stated = options.get("bs").map(|text| size(text, options.get("kb_base"))).transpose()?;
    let mut found: Option<u64> = None;
    for direction in directions.iter().filter(|direction| direction.total_ios > 0) {
        let Some(bytes) = direction.io_bytes else {
            return Err(
                "it has no io_bytes, so the size of its requests cannot be checked: repeat it with fio 3"
                    .to_owned(),
            );
        };
        let mean = bytes / direction.total_ios as f64;
        // Without the option, sizes are multiples of a sector.
        let nearest = stated.unwrap_or_else(|| ((mean / 512.0).round() as u64).max(1) * 512);
        let is_equal = (mean / nearest as f64 - 1.0).abs() <= SIZE_TOLERANCE;
        match (stated, found) {
            (Some(_), _) if !is_equal => {
                return Err(format!(
                    "its options say bs={}, and io_bytes / total_ios is {mean:.0} bytes: it has requests of several sizes, or of other \
                     jobs (group_reporting)",
                    options.get("bs").unwrap_or_default()
                ));
            }
            (None, _) if !is_equal => {
                return Err(format!(
                    "io_bytes / total_ios is {mean:.0} bytes, which is no size of a request: it has several sizes"
                ));
            }
            (_, Some(other)) if other != nearest => {
                return Err(format!(
                    "its reads have {other} bytes and its writes {nearest}: repeat it with one size"
                ));
            }
            _ => found = Some(nearest),
        }
    }
    found.map(Bytes).ok_or_else(|| "it has no read and no write".to_owned())
}

fn figures_of(class: ThroughputClass, direction: &Direction) -> Result<Figures, String> {
    const NO_TIMES: &str =
        "it has no latencies (gtod_reduce, disable_lat or disable_clat): repeat it without these options";
    let mean = |latency: &Option<Latency>| {
        latency.as_ref().and_then(|latency| latency.mean).filter(|&mean| mean > 0.0)
    };
    let slat = mean(&direction.slat_ns).unwrap_or(0.0);
    let clat = mean(&direction.clat_ns).ok_or(NO_TIMES)?;
    let mean_ns = mean(&direction.lat_ns).unwrap_or(slat + clat);
    let ios_per_s = match direction.iops {
        Some(iops) if iops > 0.0 => iops,
        _ if direction.runtime > 0.0 => direction.total_ios as f64 * 1e3 / direction.runtime,
        _ => return Err("it has no iops and no runtime".to_owned()),
    };
    let latency = |latency: &Option<Latency>| latency.as_ref().map_or(Ok(None), percentiles);
    // A clock that was switched off is missing in the sum, and in the percentiles of the completion.
    if slat + clat < mean_ns * (1.0 - LITTLE_TOLERANCE) && latency(&direction.lat_ns)?.is_none() {
        return Err(format!(
            "its mean latency is {:.1} us, and submission and completion take {:.1} us together: repeat it without disable_slat and \
             disable_clat, or with lat_percentiles=1",
            mean_ns / 1e3,
            (slat + clat) / 1e3
        ));
    }
    let percentiles_ns = match (latency(&direction.lat_ns)?, latency(&direction.clat_ns)?) {
        (Some(whole), _) => whole,
        (None, _) if slat > clat => {
            return Err(format!(
                "its submission took {:.1} us and its completion {:.1} us, and fio has percentiles of the latter only: with a \
                 queue in memory, submission waits for the disk; repeat it with direct=1, or with lat_percentiles=1",
                slat / 1e3,
                clat / 1e3
            ));
        }
        // The submission of a request hardly varies, so its mean is added.
        (None, Some(completion)) => completion.map(|ns| ns + slat),
        (None, None) => {
            return Err(
                "it has no percentiles: leave clat_percentiles and percentile_list as they are".to_owned()
            );
        }
    };
    if let Some(slowest) = percentiles_ns.iter().find(|&&ns| ns >= LAST_BIN_NS) {
        return Err(format!(
            "a percentile is {:.1} s, the last bin of fio's histogram, in which all longer times are: run it with a queue that the \
             device serves",
            slowest / 1e9
        ));
    }
    Ok(Figures { class, ios: direction.total_ios, ios_per_s, mean_ns, percentiles_ns })
}

/// The 50th, 95th and 99th percentile: of the list, or of the bins of `json+`; `None` where there are neither.
fn percentiles(latency: &Latency) -> Result<Option<[f64; 3]>, String> {
    const WANTED: [(&str, f64); 3] = [("50.000000", 0.5), ("95.000000", 0.95), ("99.000000", 0.99)];
    let listed = WANTED.map(|(key, _)| latency.percentile.get(key).and_then(Value::as_f64));
    let found = match listed {
        [Some(p50), Some(p95), Some(p99)] => Some([p50, p95, p99]),
        _ => of_bins(&latency.bins, WANTED.map(|(_, share)| share)),
    };
    match found {
        Some([p50, p95, p99]) if !(p50 <= p95 && p95 <= p99 && p50 > 0.0) => {
            Err(format!("its percentiles are {p50}, {p95} and {p99} ns, which no times have"))
        }
        found => Ok(found),
    }
}

fn of_bins(bins: &Map<String, Value>, shares: [f64; 3]) -> Option<[f64; 3]> {
    let bin = |(ns, count): (&String, &Value)| Some((ns.parse::<f64>().ok()?, count.as_f64()?));
    let mut bins: Vec<(f64, f64)> = bins.iter().map(bin).collect::<Option<_>>()?;
    bins.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = bins.iter().map(|(_, count)| count).sum();
    let (last, _) = *bins.last()?;
    Some(shares.map(|share| {
        let mut below = 0.0;
        let mut found = bins.iter().skip_while(|(_, count)| {
            below += count;
            below < share * all
        });
        found.next().map_or(last, |(ns, _)| *ns)
    }))
}
