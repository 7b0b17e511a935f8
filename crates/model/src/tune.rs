//! Settings of other software that follow from a model: `flashlab model tune`.
//!
//! Each value has its reason, its interval, what it does and how it is undone. A value that the data does not carry
//! is refused with the reason: better no setting than one that looks measured. Where nothing can be set, there is no value either.

mod ceph;
mod fio;
mod io_cost;
mod postgresql;
mod report;
mod rocksdb;
mod scylla;
mod sim;
mod values;

pub use postgresql::random_page_cost;

pub use report::{RefusedValue, TuneReport, TuneSurroundings, TuneTarget, TunedValue};

use crate::device_model::DeviceModel;

/// The settings of `target` for the device of this model.
pub fn tune(model: &DeviceModel, target: TuneTarget, surroundings: &TuneSurroundings) -> TuneReport {
    let mut report = match target {
        TuneTarget::IoCost => io_cost::report(model, surroundings),
        TuneTarget::Scylla => scylla::report(model, surroundings),
        TuneTarget::Postgresql => postgresql::report(model, surroundings),
        TuneTarget::Rocksdb => rocksdb::report(model, surroundings),
        TuneTarget::Ceph => ceph::report(model),
        TuneTarget::Fio => fio::report(model),
        TuneTarget::Sim => sim::report(model),
    };
    if report.text.is_empty() {
        report.values.clear();
    }
    report
}
