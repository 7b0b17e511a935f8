//! Seastar's `io_properties.yaml`.

use flashlab_sim::profile::ThroughputClass;

use super::report::{TuneReport, TuneSurroundings, TuneTarget, TunedValue};
use super::values::{bandwidth, ends, saturated_rate};
use crate::device_model::DeviceModel;
use crate::io_properties::IoProperties;

pub(super) fn report(model: &DeviceModel, surroundings: &TuneSurroundings) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::Scylla, "io_properties.yaml");
    let mut figures = Vec::new();
    for (iops, name, random, sequential) in [
        ("read_iops", "read_bandwidth", ThroughputClass::RandomRead, ThroughputClass::SequentialRead),
        ("write_iops", "write_bandwidth", ThroughputClass::RandomWrite, ThroughputClass::SequentialWrite),
    ] {
        let of_large = bandwidth(model, sequential);
        let rate = of_large.clone().and_then(|bandwidth| saturated_rate(model, random, bandwidth));
        for (name, figure, of) in
            [(iops, rate, "4 KiB at the deepest queue"), (name, of_large, "large requests")]
        {
            match figure {
                Err(reason) => report.refuse(name, reason),
                Ok(figure) => {
                    figures.push(figure.estimate.round() as u64);
                    report.values.push(TunedValue {
                        name,
                        value: format!("{:.0}", figure.estimate),
                        interval: ends(figure),
                        reason: format!("what the disk saturates at with {of}"),
                        effect: "the IO scheduler dispatches up to this, and queues the rest by shares"
                            .to_owned(),
                        undo: "run iotune, or restore the io_properties.yaml that it wrote".to_owned(),
                    });
                }
            }
        }
    }
    if let [read_iops, read_bandwidth, write_iops, write_bandwidth] = figures[..] {
        let properties = IoProperties { read_iops, read_bandwidth, write_iops, write_bandwidth };
        let mountpoint = surroundings.mountpoint.as_deref().unwrap_or("/var/lib/scylla");
        report.text = properties.file(mountpoint);
    }
    report
}
