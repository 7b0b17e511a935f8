//! Figures 3.3 and C.1 to C.3: the effect of a burst of random writes on the sequential writes after it.
//!
//! # Model
//! 1. The whole device is written sequentially.
//! 2. Random writes run for some seconds.
//! 3. Sequential writes are measured in 30 phases of 4 s (appendix A). Their speed is given relative to that
//!    without random writes.

use flashlab_base::{Bytes, Mode, Nanos, Sample, Seed, median};
use flashlab_device::Device;
use flashlab_plan::Pattern;

use super::alignment::{misaligned_over_aligned, ratio_picture, ratio_series, ratio_values};
use super::{bandwidth, pattern, rewritten, run_at_random_start};
use crate::lab::{Result, mean, numbered, on_all_processors, run};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

const PAPER: &str = "Ajwani et al., Characterizing the performance of flash memory storage devices, section 3.3.3, Figure 3.3";
pub(super) const APPENDIX: &str =
    "Ajwani et al., Characterizing the performance of flash memory storage devices, appendix C";

/// Figure 3.3.
pub(crate) const FIGURE_3_3: Reproduction = Reproduction {
    name: "ajwani-fig3.3",
    title: "Toshiba TransMemory 1 GB: median sequential write speed in the two minutes after random writes",
    source: PAPER,
    measure: figure_3_3,
};

/// Figure C.1.
pub(crate) const FIGURE_C_1: Reproduction = Reproduction {
    name: "ajwani-c1",
    title: "Toshiba TransMemory 1 GB: time to 60 % of the median speed after random writes",
    source: APPENDIX,
    measure: figure_c_1,
};

/// Figure C.2.
pub(crate) const FIGURE_C_2: Reproduction = Reproduction {
    name: "ajwani-c2",
    title: "M-Systems mDrive 100: a constant decrease after random writes, with no recovery",
    source: APPENDIX,
    measure: figure_c_2,
};

/// Figure C.3.
pub(crate) const FIGURE_C_3: Reproduction = Reproduction {
    name: "ajwani-c3",
    title: "Toshiba TransMemory 1 GB: sequential writes of 32 KB after 30 s of random ones",
    source: APPENDIX,
    measure: figure_c_3,
};

/// The length of a phase, and the number of phases.
const PHASE: Nanos = Nanos::from_secs(4);
const PHASES: usize = 30;

/// Sequential writes after random ones.
pub(super) struct After {
    /// The speed in each phase, relative to the speed without random writes.
    phases: Vec<f64>,
}

impl After {
    /// Writes randomly for `seconds` with one size, and then sequentially with another.
    pub(super) fn burst(
        name: &str,
        seconds: u64,
        random: Bytes,
        sequential: Bytes,
        mode: Mode,
        seed: Seed,
    ) -> Result<After> {
        let usual = bandwidth(&mut rewritten(name)?, &pattern(mode, true, sequential), numbered(seed, 1))?;
        let mut device = rewritten(name)?;
        burst(&mut device, seconds, random, seed)?;
        let watch = Pattern { duration: Some(PHASE * PHASES as u64), ..pattern(mode, true, sequential) };
        let samples = run_at_random_start(&mut device, &watch, numbered(seed, 2))?;
        Ok(After { phases: phases(&samples).iter().map(|speed| speed / usual).collect() })
    }

    pub(super) fn median(&self) -> f64 {
        median(&self.phases).unwrap_or_default()
    }

    /// The relative speed over time: at the middle of each phase, in seconds.
    fn over_time(&self) -> Vec<(f64, f64)> {
        let middle = |i: usize| (i as f64 + 0.5) * PHASE.as_secs_f64();
        self.phases.iter().enumerate().map(|(i, share)| (middle(i), *share)).collect()
    }

    /// The time until a phase has `share` of the median speed.
    fn recovery_s(&self, share: f64) -> f64 {
        let least = share * self.median();
        let phase = self.phases.iter().position(|&speed| speed >= least).unwrap_or(self.phases.len());
        phase as f64 * PHASE.as_secs_f64()
    }
}

/// Random writes for some seconds.
pub(super) fn burst(device: &mut dyn Device, seconds: u64, size: Bytes, seed: Seed) -> Result<()> {
    let random = Pattern { duration: Some(Nanos::from_secs(seconds)), ..pattern(Mode::Write, false, size) };
    run(device, &random, numbered(seed, seconds)).map(drop)
}

/// The speed in each phase, in MB/s. An IO counts in the phase in which it ended.
fn phases(samples: &[Sample]) -> Vec<f64> {
    let start = samples.first().map_or(Nanos::ZERO, |sample| sample.submitted);
    let mut bytes = vec![0; PHASES];
    for sample in samples {
        if let Some(phase) = bytes.get_mut((sample.completed.since(start).0 / PHASE.0) as usize) {
            *phase += sample.size.0;
        }
    }
    bytes.into_iter().map(|bytes| bytes as f64 / 1e6 / PHASE.as_secs_f64()).collect()
}

/// The sizes, and their names in the quantities.
const SIZES: [(&str, Bytes); 5] = [
    ("512b", Bytes(512)),
    ("2k", Bytes::kib(2)),
    ("32k", Bytes::kib(32)),
    ("128k", Bytes::kib(128)),
    ("2m", Bytes::mib(2)),
];

const TRANSMEMORY: &str = "transmemory-1g";
const MDRIVE: &str = "mdrive-100";

/// Medians over the block size: the seconds of random writes, and the mode of the IOs after them.
const CURVES: [(u64, Mode); 4] = [(5, Mode::Write), (30, Mode::Write), (60, Mode::Write), (60, Mode::Read)];

fn figure_3_3(seed: Seed) -> Result<Measured> {
    let name = TRANSMEMORY;
    let cases: Vec<(u64, Mode, &str, Bytes)> = CURVES
        .iter()
        .flat_map(|&(seconds, mode)| SIZES.map(|(label, size)| (seconds, mode, label, size)))
        .collect();
    let medians = on_all_processors(&cases, |&(seconds, mode, _, size)| {
        Ok(After::burst(name, seconds, Bytes::kib(2), size, mode, seed)?.median())
    })?;
    let word = |mode| if mode == Mode::Read { "read" } else { "write" };
    let values = cases.iter().zip(&medians).map(|(&(seconds, mode, label, _), &median)| {
        let quantity = format!("sequential_{}_{label}_median_share_after_{seconds}s", word(mode));
        Measurement::new(name, quantity, "", median)
    });
    let curve = |&(seconds, mode): &(u64, Mode)| {
        let of_it = cases.iter().zip(&medians).filter(|(case, _)| (case.0, case.1) == (seconds, mode));
        let points = of_it.map(|(case, median)| (case.3.0 as f64 / 1024.0, *median)).collect();
        FigureSeries::new(format!("{}s after {seconds} s", word(mode)), SeriesStyle::Curve, points)
    };
    let of_paper =
        |size| paper("ajwani-fig3.3", name, &format!("sequential_write_{size}_median_share_after_60s"));
    let mut series = vec![
        FigureSeries::level(
            "paper: less than half for very small writes, less than 0.9 for larger ones",
            of_paper("512b"),
        ),
        FigureSeries::level("", of_paper("2m")),
    ];
    series.extend(CURVES.iter().map(curve));
    let x = FigureAxis::new("buffer of the sequential requests (KiB)", Scale::Binary);
    let y = FigureAxis::new("median speed / usual speed", Scale::Linear);
    let title = "TransMemory 1 GB in the two minutes after random writes of 2 KiB";
    Ok(Measured {
        values: values.collect(),
        pictures: vec![FigurePicture::new("ajwani-fig3.3", title, x, y, series)],
    })
}

fn figure_c_1(seed: Seed) -> Result<Measured> {
    let name = TRANSMEMORY;
    let recoveries = on_all_processors(&SIZES, |&(_, size)| {
        After::burst(name, 30, size, size, Mode::Write, seed).map(|after| after.recovery_s(0.6))
    })?;
    let longest = recoveries.iter().copied().fold(0.0, f64::max);
    let at_once = recoveries.iter().filter(|&&seconds| seconds == 0.0).count();
    let ratios = misaligned_over_aligned(name, seed)?;
    let mut values = vec![
        // "In some buffer sizes, it can take it 20-30 seconds to recover."
        Measurement::new(name, "longest_recovery_after_30s_s", "s", longest),
        Measurement::new(name, "sizes_that_recover_at_once", "", at_once as f64),
    ];
    values.extend(ratio_values(name, &ratios));
    let points = SIZES.iter().zip(&recoveries).map(|((_, size), s)| (size.0 as f64 / 1024.0, *s)).collect();
    let longest = paper("ajwani-c1", name, "longest_recovery_after_30s_s");
    let series = vec![
        FigureSeries::new("after 30 s of random writes of the same size", SeriesStyle::Curve, points),
        FigureSeries::level("paper: up to 20 to 30 s in some sizes", longest),
    ];
    let (x, y) = (
        FigureAxis::new("buffer (KiB)", Scale::Binary),
        FigureAxis::new("time to 60 % of the median speed (s)", Scale::Linear),
    );
    let recovery = FigurePicture::new("ajwani-c1-recovery", "Recovery of the TransMemory 1 GB", x, y, series);
    let misaligned = ratio_picture(
        "ajwani-c1-misaligned",
        "Misaligned random writes of 2 MiB on the TransMemory 1 GB",
        vec![ratio_series("TransMemory 1 GB", &ratios)],
    );
    Ok(Measured { values, pictures: vec![recovery, misaligned] })
}

fn figure_c_2(seed: Seed) -> Result<Measured> {
    let name = MDRIVE;
    let small = After::burst(name, 60, Bytes::kib(2), Bytes::kib(32), Mode::Write, seed)?;
    let large = Bytes::mib(2);
    let after_small = After::burst(name, 60, Bytes::kib(2), large, Mode::Write, seed)?.median();
    let after_large = After::burst(name, 60, large, large, Mode::Write, seed)?.median();
    let change = mean(&small.phases[PHASES - 10..]) / mean(&small.phases[1..11]);
    let value = |quantity, unit, value: f64| Measurement::new(name, quantity, unit, value);
    let values = vec![
        value("sequential_write_32k_median_share_after_60s", "", small.median()),
        value("last_40s_over_first_40s", "", change),
        value("recovery_after_60s_s", "s", small.recovery_s(0.6)),
        // "Random writes of 2 KB usually slow down subsequent writes more than random writes of larger blocks."
        value("share_after_2k_over_after_2m", "", after_small / after_large),
    ];
    let series = vec![
        FigureSeries::new(
            "writes of 32 KiB after 60 s of random writes of 2 KiB",
            SeriesStyle::Curve,
            small.over_time(),
        ),
        FigureSeries::level("paper: below the usual speed, with no recovery", 1.0),
    ];
    let picture = time_line("ajwani-c2", "Sequential writes on the mDrive 100", series);
    Ok(Measured { values, pictures: vec![picture] })
}

fn figure_c_3(seed: Seed) -> Result<Measured> {
    let name = TRANSMEMORY;
    let size = Bytes::kib(32);
    let after = |seconds| After::burst(name, seconds, size, size, Mode::Write, seed);
    let (long, short) = (after(30)?, after(5)?);
    let mut first: Vec<f64> = long.phases[..7].to_vec();
    first.sort_by(f64::total_cmp);
    let share = "sequential_write_32k_share_after_30s";
    let values = vec![
        // The median of 28 s. In the first phase the drive still writes the random writes that are in its
        // buffer.
        Measurement::new(name, share, "", first[3]),
        Measurement::new(name, "recovery_after_30s_s", "s", long.recovery_s(0.6)),
        Measurement::new(name, "recovery_after_5s_s", "s", short.recovery_s(0.6)),
    ];
    let of_paper = |quantity| paper("ajwani-c3", name, quantity);
    let series = vec![
        FigureSeries::new("after 30 s of random writes", SeriesStyle::Curve, long.over_time()),
        FigureSeries::level("paper: about 0.3", of_paper(share)),
        FigureSeries::place("paper: climbs after 30 s", of_paper("recovery_after_30s_s")),
        FigureSeries::new("after 5 s", SeriesStyle::Curve, short.over_time()),
    ];
    let picture = time_line("ajwani-c3", "Sequential writes of 32 KiB on the TransMemory 1 GB", series);
    Ok(Measured { values, pictures: vec![picture] })
}

fn time_line(name: &str, title: &str, series: Vec<FigureSeries>) -> FigurePicture {
    let x = FigureAxis::new("time since the random writes (s)", Scale::Linear);
    FigurePicture::new(name, title, x, FigureAxis::new("speed / usual speed", Scale::Linear), series)
}
