//! PostgreSQL's cost of a random page, and its prefetch depth.
//!
//! # Model
//! `random_page_cost` is the cost of a page that is read out of order, in units of one that a sequential scan reads.
//! - A sequential scan reads through the kernel, which reads ahead: while one window is scanned, the next one is in flight. So a
//!   page costs its share of one sequential read of the window's size, with one in flight. Since version 17 PostgreSQL reads
//!   `io_combine_limit` at once, by default 128 KiB as the kernel's window.
//! - An index scan waits for each page of the table, so a page that is not cached costs a random read of 8 KiB, one in flight.
//!   Only bitmap scans overlap, up to `effective_io_concurrency`.
//! - Most pages of an index scan are cached, and cost no IO. The manual derives its 4.0 in this way: 40 times slower, 90 % cached
//!   (section 20.7.2 of its version 15). The pages of a sequential scan of a large table are not.
//!
//! So cost = (1 - cached share) x random read / sequential page, and at least 1.0: the manual calls less not sensible.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use super::report::{TuneReport, TuneSurroundings, TuneTarget, TunedValue};
use super::values::{concurrency, ends, usable};
use crate::device_model::DeviceModel;

const PAGE: Bytes = Bytes::kib(8);
/// The kernel's read-ahead of a block device (VM_READAHEAD_PAGES in include/linux/mm.h), and `io_combine_limit`.
const READ_AHEAD: Bytes = Bytes::kib(128);
/// The share of the pages of index scans that PostgreSQL's manual takes for cached, section 20.7.2.
const CACHED: f64 = 0.9;
/// The ratio of the hard disks that the manual speaks of, section 20.7.2. Without seeks a ratio beyond it is one of two measurements
/// that did not meet the same disk.
const RATIO_MOST: f64 = 40.0;
/// The most that PostgreSQL takes for either concurrency.
const CONCURRENCY_MOST: f64 = 1000.0;

/// A random page in units of a sequential one (seq_page_cost = 1), where this share of the random ones is cached.
pub fn random_page_cost(random_page_ns: f64, sequential_page_ns: f64, cached_share: f64) -> f64 {
    ((1.0 - cached_share) * random_page_ns / sequential_page_ns).max(1.0)
}

pub(super) fn report(model: &DeviceModel, surroundings: &TuneSurroundings) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::Postgresql, "postgresql.conf");
    match page_cost(model, surroundings) {
        Err(reason) => report.refuse("random_page_cost", reason),
        Ok(value) => report.values.push(value),
    }
    for (name, who) in [
        ("effective_io_concurrency", "a bitmap heap scan"),
        ("maintenance_io_concurrency", "vacuum and other maintenance"),
    ] {
        match concurrency(model, ThroughputClass::RandomRead) {
            Err(reason) => report.refuse(name, reason),
            Ok(depth) => report.values.push(TunedValue {
                name,
                value: format!("{:.0}", depth.estimate.ceil().clamp(1.0, CONCURRENCY_MOST)),
                interval: ends(depth),
                reason: "random reads in flight that saturate the disk; one session reads, others share them"
                    .to_owned(),
                effect: format!(
                    "{who} reads this number of pages ahead, up to {:.1} times as fast",
                    depth.estimate
                ),
                undo: undo(name),
            }),
        }
    }
    report.text = report.values.iter().map(|value| format!("{} = {}\n", value.name, value.value)).collect();
    report
}

fn undo(name: &str) -> String {
    format!("ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();")
}

fn page_cost(model: &DeviceModel, surroundings: &TuneSurroundings) -> Result<TunedValue, String> {
    let cached = surroundings.cached_share.unwrap_or(CACHED);
    let asked = surroundings.read_ahead.unwrap_or(READ_AHEAD).max(PAGE);
    let reads = model.class(ThroughputClass::SequentialRead).map_err(|error| error.to_string())?;
    // Larger windows than were measured are taken to be no faster for each page.
    let [least, most] = reads.sizes;
    let window = asked.clamp(least, most);
    let time = |class, size| -> Result<Interval, String> {
        let fitted = model.class_of_size(class, size).map_err(|error| error.to_string())?;
        usable(fitted.means.predict(size), "time of a read")
    };
    let random = time(ThroughputClass::RandomRead, PAGE)?;
    let pages = window.0 as f64 / PAGE.0 as f64;
    let sequential = time(ThroughputClass::SequentialRead, window)?.map(|ns| ns / pages);
    let of = |cached: f64| Interval {
        estimate: random_page_cost(random.estimate, sequential.estimate, cached),
        low: random_page_cost(random.low, sequential.high, cached),
        high: random_page_cost(random.high, sequential.low, cached),
    };
    let (cost, ratio) = (of(cached), random.estimate / sequential.estimate);
    let identity = &model.fitted_to.identity;
    let seeks = identity.rotational == Some(true) || model.seeks.values().any(Result::is_ok);
    if ratio > RATIO_MOST && !seeks {
        return Err(format!(
            "a random read of 8 KiB takes {ratio:.0} times 8 KiB of a sequential one, and a hard disk takes {RATIO_MOST}: a cache answered \
             the sequential reads, or other IO slowed the random ones; measure a larger part of the disk when nothing else runs"
        ));
    }
    let floor = match (1.0 - cached) * ratio {
        least if least < 1.0 => {
            format!(", which is {least:.2}; the planner takes no less than 1.0 for sensible")
        }
        _ => String::new(),
    };
    Ok(TunedValue {
        name: "random_page_cost",
        value: format!("{:.2}", cost.estimate),
        interval: ends(cost),
        reason: format!(
            "a random read of 8 KiB takes {:.1} us, 8 KiB of sequential reads of {window} take {:.1} us, and {:.0} % of the random \
             ones are cached{floor}",
            random.estimate / 1e3,
            sequential.estimate / 1e3,
            cached * 100.0
        ),
        effect: effect(model, ratio),
        undo: undo("random_page_cost"),
    })
}

/// What the cost leads to where another share is cached, or reads overlap.
fn effect(model: &DeviceModel, ratio: f64) -> String {
    let cold = format!(
        "the planner prefers an index scan up to this cost; with nothing cached one read costs {ratio:.1}"
    );
    let overlapped = concurrency(model, ThroughputClass::RandomRead).ok().and_then(|depth| {
        let measured = model.depths.get(&ThroughputClass::RandomRead)?;
        let in_flight = (depth.estimate.ceil() as u32).clamp(1, measured.depths[1]);
        let faster = measured.curve.predict(in_flight).estimate / measured.curve.predict(1).estimate;
        Some(format!(", in a bitmap scan with {in_flight} in flight {:.1}", ratio / faster))
    });
    cold + &overlapped.unwrap_or_default()
}
