//! PostgreSQL's cost of a random page, and its prefetch depth.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use super::report::{TuneReport, TuneTarget, TunedValue};
use super::values::{bandwidth, concurrency, ends};
use crate::device_model::DeviceModel;

const PAGE: Bytes = Bytes::kib(8);
/// The most that PostgreSQL takes for either concurrency.
const CONCURRENCY_MOST: f64 = 1000.0;

/// A random page in units of a sequential one (seq_page_cost = 1): the first is a read of its own, the second a part of a large
/// one, because PostgreSQL and the kernel read ahead. It is never below 1, as the planner takes it.
pub fn random_page_cost(random_page_ns: f64, sequential_ns_per_byte: f64) -> f64 {
    (random_page_ns / (sequential_ns_per_byte * PAGE.0 as f64)).max(1.0)
}

pub(super) fn report(model: &DeviceModel) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::Postgresql, "postgresql.conf");
    let random = model.class(ThroughputClass::RandomRead).map_err(|error| error.to_string());
    let costs = random.and_then(|random| Ok((random.means.predict(PAGE), sequential(model)?)));
    match costs {
        Err(reason) => report.refuse("random_page_cost", reason),
        Ok((page, per_byte)) => {
            let cost = Interval {
                estimate: random_page_cost(page.estimate, per_byte.estimate),
                low: random_page_cost(page.low, per_byte.high),
                high: random_page_cost(page.high, per_byte.low),
            };
            report.values.push(TunedValue {
                name: "random_page_cost",
                value: format!("{:.2}", cost.estimate),
                interval: ends(cost),
                reason: format!(
                    "a random read of 8 KiB takes {:.1} us, 8 KiB of a sequential one {:.1} us",
                    page.estimate / 1e3,
                    per_byte.estimate * PAGE.0 as f64 / 1e3
                ),
                effect: format!(
                    "the planner takes an index over a scan up to about 1 of {:.1} pages of a table, where with the usual 4.0 it is 1 of 4",
                    cost.estimate
                ),
                undo: "ALTER SYSTEM RESET random_page_cost; SELECT pg_reload_conf();".to_owned(),
            });
        }
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
                reason: "random reads in flight that saturate the disk".to_owned(),
                effect: format!(
                    "{who} reads this number of pages ahead, up to {:.1} times as fast",
                    depth.estimate
                ),
                undo: format!("ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"),
            }),
        }
    }
    report.text = report.values.iter().map(|value| format!("{} = {}\n", value.name, value.value)).collect();
    report
}

/// Nanoseconds for each byte of large sequential reads.
fn sequential(model: &DeviceModel) -> Result<Interval, String> {
    let rate = bandwidth(model, ThroughputClass::SequentialRead)?;
    Ok(Interval { estimate: 1e9 / rate.estimate, low: 1e9 / rate.high, high: 1e9 / rate.low })
}
