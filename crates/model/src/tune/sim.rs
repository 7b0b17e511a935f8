//! A profile of the simulator with the throughput model.

use flashlab_base::{Bytes, Nanos};
use flashlab_sim::Profile;
use flashlab_sim::profile::{Throughput, ThroughputClass, ThroughputLine};

use super::report::{TuneReport, TuneTarget, TunedValue};
use crate::device_model::DeviceModel;

pub(super) fn report(model: &DeviceModel) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::Sim, "model.toml");
    let lines = ThroughputClass::ALL.map(|class| {
        let fitted = model.class(class).map_err(|error| error.to_string());
        let line = fitted.and_then(|fitted| fitted.parameters.clone());
        match line {
            Err(reason) => {
                report.refuse(class.words(), reason);
                None
            }
            Ok(line) => {
                let (a, b) = (line.a_ns.estimate, line.b_ns_per_byte.estimate);
                report.values.push(TunedValue {
                    name: class.words(),
                    value: format!("{:.1} us + {:.4} us/KB", a / 1e3, b * 1.024),
                    interval: Some([line.a_ns.low / 1e3, line.a_ns.high / 1e3]),
                    reason: format!(
                        "T = A + n B fitted to medians, r2 {:.5}; the interval is that of A",
                        line.r2
                    ),
                    effect: "the simulated device takes this time for a request".to_owned(),
                    undo: "nothing is set".to_owned(),
                });
                Some(ThroughputLine { a: Nanos(a.round() as u64), b_us_per_kb: b * 1.024 })
            }
        }
    });
    let [Some(sequential_read), Some(random_read), Some(sequential_write), Some(random_write)] = lines else {
        return report;
    };
    let throughput = Throughput { sequential_read, random_read, sequential_write, random_write };
    report.text = profile(model, throughput).to_toml();
    report
}

fn profile(model: &DeviceModel, throughput: Throughput) -> Profile {
    let identity = &model.fitted_to.identity;
    let block = identity.logical_block.unwrap_or(Bytes(512));
    let title = identity.model.clone().unwrap_or_else(|| identity.target.clone());
    Profile {
        title,
        source: format!("flashlab model fit of {}", model.fitted_to.source),
        fit: "The throughput model T(n) = A + n B, fitted to the medians of each size and zone.".to_owned(),
        throughput: Some(throughput),
        ..Profile::new("model", identity.capacity.max(block).round_down(block), block)
    }
}
