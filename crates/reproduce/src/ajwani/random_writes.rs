//! Figure 3.2: a drive that reorganises itself from time to time.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_plan::Pattern;

use super::{pattern, rewritten};
use crate::lab::{Result, mean, numbered, run};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

/// Figure 3.2.
pub(crate) const FIGURE_3_2: Reproduction = Reproduction {
    name: NAME,
    title: "Random writes to a file of 8 GB on the Hama: when the spikes come and how long they take",
    source: "Ajwani et al., Characterizing the performance of flash memory storage devices, section 3.3.2 and Figure 3.2",
    measure,
};

const NAME: &str = "ajwani-fig3.2";
const DEVICE: &str = "hama";
/// The paper writes numbers of 8 bytes to a file; they reach the drive as pages of the file system.
const PAGE: Bytes = Bytes(4096);
const FILE: Bytes = Bytes(8 << 30);
/// The figure shows several spikes.
const WRITES: u64 = 12_000;

fn measure(seed: Seed) -> Result<Measured> {
    let mut device = rewritten(DEVICE)?;
    let mut writes = pattern(Mode::Write, false, PAGE);
    writes.first.target_size = Some(FILE);
    let writes = Pattern { duration: None, io_count: Some(WRITES), ..writes };
    let times: Vec<Nanos> =
        run(&mut device, &writes, numbered(seed, 32))?.iter().map(|sample| sample.response()).collect();
    let spikes: Vec<usize> = (0..times.len()).filter(|&i| times[i] > Nanos::from_secs(1)).collect();
    let between: Vec<f64> = spikes.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let took: Vec<f64> = spikes.iter().map(|&i| times[i].as_secs_f64()).collect();
    let quiet: f64 = times.iter().map(|time| time.as_secs_f64()).sum::<f64>() - took.iter().sum::<f64>();
    let least = took.iter().copied().fold(f64::INFINITY, f64::min);
    let most = took.iter().copied().fold(0.0, f64::max);
    let first = spikes.first().map_or(0.0, |&spike| spike as f64);
    let writing = quiet / (WRITES as f64 - spikes.len() as f64) * 2000.0;
    let value = |quantity, unit, value: f64| Measurement::new(DEVICE, quantity, unit, value);
    Ok(Measured {
        values: vec![
            value("writes_before_first_spike", "", first),
            value("writes_between_spikes", "", mean(&between)),
            value("shortest_spike_s", "s", least),
            value("longest_spike_s", "s", most),
            value("2000_writes_between_spikes_s", "s", writing),
        ],
        pictures: vec![picture(&times)],
    })
}

fn picture(times: &[Nanos]) -> FigurePicture {
    let points = times.iter().enumerate().map(|(i, time)| (i as f64, time.as_secs_f64())).collect();
    let of_paper = |quantity| paper(NAME, DEVICE, quantity);
    let first = of_paper("writes_before_first_spike");
    let series = vec![
        FigureSeries::new("each random write", SeriesStyle::Line, points),
        FigureSeries::level("paper: spikes of 5 to 8 s", of_paper("shortest_spike_s")),
        FigureSeries::level("", of_paper("longest_spike_s")),
        FigureSeries::place("paper: the first after 3000, then after every 2000", first),
        FigureSeries::place("", first + of_paper("writes_between_spikes")),
        FigureSeries::place("", first + 2.0 * of_paper("writes_between_spikes")),
    ];
    let (x, y) =
        (FigureAxis::new("write", Scale::Linear), FigureAxis::new("response time (s)", Scale::Linear));
    FigurePicture::new(NAME, "Random writes to a file of 8 GB on the Hama", x, y, series)
}
