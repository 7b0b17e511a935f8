//! What an IO costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! Ajwani et al., appendix A: the size of sequential IOs is doubled until the throughput grows by less than 2.5 %.
//! El Maghraoui et al., section 4: T = A + nB. Both are read off the same runs.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use super::patterns::{ios, responses};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const READS: Group = Group {
    name: "large-reads",
    about: "sequential reads of doubling size: what each costs beyond its bytes, and where larger brings nothing",
    parameters: &[Parameter::ReadCostPerIo, Parameter::ReadSaturationSize],
    write_share: 0.0,
    probe: reads,
};

/// Reads of each size.
const READS_EACH: u64 = 64;
/// The throughput has to grow by this much.
const GROWTH: f64 = 1.025;

fn reads(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let mut curve: Vec<(Bytes, f64)> = Vec::new();
    let mut size = session.block();
    let mut saturated = None;
    while size.0 * 4 <= session.capacity().0 && size <= Bytes::mib(16) {
        let count = READS_EACH.min(session.capacity().0 / size.0);
        let samples = session.run("sequential-reads", &ios(Mode::Read, Location::Sequential, size, count))?;
        let mut times = responses(&samples);
        times.sort_by(f64::total_cmp);
        let time = times[times.len() / 2];
        if let Some(&(last, before)) = curve.last()
            && size.0 as f64 / time < GROWTH * last.0 as f64 / before
        {
            saturated.get_or_insert(last);
        }
        curve.push((size, time));
        size = size * 2;
    }
    let points = curve.iter().map(|&(size, time)| (size.0 as f64, time)).collect();
    let picture = Picture::new(
        "Response time of sequential reads over their size; beyond the mark doubling brings less than 2.5 %.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("response time", "ns"),
    );
    let picture = picture.draw("sequential reads", Style::Line, points);
    if let Some(size) = saturated {
        let evidence = format!("doubling {size} brings less than 2.5 % of throughput");
        let found = Finding::found(Parameter::ReadSaturationSize, size, 0.5, evidence);
        session.conclude(found.with(picture.mark(size.0 as f64, "saturated")));
    }
    Ok(())
}
