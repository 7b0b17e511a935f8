//! From the entries of a document to measurements: what ran at once is one.
//!
//! # Model
//! 1. Entries with one `groupid` ran at once: only `stonewall` and `new_group` begin another group. From fio 3.37 on, the times at which
//!    they began say it as well.
//! 2. Entries that ran at once and made the same requests are one measurement, as deep as all of them together. Others are none: no
//!    figure of them is of one kind of request.
//! 3. By Little's law, IOPS times mean latency is the number of requests in flight. If it is not the number that the options say,
//!    within a fifth, then the options are of other jobs, or the queue was not full.

use std::collections::BTreeSet;

use flashlab_base::Bytes;

use super::document::{Document, Job};
use super::job::{Entry, Figures, LITTLE_TOLERANCE};
use crate::ModelError;
use crate::run_points::RunPoint;

/// As [`LITTLE_TOLERANCE`], where the number of processes is taken from the number in flight.
const COUNTED_TOLERANCE: f64 = 0.1;

/// What fio measured.
#[derive(Debug, Default)]
pub struct FioPoints {
    /// The points.
    pub points: Vec<RunPoint>,
    /// What the user should know: jobs that were left out, each with its reason.
    pub notes: Vec<String>,
}

/// The points of fio's JSON; `name` is for the errors.
pub(super) fn json_points(text: &str, name: &str) -> Result<FioPoints, ModelError> {
    let wrong = |message: String| ModelError::Input(format!("{name}: {message}"));
    let document = Document::last(text).map_err(|message| wrong(message.clone()))?;
    let jobs = jobs(&document).map_err(wrong)?;
    let sets = at_once(&jobs);
    let mut found = FioPoints::default();
    found.notes.extend(told_in_turn(&jobs, &sets).map_err(wrong)?.map(|note| format!("{name}: {note}")));
    let mut places = BTreeSet::new();
    for (set, run) in sets.iter().zip(1u32..) {
        match measurement(set, &document, &mut found.notes) {
            Ok(measured) => {
                places.insert(measured.place.clone());
                found.points.extend(measured.points(run));
            }
            Err(reason) => found.notes.push(format!("{name}: left out: {}: {reason}", names(set))),
        }
    }
    if places.len() > 1 {
        let places: Vec<&str> = places.iter().map(|place| shown(place)).collect();
        return Err(wrong(format!(
            "its jobs used {}, which may be several disks, and a model is of one: give a result for each",
            places.join(", ")
        )));
    }
    match found.points.is_empty() {
        true => Err(wrong(match found.notes.is_empty() {
            true => "no job of it does reads or writes of one size: give bs=, and rw= as read, randread, write, randwrite or randrw"
                .to_owned(),
            false => format!("no job of it can be used\n  {}", found.notes.join("\n  ")),
        })),
        false => Ok(found),
    }
}

/// The entries, of one server.
fn jobs(document: &Document) -> Result<Vec<&Job>, String> {
    if document.client_stats.is_empty() {
        return Ok(document.jobs.iter().collect());
    }
    let single: Vec<&Job> = document.client_stats.iter().filter(|job| job.jobname != "All clients").collect();
    // Two servers may run on one machine.
    let server = |job: &&Job| match (&job.hostname, job.port) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.clone().unwrap_or_default(),
    };
    let servers: BTreeSet<String> = single.iter().map(server).collect();
    match servers.len() {
        0 | 1 => Ok(single),
        count => Err(format!(
            "has the results of {count} servers ({}), which measured at once: give the result of one, run without --client",
            Vec::from_iter(servers).join(", ")
        )),
    }
}

/// The entries that ran at once.
fn at_once<'a>(jobs: &[&'a Job]) -> Vec<Vec<&'a Job>> {
    let mut sets: Vec<Vec<&Job>> = Vec::new();
    for &job in jobs {
        let last = sets.iter_mut().find(|set| set.iter().any(|other| is_at_once(job, other)));
        match last {
            Some(set) => set.push(job),
            None => sets.push(vec![job]),
        }
    }
    sets
}

/// Whether the sets ran one after the other, as far as fio's clock tells; a note where it does not.
///
/// `new_group` begins a group as `stonewall` does, without waiting, and fio writes neither of them into its JSON. Sets in turn take the
/// sum of their times; if one of them ran beside another, its own time is missing in the whole.
///
/// # Errors
/// When they ran at once.
fn told_in_turn(jobs: &[&Job], sets: &[Vec<&Job>]) -> Result<Option<String>, String> {
    /// fio counts whole seconds, and begins counting after it began.
    const COUNTED_TO_SECONDS: f64 = 1.5;
    let is_known = jobs.iter().all(|job| job.elapsed.is_some() && job.job_start.is_none());
    if !is_known || sets.len() < 2 {
        return Ok(None);
    }
    let each: Vec<f64> =
        sets.iter().map(|set| set.iter().map(|job| seconds(job)).fold(0.0, f64::max)).collect();
    let shortest = each.iter().copied().fold(f64::INFINITY, f64::min);
    let all: f64 = each.iter().sum();
    let elapsed = jobs.iter().filter_map(|job| job.elapsed).fold(0.0, f64::max);
    if all > elapsed + COUNTED_TO_SECONDS {
        return Err(format!(
            "its groups took {all:.0} s together and fio {elapsed:.0} s: they ran at once (new_group), and none was measured \
             alone; give each job stonewall"
        ));
    }
    let is_told = elapsed >= all - shortest + COUNTED_TO_SECONDS;
    Ok((!is_told).then(|| {
        format!(
            "its groups took {all:.1} s together and fio {elapsed:.0} s, in whole seconds: too short to tell whether all ran one after \
             the other (stonewall). They are read so. If one had new_group in place of it, the figures are wrong: run each for 3 s or \
             more, or with fio 3.37 or newer, which writes when each began"
        )
    }))
}

/// How long the entry ran.
fn seconds(job: &Job) -> f64 {
    let directions = [&job.read, &job.write, &job.trim, &job.mixed];
    directions.into_iter().flatten().map(|direction| direction.runtime / 1e3).fold(0.0, f64::max)
}

fn is_at_once(job: &Job, other: &Job) -> bool {
    if job.groupid == other.groupid {
        return true;
    }
    let (Some(begin), Some(other_begin)) = (job.job_start, other.job_start) else { return false };
    let (end, other_end) = (begin + 1e3 * seconds(job), other_begin + 1e3 * seconds(other));
    // A job begins in the millisecond in which the one before ends.
    const TOGETHER_MS: f64 = 50.0;
    end.min(other_end) - begin.max(other_begin) > TOGETHER_MS
}

fn names(set: &[&Job]) -> String {
    let mut names: Vec<&str> = set.iter().map(|job| job.jobname.as_str()).collect();
    names.dedup();
    match names[..] {
        [one] => format!("job {one}"),
        _ => format!("jobs {}", names.join(", ")),
    }
}

/// A measurement of one kind of requests.
struct Measurement {
    figures: Vec<Figures>,
    size: Bytes,
    depth: u32,
    place: String,
}

/// A place as a text shows it.
fn shown(place: &str) -> &str {
    if place.is_empty() { "the current directory" } else { place }
}

fn measurement(set: &[&Job], document: &Document, notes: &mut Vec<String>) -> Result<Measurement, String> {
    let mut entries = Vec::new();
    for job in set {
        let entry = document.global_of(job).and_then(|global| Entry::of(job, &global));
        let entry = entry.map_err(|reason| match set.len() {
            1 => reason,
            _ => format!("{}: {reason}; the others ran at the same time", job.jobname),
        })?;
        // One entry of several with this name is one process; one alone is all of them.
        let named = set.iter().filter(|other| other.jobname == job.jobname).count();
        entries.push(Entry { processes: if named > 1 { 1 } else { entry.processes }, ..entry });
    }
    let workload = &entries[0].workload;
    if let Some(other) = entries.iter().find(|entry| entry.workload.place != workload.place) {
        return Err(format!(
            "they ran at once on {} and {}, which may be two disks: measure one after the other, each with a file of its own",
            shown(&workload.place),
            shown(&other.workload.place)
        ));
    }
    let times: Vec<f64> = set.iter().map(|job| seconds(job)).collect();
    let (shortest, longest) =
        times.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &one| (low.min(one), high.max(one)));
    if shortest < longest * (1.0 - LITTLE_TOLERANCE) {
        return Err(format!(
            "they began at once and ran {shortest:.1} to {longest:.1} s, so that their rates are of different loads: give them one runtime"
        ));
    }
    if entries.iter().any(|entry| entry.workload != *workload) {
        return Err(format!(
            "they ran at once (one group without stonewall), {} requests were in flight, and they differ: give each of them stonewall",
            entries.iter().map(|entry| entry.queue * entry.processes).sum::<u32>()
        ));
    }
    let in_flight: f64 = entries.iter().map(Entry::in_flight).sum();
    let depth = depth(&entries, in_flight, &document.version, notes)?;
    let is_sequential = matches!(workload.classes[0], flashlab_sim::profile::ThroughputClass::SequentialRead);
    let processes: u32 = entries.iter().map(|entry| entry.processes).sum();
    if is_sequential && processes > 1 {
        return Err(format!(
            "{processes} processes read or wrote in order at once: for the device that is no sequential order"
        ));
    }
    let mut told: Vec<String> = entries.iter().flat_map(|entry| entry.notes.clone()).collect();
    told.dedup();
    notes.extend(told.into_iter().map(|note| format!("{}: {note}", names(set))));
    Ok(Measurement { figures: merged(&entries), size: workload.size, depth, place: workload.place.clone() })
}

/// The number in flight by the options, if Little's law agrees.
fn depth(entries: &[Entry], in_flight: f64, version: &str, notes: &mut Vec<String>) -> Result<u32, String> {
    let stated: u32 =
        entries.iter().map(|entry| entry.queue.saturating_mul(entry.processes)).fold(0, u32::saturating_add);
    let differs = |depth: f64, tolerance: f64| (in_flight / depth - 1.0).abs() > tolerance;
    if !differs(f64::from(stated), LITTLE_TOLERANCE) {
        return Ok(stated);
    }
    // fio before 3.5 does not write numjobs.
    let processes = (in_flight / f64::from(stated)).round();
    let counted = processes * f64::from(stated);
    if is_before_numjobs(version) && processes >= 2.0 && !differs(counted, COUNTED_TOLERANCE) {
        notes.push(format!(
            "{version} does not say how many processes a group had: by IOPS times latency {processes}, which makes {counted} in flight"
        ));
        return Ok(counted as u32);
    }
    Err(format!(
        "IOPS times mean latency is {in_flight:.2} requests in flight, and its options say {stated}: the options are of other jobs, \
         the queue was not full, or much of the time passed in fio itself"
    ))
}

fn is_before_numjobs(version: &str) -> bool {
    let minor = version.trim_start_matches("fio-3.").split(|c: char| !c.is_ascii_digit()).next();
    minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor < 5)
}

/// The figures of all entries together: rates add up, times are weighted by their number.
fn merged(entries: &[Entry]) -> Vec<Figures> {
    let mut merged: Vec<Figures> = Vec::new();
    for figures in entries.iter().flat_map(|entry| &entry.figures) {
        let Some(all) = merged.iter_mut().find(|all| all.class == figures.class) else {
            merged.push(figures.clone());
            continue;
        };
        let weight = figures.ios as f64 / (all.ios + figures.ios) as f64;
        let mix = |a: f64, b: f64| a + weight * (b - a);
        all.mean_ns = mix(all.mean_ns, figures.mean_ns);
        for (all, one) in all.percentiles_ns.iter_mut().zip(figures.percentiles_ns) {
            *all = mix(*all, one);
        }
        all.ios += figures.ios;
        all.ios_per_s += figures.ios_per_s;
    }
    merged
}

impl Measurement {
    fn points(self, run: u32) -> Vec<RunPoint> {
        use flashlab_sim::profile::ThroughputClass::{RandomWrite, SequentialWrite};
        let Measurement { figures, size, depth, .. } = self;
        let all: u64 = figures.iter().map(|figures| figures.ios).sum();
        let writes = figures.iter().filter(|figures| matches!(figures.class, RandomWrite | SequentialWrite));
        let write_share = writes.map(|figures| figures.ios).sum::<u64>() as f64 / all.max(1) as f64;
        figures.into_iter().map(|figures| figures.point(run, size, depth, write_share)).collect()
    }
}
