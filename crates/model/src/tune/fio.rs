//! A job file of fio that repeats the measurement.

use flashlab_sim::profile::ThroughputClass;

use super::report::{TuneReport, TuneTarget, TunedValue};
use crate::device_model::DeviceModel;
use crate::run_points::Workload;

pub(super) fn report(model: &DeviceModel) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::Fio, "flashlab.fio");
    let mut text = "# Repeats what the model was fitted to. Writing jobs destroy what the target holds.\n# fio --filename=TARGET \
                    --output-format=json --output=fio.json flashlab.fio; flashlab model fit fio.json\n[global]\nioengine=libaio\n\
                    direct=1\ntime_based=0\nrandrepeat=1\nnorandommap=1\nthread=1\n"
        .to_owned();
    let (mut jobs, mut last_run) = (0, 0);
    for point in &model.fitted_to.points {
        // A mix has two points and one job. fio cannot make a device new, which a fill needs.
        if point.run == last_run || point.workload.filled.is_some() {
            continue;
        }
        last_run = point.run;
        jobs += 1;
        text += &job(&point.workload, point.run, point.ios);
    }
    report.values.push(TunedValue {
        name: "jobs",
        value: jobs.to_string(),
        interval: None,
        reason: "one for each run, in their order, each after the one before".to_owned(),
        effect: "its JSON can be fitted with flashlab model fit, and compared".to_owned(),
        undo: "nothing is set".to_owned(),
    });
    report.text = text;
    report
}

fn job(workload: &Workload, run: u32, ios: usize) -> String {
    let share = workload.write_share;
    let (rw, mix) = match workload.class {
        _ if share > 0.0 && share < 1.0 => ("randrw", format!("rwmixwrite={:.0}\n", share * 100.0)),
        ThroughputClass::SequentialRead => ("read", String::new()),
        ThroughputClass::RandomRead => ("randread", String::new()),
        ThroughputClass::SequentialWrite => ("write", String::new()),
        ThroughputClass::RandomWrite => ("randwrite", String::new()),
    };
    let (offset, size) = (workload.target_offset.0, workload.target_size);
    let target = size.map_or(String::new(), |size| format!("offset={offset}\nsize={}\n", size.0));
    let (bs, depth) = (workload.size.0, workload.depth);
    format!(
        "\n[run-{run}]\nstonewall\nrw={rw}\n{mix}bs={bs}\niodepth={depth}\n{target}io_size={}\n",
        bs.saturating_mul(ios as u64)
    )
}
