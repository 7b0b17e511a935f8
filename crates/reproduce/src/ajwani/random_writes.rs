//! Figure 3.2: a drive that from time to time puts everything in order.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_plan::Pattern;

use super::{figure, pattern, rewritten};
use crate::lab::{Result, run};
use crate::{Agreement, Figure, Reproduction};

/// Figure 3.2.
pub(crate) const FIGURE_3_2: Reproduction = Reproduction {
    name: "ajwani-fig3.2",
    title: "Random writes to a file of 8 GB on the Hama: when the spikes come and how long they take",
    source: "Ajwani et al., Characterizing the performance of flash memory storage devices, section 3.3.2 and Figure 3.2",
    measure,
};

/// Numbers of 8 bytes in a file reach the drive as the file system's pages.
const PAGE: Bytes = Bytes(4096);
const FILE: Bytes = Bytes(8 << 30);
/// The figure shows several spikes.
const WRITES: u64 = 12_000;

fn measure() -> Result<Vec<Figure>> {
    let name = "hama";
    let mut device = rewritten(name)?;
    let mut writes = pattern(Mode::Write, false, PAGE);
    writes.first.target_size = Some(FILE);
    let writes = Pattern { duration: None, io_count: Some(WRITES), ..writes };
    let samples = run(&mut device, &writes, Seed(32))?;
    let spikes: Vec<usize> =
        (0..samples.len()).filter(|&i| samples[i].response() > Nanos::from_secs(1)).collect();
    let between: Vec<f64> = spikes.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let took: Vec<f64> = spikes.iter().map(|&i| samples[i].response().as_secs_f64()).collect();
    let quiet: f64 =
        samples.iter().map(|sample| sample.response().as_secs_f64()).sum::<f64>() - took.iter().sum::<f64>();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let least = took.iter().copied().fold(f64::INFINITY, f64::min);
    let most = took.iter().copied().fold(0.0, f64::max);
    let first = spikes.first().map_or(0.0, |&spike| spike as f64);
    let writing = quiet / (WRITES as f64 - spikes.len() as f64) * 2000.0;
    Ok(vec![
        figure(name, "writes_before_first_spike", "", 3000.0, first, Agreement::Within(0.15)),
        figure(name, "writes_between_spikes", "", 2000.0, mean(&between), Agreement::Within(0.15)),
        figure(name, "shortest_spike_s", "s", 5.0, least, Agreement::AtLeast),
        figure(name, "longest_spike_s", "s", 8.0, most, Agreement::AtMost),
        figure(name, "2000_writes_between_spikes_s", "s", 0.8, writing, Agreement::AtMost),
    ])
}
