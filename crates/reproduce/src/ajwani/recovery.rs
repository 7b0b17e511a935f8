//! Figure C.4: a drive that is slow until it has been completely rewritten sequentially.

use flashlab_base::{Bytes, Mode, Seed};
use flashlab_device::Device;
use flashlab_plan::Pattern;

use super::history::{APPENDIX, After, burst};
use super::{pattern, rewritten};
use crate::lab::{Result, elapsed, numbered, on_all_processors, run};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

/// Figure C.4.
pub(crate) const FIGURE_C_4: Reproduction = Reproduction {
    name: NAME,
    title: "Kingston DT Elite HS 2.0: writing the whole device after small random writes",
    source: APPENDIX,
    measure,
};

const NAME: &str = "ajwani-c4";
const SMALL: &str = "dt-elite-2g";
const LARGE: &str = "dt-elite-4g";

/// The random writes before: a device, their time in seconds, their size in bytes. The first case of each
/// device has none.
const CASES: [(&str, u64, u64); 15] = [
    (SMALL, 0, 0),
    (SMALL, 5, 512),
    (SMALL, 15, 512),
    (SMALL, 30, 512),
    (SMALL, 60, 512),
    (SMALL, 5, 1024),
    (SMALL, 15, 1024),
    (SMALL, 30, 1024),
    (SMALL, 60, 1024),
    (SMALL, 5, 2048),
    (SMALL, 15, 2048),
    (SMALL, 30, 2048),
    (SMALL, 60, 2048),
    (LARGE, 0, 0),
    (LARGE, 60, 512),
];
/// The cases with a row in the table; the others are only in the picture.
const IN_TABLE: [(u64, u64); 4] = [(5, 512), (60, 512), (60, 1024), (60, 2048)];

fn measure(seed: Seed) -> Result<Measured> {
    let minutes = on_all_processors(&CASES, |&(name, seconds, size)| {
        let mut device = rewritten(name)?;
        if seconds > 0 {
            burst(&mut device, seconds, Bytes(size), seed)?;
        }
        let first = whole_device_minutes(&mut device, seed)?;
        Ok((first, whole_device_minutes(&mut device, seed)?))
    })?;
    let mut values = Vec::new();
    let mut usual = 1.0;
    for (&(name, seconds, size), &(first, second)) in CASES.iter().zip(&minutes) {
        if seconds == 0 {
            usual = first;
            values.push(Measurement::new(name, "rewrite_min", "min", first));
            continue;
        }
        if !IN_TABLE.contains(&(seconds, size)) {
            continue;
        }
        let after = format!("after_{seconds}s_of_{size}b");
        // About the larger one, the paper only says that it behaves in the same way.
        if name == SMALL {
            values.push(Measurement::new(name, format!("rewrite_{after}_min"), "min", first));
        }
        values.push(Measurement::new(name, format!("rewrite_{after}_over_usual"), "", first / usual));
        values.push(Measurement::new(name, format!("second_rewrite_{after}_over_usual"), "", second / usual));
    }
    for (label, size) in [("512b", 512), ("2k", 2048)] {
        let share = After::burst(SMALL, 30, Bytes(size), Bytes(size), Mode::Write, seed)?.median();
        values.push(Measurement::new(SMALL, format!("sequential_write_{label}_share_after_30s"), "", share));
    }
    Ok(Measured { values, pictures: vec![picture(&minutes)] })
}

/// The time to write the whole device sequentially with requests of 2 MB.
fn whole_device_minutes(device: &mut dyn Device, seed: Seed) -> Result<f64> {
    let size = Bytes::mib(2);
    let count = device.geometry().capacity.0 / size.0;
    let whole = Pattern { duration: None, io_count: Some(count), ..pattern(Mode::Write, true, size) };
    Ok(elapsed(&run(device, &whole, numbered(seed, 4))?).as_secs_f64() / 60.0)
}

fn picture(minutes: &[(f64, f64)]) -> FigurePicture {
    let curve = |size: u64| {
        let of_it =
            CASES.iter().zip(minutes).filter(|(case, _)| case.0 == SMALL && [0, size].contains(&case.2));
        let points = of_it.map(|(case, minutes)| (case.1 as f64, minutes.0)).collect();
        FigureSeries::new(format!("{size} B"), SeriesStyle::Curve, points)
    };
    let level = |name, quantity| FigureSeries::level(name, paper(NAME, SMALL, quantity));
    let series = vec![
        level("paper: 3 min usually, more than 25 after random writes", "rewrite_min"),
        level("", "rewrite_after_60s_of_512b_min"),
        curve(512),
        curve(1024),
        curve(2048),
    ];
    let x = FigureAxis::new("random writes before (s)", Scale::Linear);
    let y = FigureAxis::new("writing the whole device (min)", Scale::Linear);
    FigurePicture::new(
        NAME,
        "DT Elite HS 2.0, 2 GB: sequential writes of 2 MiB after random writes",
        x,
        y,
        series,
    )
}
