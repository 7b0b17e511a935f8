//! Ceph's mClock scheduler: what an OSD on this disk does in a second.
//!
//! mClock shares out the random writes of 4 KiB that an OSD does a second. An OSD measures them when it starts, as
//! `ceph tell osd.N bench 12288000 4096 4194304 100` does: 3000 writes of 4 KiB at random offsets of 100 objects of 4 MiB, many in
//! flight. A result beyond the bounds below is dropped for a built-in value (21,500 on flash), whatever the disk is.
//! What the disk saturates at is the most that the OSD can do. On a fast disk the OSD's software does less.

use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use super::report::{TuneReport, TuneTarget, TunedValue};
use super::values::{bandwidth, depth_curve, ends, usable};
use crate::device_model::DeviceModel;

/// Names and bounds for one kind of media: `osd_mclock_iops_capacity_low_threshold_*` and `osd_mclock_iops_capacity_threshold_*`
/// (src/common/options/osd.yaml.in).
struct Media {
    capacity: &'static str,
    bandwidth: &'static str,
    bounds: [f64; 2],
}

const FLASH: Media = Media {
    capacity: "osd_mclock_max_capacity_iops_ssd",
    bandwidth: "osd_mclock_max_sequential_bandwidth_ssd",
    bounds: [1000.0, 80_000.0],
};
const ROTATING: Media = Media {
    capacity: "osd_mclock_max_capacity_iops_hdd",
    bandwidth: "osd_mclock_max_sequential_bandwidth_hdd",
    bounds: [50.0, 500.0],
};
const BENCH: &str = "ceph tell osd.N bench 12288000 4096 4194304 100";

pub(super) fn report(model: &DeviceModel) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::Ceph, "ceph.conf");
    let seeks = || model.seeks.values().any(Result::is_ok);
    let media = if model.fitted_to.identity.rotational.unwrap_or_else(seeks) { ROTATING } else { FLASH };
    match capacity(model, &media) {
        Err(reason) => {
            report.refuse(media.capacity, reason);
            return report;
        }
        Ok(value) => report.values.push(value),
    }
    match bandwidth(model, ThroughputClass::SequentialWrite) {
        Err(reason) => report.refuse(media.bandwidth, reason),
        Ok(rate) => report.values.push(TunedValue {
            name: media.bandwidth,
            value: format!("{:.0}", rate.estimate),
            interval: ends(rate),
            reason: "bytes a second of large sequential writes".to_owned(),
            effect: "a request costs its bytes, and at least this divided by the capacity".to_owned(),
            undo: undo(media.bandwidth),
        }),
    }
    let lines: String =
        report.values.iter().map(|value| format!("{} = {}\n", value.name, value.value)).collect();
    report.text = format!("[osd]\n{lines}");
    report
}

fn capacity(model: &DeviceModel, media: &Media) -> Result<TunedValue, String> {
    let depth = depth_curve(model, ThroughputClass::RandomWrite)?;
    if depth.size != Bytes::kib(4) {
        return Err(format!("depths were measured with requests of {} and not of 4 KiB", depth.size));
    }
    let rate = usable(depth.curve.predict(depth.depths[1]), "rate of random writes")?;
    let [least, most] = media.bounds;
    if rate.estimate < least || rate.estimate > most {
        return Err(format!(
            "the disk does {:.0} random writes of 4 KiB a second, and Ceph takes {least:.0} to {most:.0} for plausible: above it the \
             software of the OSD is the limit, below it something else is wrong; set what `{BENCH}` measures on the idle OSD",
            rate.estimate
        ));
    }
    Ok(TunedValue {
        name: media.capacity,
        value: format!("{:.0}", rate.estimate),
        interval: ends(rate),
        reason: "random writes of 4 KiB a second at the deepest queue that was measured; the disk is the limit, and not the OSD's \
                 software"
            .to_owned(),
        effect: format!(
            "mClock shares out this number of requests a second; set what `{BENCH}` measures if that is less"
        ),
        undo: undo(media.capacity),
    })
}

fn undo(name: &str) -> String {
    format!("ceph config rm osd.N {name}, or remove the line")
}
