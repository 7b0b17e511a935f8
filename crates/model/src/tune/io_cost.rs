//! The kernel's `io.cost.model` and `io.cost.qos`, and the entry of systemd's hwdb.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Identity;
use flashlab_sim::profile::ThroughputClass;

use super::report::{TuneReport, TuneSurroundings, TuneTarget, TunedValue};
use super::values::{bandwidth, ends, saturated_rate};
use crate::device_model::DeviceModel;
use crate::escape::hwdb_pattern;
use crate::io_cost::{IoCostModel, IoCostQos};
use crate::run_points::RunPoint;

/// Where the kernel reads them.
const MODEL_FILE: &str = "/sys/fs/cgroup/io.cost.model";
const QOS_FILE: &str = "/sys/fs/cgroup/io.cost.qos";
/// The percentile of latencies that saturation is seen by; that of the published fits.
const PERCENTILE: f64 = 95.0;

pub(super) fn report(model: &DeviceModel, surroundings: &TuneSurroundings) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::IoCost, "io.cost");
    let device = surroundings.device_number.as_deref().unwrap_or("MAJOR:MINOR");
    let Some(cost) = cost(model, &mut report, device) else { return report };
    let Some(qos) = qos(model, &mut report, device) else { return report };
    report.text = format!(
        "# {MODEL_FILE}\n{}\n# {QOS_FILE}\n{}\n{}",
        cost.kernel_line(device),
        qos.kernel_line(device),
        hwdb_entry(&model.fitted_to.identity, &cost, &qos),
    );
    report
}

/// The entry by which systemd sets both for each disk of this model. A disk without a name has none: its entry would match every
/// disk.
fn hwdb_entry(identity: &Identity, cost: &IoCostModel, qos: &IoCostQos) -> String {
    let Some(name) = identity.model.as_deref().and_then(hwdb_pattern) else {
        return "# no entry for systemd's hwdb: the disk reports no model\n".to_owned();
    };
    let firmware = identity.firmware.as_deref().and_then(hwdb_pattern).unwrap_or_else(|| "*".to_owned());
    format!(
        "# /etc/udev/hwdb.d/90-flashlab-iocost.hwdb, then: systemd-hwdb update && udevadm trigger\n\
         block::name:{name}:fwrev:{firmware}:\n  IOCOST_SOLUTIONS=flashlab\n  IOCOST_MODEL_FLASHLAB={cost}\n  IOCOST_QOS_FLASHLAB={qos}\n"
    )
}

fn cost(model: &DeviceModel, report: &mut TuneReport, device: &str) -> Option<IoCostModel> {
    use ThroughputClass::{RandomRead, RandomWrite, SequentialRead, SequentialWrite};
    let mut figures: Vec<Option<f64>> = Vec::new();
    for (bps, sequential, random, classes) in [
        ("rbps", "rseqiops", "rrandiops", [SequentialRead, RandomRead]),
        ("wbps", "wseqiops", "wrandiops", [SequentialWrite, RandomWrite]),
    ] {
        let of_large = bandwidth(model, classes[0]);
        let mut note =
            |report: &mut TuneReport, name, figure: Result<Interval, String>, reason: String| match figure {
                Err(why) => {
                    report.refuse(name, why);
                    figures.push(None);
                }
                Ok(figure) => {
                    figures.push(Some(figure.estimate.round()));
                    report.values.push(TunedValue {
                        name,
                        value: format!("{:.0}", figure.estimate),
                        interval: ends(figure),
                        reason,
                        effect: "the controller charges a request this share of a second".to_owned(),
                        undo: format!("echo '{device} ctrl=auto' > {MODEL_FILE}"),
                    });
                }
            };
        note(report, bps, of_large.clone(), format!("bytes a second of large {}s", classes[0].words()));
        for (name, class) in [(sequential, classes[0]), (random, classes[1])] {
            let rate = match &of_large {
                Ok(bandwidth) => saturated_rate(model, class, *bandwidth),
                Err(_) => Err(format!("without {bps} it cannot be told from the bandwidth")),
            };
            note(
                report,
                name,
                rate,
                format!("{}s of 4 KiB a second at the deepest queue that was measured", class.words()),
            );
        }
    }
    let figures: Option<Vec<f64>> = figures.into_iter().collect();
    let [rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops] = figures?[..] else { return None };
    Some(IoCostModel {
        rbps: rbps as u64,
        rseqiops: rseqiops as u64,
        rrandiops: rrandiops as u64,
        wbps: wbps as u64,
        wseqiops: wseqiops as u64,
        wrandiops: wrandiops as u64,
    })
}

/// The latency of random requests at the depth that saturates the class, and how far the slowest zone lies below the others.
fn qos(model: &DeviceModel, report: &mut TuneReport, device: &str) -> Option<IoCostQos> {
    let latency = |class: ThroughputClass| -> Option<u64> {
        let concurrency = model.depths.get(&class)?.curve.concurrency();
        let points = model
            .fitted_to
            .points
            .iter()
            .filter(|point| point.workload.class == class && point.workload.is_alone());
        let nearest = points
            .filter(|point| point.workload.size == model.depths[&class].size)
            .min_by_key(|point| (f64::from(point.workload.depth) - concurrency).abs() as u64)?;
        Some((nearest.p95_ns / 1e3).ceil() as u64)
    };
    let latencies = latency(ThroughputClass::RandomRead).zip(latency(ThroughputClass::RandomWrite));
    let Some((read_latency_us, write_latency_us)) = latencies else {
        report
            .refuse("io.cost.qos", "random reads and writes were not measured at several depths".to_owned());
        return None;
    };
    let least = slowest_share(model);
    let qos = IoCostQos {
        percentile: PERCENTILE,
        read_latency_us,
        write_latency_us,
        scale: [least * 100.0, 100.0],
    };
    report.values.push(TunedValue {
        name: "io.cost.qos",
        value: qos.to_string(),
        interval: None,
        reason: format!(
            "the 95th percentile of random requests at the depth that saturates them; the slowest run reached {:.0} % of the median of \
             its like",
            least * 100.0
        ),
        effect: "the controller slows all cgroups down where latencies exceed these, to no less than min".to_owned(),
        undo: format!("echo '{device} enable=0' > {QOS_FILE}"),
    });
    Some(qos)
}

/// The throughput of the slowest run relative to the median of the runs of the same requests; the kernel takes from 1 %. A run that
/// other IO or heat disturbed says nothing of the disk.
fn slowest_share(model: &DeviceModel) -> f64 {
    let points: Vec<&RunPoint> = model.fitted_to.points.iter().filter(|point| !point.is_disturbed).collect();
    let share = |point: &&RunPoint| {
        let same = points.iter().filter(|other| {
            other.workload.class == point.workload.class
                && other.workload.size == point.workload.size
                && other.workload.depth == point.workload.depth
                && other.workload.write_share == point.workload.write_share
                && other.workload.filled == point.workload.filled
        });
        let mut rates: Vec<f64> = same.map(|other| other.ios_per_s).collect();
        rates.sort_by(f64::total_cmp);
        point.ios_per_s / rates[rates.len() / 2]
    };
    points.iter().map(share).fold(1.0, f64::min).clamp(0.01, 1.0)
}
