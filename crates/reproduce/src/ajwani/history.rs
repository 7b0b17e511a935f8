//! Figures 3.3 and C.1 to C.4: what a burst of random writes does to the sequential writes after it.
//!
//! # Model
//! The whole device is written in order, random writes go on for some seconds, then sequential writes are watched for 30
//! phases of 4 s (appendix A). Their speed is a share of that without the random writes.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_device::Device;
use flashlab_plan::Pattern;
use flashlab_samples::Sample;

use super::{bandwidth, duration, figure, pattern, rewritten, start_anywhere};
use crate::lab::{Result, on_all_processors, run};
use crate::{Agreement, Figure, Reproduction};

const PAPER: &str = "Ajwani et al., Characterizing the performance of flash memory storage devices, section 3.3.3, Figure 3.3";
const APPENDIX: &str =
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

/// Figure C.4.
pub(crate) const FIGURE_C_4: Reproduction = Reproduction {
    name: "ajwani-c4",
    title: "Kingston DT Elite HS 2.0: writing the whole device after small random writes",
    source: APPENDIX,
    measure: figure_c_4,
};

/// How long a phase is, and how many there are.
const PHASE: Nanos = Nanos::from_secs(4);
const PHASES: usize = 30;

/// Sequential writes after random ones.
struct After {
    /// The speed in each phase as a share of the speed without random writes.
    phases: Vec<f64>,
}

impl After {
    /// Writes randomly for `seconds` with one size, and then sequentially with another.
    fn burst(name: &str, seconds: u64, random: Bytes, sequential: Bytes, mode: Mode) -> Result<After> {
        let usual = bandwidth(&mut rewritten(name)?, &pattern(mode, true, sequential), Seed(1))?;
        let mut device = rewritten(name)?;
        burst(&mut device, seconds, random)?;
        let watch = Pattern { duration: Some(PHASE * PHASES as u64), ..pattern(mode, true, sequential) };
        let samples = start_anywhere(&mut device, &watch, Seed(2))?;
        Ok(After { phases: phases(&samples).iter().map(|speed| speed / usual).collect() })
    }

    fn median(&self) -> f64 {
        let mut sorted = self.phases.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// How long it takes until a phase has `share` of the median speed.
    fn recovery_s(&self, share: f64) -> f64 {
        let least = share * self.median();
        let phase = self.phases.iter().position(|&speed| speed >= least).unwrap_or(self.phases.len());
        phase as f64 * PHASE.as_secs_f64()
    }
}

/// Random writes for some seconds.
fn burst(device: &mut dyn Device, seconds: u64, size: Bytes) -> Result<()> {
    let random = Pattern { duration: Some(Nanos::from_secs(seconds)), ..pattern(Mode::Write, false, size) };
    run(device, &random, Seed(seconds)).map(drop)
}

/// The speed in each phase, in MB/s. An IO counts where it ended.
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

/// The sizes that are tried, and what the quantities call them.
const SIZES: [(&str, Bytes); 5] = [
    ("512b", Bytes(512)),
    ("2k", Bytes::kib(2)),
    ("32k", Bytes::kib(32)),
    ("128k", Bytes::kib(128)),
    ("2m", Bytes::mib(2)),
];

fn figure_3_3() -> Result<Vec<Figure>> {
    let name = "transmemory-1g";
    let mut cases = Vec::from(SIZES.map(|(label, size)| (60, label, size, Mode::Write)));
    cases.extend([5, 30].map(|seconds| (seconds, "512b", Bytes(512), Mode::Write)));
    cases.push((60, "2k", Bytes::kib(2), Mode::Read));
    on_all_processors(&cases, |&(seconds, label, size, mode)| {
        let median = After::burst(name, seconds, Bytes::kib(2), size, mode)?.median();
        let what = if mode == Mode::Read { "read" } else { "write" };
        let quantity = format!("sequential_{what}_{label}_median_share_after_{seconds}s");
        // In words: very small blocks lose more than half, larger ones more than 10 %, reads nothing.
        let (paper, agreement) = match (mode, seconds, size.0) {
            (Mode::Read, ..) => (Some(1.0), Agreement::Within(0.05)),
            (_, 60, ..=2048) => (Some(0.5), Agreement::AtMost),
            (_, 60, _) => (Some(0.9), Agreement::AtMost),
            _ => (None, Agreement::Any),
        };
        Ok(figure(name, &quantity, "", paper, median, agreement))
    })
}

fn figure_c_1() -> Result<Vec<Figure>> {
    let name = "transmemory-1g";
    let recoveries = on_all_processors(&SIZES, |&(_, size)| {
        After::burst(name, 30, size, size, Mode::Write).map(|after| after.recovery_s(0.6))
    })?;
    let longest = recoveries.iter().copied().fold(0.0, f64::max);
    let at_once = recoveries.iter().filter(|&&seconds| seconds == 0.0).count();
    let mut figures = vec![
        // "In some buffer sizes, it can take it 20-30 seconds to recover."
        figure(name, "longest_recovery_after_30s_s", "s", 30.0, longest, Agreement::Within(0.4)),
        figure(name, "sizes_that_recover_at_once", "", 1.0, at_once as f64, Agreement::AtLeast),
    ];
    let aligned = bandwidth(&mut rewritten(name)?, &pattern(Mode::Write, false, Bytes::mib(2)), Seed(3))?;
    for shift in [Bytes::kib(2), Bytes::kib(16), Bytes::kib(32)] {
        let mut writes = pattern(Mode::Write, false, Bytes::mib(2));
        writes.first.io_shift = shift;
        let ratio = bandwidth(&mut rewritten(name)?, &writes, Seed(3))? / aligned;
        let quantity = format!("random_write_misaligned_{}k_over_aligned", shift.0 >> 10);
        figures.push(figure(name, &quantity, "", 1.0, ratio, Agreement::AtMost));
    }
    Ok(figures)
}

fn figure_c_2() -> Result<Vec<Figure>> {
    let name = "mdrive-100";
    let small = After::burst(name, 60, Bytes::kib(2), Bytes::kib(32), Mode::Write)?;
    let large = Bytes::mib(2);
    let after_small = After::burst(name, 60, Bytes::kib(2), large, Mode::Write)?.median();
    let after_large = After::burst(name, 60, large, large, Mode::Write)?.median();
    let mean = |phases: &[f64]| phases.iter().sum::<f64>() / phases.len() as f64;
    let change = mean(&small.phases[PHASES - 10..]) / mean(&small.phases[1..11]);
    Ok(vec![
        figure(
            name,
            "sequential_write_32k_median_share_after_60s",
            "",
            1.0,
            small.median(),
            Agreement::AtMost,
        ),
        figure(name, "last_40s_over_first_40s", "", 1.0, change, Agreement::Within(0.1)),
        figure(name, "recovery_after_60s_s", "s", 0.0, small.recovery_s(0.6), Agreement::Within(0.0)),
        // "Random writes of 2 KB usually slow down subsequent writes more than random writes of larger blocks."
        figure(name, "share_after_2k_over_after_2m", "", 1.0, after_small / after_large, Agreement::AtMost),
    ])
}

fn figure_c_3() -> Result<Vec<Figure>> {
    let name = "transmemory-1g";
    let size = Bytes::kib(32);
    let after = |seconds| After::burst(name, seconds, size, size, Mode::Write);
    let (long, short) = (after(30)?, after(5)?);
    let mut first: Vec<f64> = long.phases[..7].to_vec();
    first.sort_by(f64::total_cmp);
    Ok(vec![
        // The median of 28 s: in the first phase the drive still writes what its buffer holds of the random writes.
        figure(name, "sequential_write_32k_share_after_30s", "", 0.3, first[3], Agreement::Within(0.2)),
        figure(name, "recovery_after_30s_s", "s", 30.0, long.recovery_s(0.6), Agreement::Within(0.4)),
        figure(name, "recovery_after_5s_s", "s", 30.0, short.recovery_s(0.6), Agreement::AtMost),
    ])
}

fn figure_c_4() -> Result<Vec<Figure>> {
    let cases: Vec<(&str, u64, u64)> = vec![
        ("dt-elite-2g", 0, 0),
        ("dt-elite-2g", 5, 512),
        ("dt-elite-2g", 60, 512),
        ("dt-elite-2g", 60, 1024),
        ("dt-elite-2g", 60, 2048),
        ("dt-elite-4g", 0, 0),
        ("dt-elite-4g", 60, 512),
    ];
    let minutes = on_all_processors(&cases, |&(name, seconds, size)| {
        let mut device = rewritten(name)?;
        if seconds > 0 {
            burst(&mut device, seconds, Bytes(size))?;
        }
        let first = whole_device_minutes(&mut device)?;
        Ok((first, whole_device_minutes(&mut device)?))
    })?;
    let mut figures = Vec::new();
    let mut usual = 1.0;
    for ((name, seconds, size), (first, second)) in cases.into_iter().zip(minutes) {
        if seconds == 0 {
            usual = first;
            // Of the larger one the paper only says that it behaves in the same way.
            let paper = (name == "dt-elite-2g").then_some(3.0);
            let agreement = if paper.is_some() { Agreement::Within(0.15) } else { Agreement::Any };
            figures.push(figure(name, "rewrite_min", "min", paper, first, agreement));
            continue;
        }
        let after = format!("after_{seconds}s_of_{size}b");
        let slower = format!("rewrite_{after}_over_usual");
        if name == "dt-elite-2g" {
            figures.push(figure(
                name,
                &format!("rewrite_{after}_min"),
                "min",
                25.0,
                first,
                Agreement::AtLeast,
            ));
        }
        figures.push(figure(name, &slower, "", 8.0, first / usual, Agreement::AtLeast));
        let again = format!("second_rewrite_{after}_over_usual");
        figures.push(figure(name, &again, "", 1.0, second / usual, Agreement::Within(0.05)));
    }
    let name = "dt-elite-2g";
    for (label, size) in [("512b", 512), ("2k", 2048)] {
        let share = After::burst(name, 30, Bytes(size), Bytes(size), Mode::Write)?.median();
        let quantity = format!("sequential_write_{label}_share_after_30s");
        figures.push(figure(name, &quantity, "", 0.05, share, Agreement::AtMost));
    }
    Ok(figures)
}

/// How long it takes to write the whole device in order with requests of 2 MB.
fn whole_device_minutes(device: &mut dyn Device) -> Result<f64> {
    let size = Bytes::mib(2);
    let count = device.geometry().capacity.0 / size.0;
    let whole = Pattern { duration: None, io_count: Some(count), ..pattern(Mode::Write, true, size) };
    Ok(duration(&run(device, &whole, Seed(4))?).as_secs_f64() / 60.0)
}
