//! Stoica et al.: what Append and Pack brings on the Fusion ioDrive.
//!
//! # Method
//! 1. A day of random writes ages the drive. Random reads and writes of 8 KiB by 15 threads give the baseline.
//! 2. The layer is put in front of an equally aged drive, with `1 / alpha` of its pages as logical ones. Each is written once, and
//!    then as many pages as the drive has two times over, so that sequential writes have replaced the random ones.
//! 3. The same reads and writes on the layer give its throughput, and the quotient is the speed-up.
//! 4. The prediction is that of the paper's section 3.3, with its ratios `T_RW = 10 T_SW` and `T_SW = 2 T_RR` (crate `model`).

mod layer;

use flashlab_base::{Bytes, Mode, Prng, Seed};
use flashlab_device::Device;
use flashlab_model::append_and_pack::{self, AppendAndPack};
use flashlab_plan::{Location, ModeRule};
use flashlab_repair::policy_named;

use crate::append_and_pack::layer::AppendLayer;
use crate::iodrive::{self, DAY, MIB, MIXED, NAME, PAGE, THREADS};
use crate::lab::{Result, numbered, on_all_processors, run};
use crate::papers::Measurement;
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

/// Tables 2 and 3, Figures 1 to 4.
pub(crate) const TABLES: Reproduction = Reproduction {
    name: "append-and-pack",
    title: "Append and Pack on the Fusion ioDrive, after a day of random writes",
    source: "Stoica et al., Evaluating and Repairing Write Performance on Flash Devices, Tables 2 and 3, Figures 1 to 4",
    measure,
};

/// A superblock of the drive: a block of 64 pages on each of 16 dies.
const SEGMENT: Bytes = Bytes::mib(8);
/// Looks at a drive with the layer in Figure 4b, the IOs of each, and the part of the drive that is written between them.
const LOOKS: u64 = 24;
const LOOK_IOS: u64 = 40_000;
const BETWEEN: f64 = 0.125;

/// Reads in percent, and alpha, as in Tables 2 and 3.
const ROWS: [(u32, u32); 5] = [(50, 2), (75, 2), (90, 2), (50, 3), (50, 4)];

#[derive(Clone, Copy)]
enum Experiment {
    Baseline(u32),
    Layer(u32, u32),
    OverTime,
    Figures,
}

fn measure(seed: Seed) -> Result<Measured> {
    let layers = ROWS.map(|(reads, alpha)| Experiment::Layer(reads, alpha));
    let baselines = [50, 75, 90].map(Experiment::Baseline);
    let pictures = [Experiment::OverTime, Experiment::Figures];
    let experiments = [&baselines[..], &layers, &pictures].concat();
    let parts = on_all_processors(&experiments, |&experiment| match experiment {
        Experiment::Baseline(reads) => baseline(reads, seed),
        Experiment::Layer(reads, alpha) => layer_values(reads, alpha, seed),
        Experiment::OverTime => over_time(seed),
        Experiment::Figures => figures(seed),
    })?;
    let (mut values, mut pictures) = (Vec::new(), Vec::new());
    for part in parts {
        values.extend(part.values);
        pictures.extend(part.pictures);
    }
    for (reads, alpha) in ROWS {
        let rate =
            |name: String| values.iter().find(|value| value.quantity == name).and_then(|value| value.value);
        let baseline = rate(format!("baseline_mib_s {}", mix(reads)));
        let layer = rate(quantity("append_and_pack_mib_s", reads, alpha));
        let speedup = layer.zip(baseline).map(|(layer, baseline)| layer / baseline);
        values.push(Measurement::new(NAME, quantity("speedup", reads, alpha), "ratio", speedup));
    }
    pictures.extend(model_pictures(&values));
    Ok(Measured { values, pictures })
}

fn mix(reads: u32) -> String {
    format!("{reads}/{}", 100 - reads)
}

fn quantity(name: &str, reads: u32, alpha: u32) -> String {
    format!("{name} {} alpha {alpha}", mix(reads))
}

fn mode(reads: u32) -> ModeRule {
    match reads {
        0 => ModeRule::Always(Mode::Write),
        reads => ModeRule::WriteProbability(f64::from(100 - reads) / 100.0),
    }
}

fn baseline(reads: u32, seed: Seed) -> Result<Measured> {
    let writes = f64::from(100 - reads) / 100.0;
    Ok(Measured { values: vec![iodrive::mix(writes, seed)?], pictures: Vec::new() })
}

/// The layer on an aged drive.
fn layer(alpha: u32, seed: Seed) -> Result<AppendLayer> {
    let drive = iodrive::aged(DAY, numbered(seed, 10))?;
    let segments = drive.geometry().capacity.0 / SEGMENT.0;
    let logical = segments * (SEGMENT.0 / PAGE.0) / u64::from(alpha);
    let policy = policy_named("append-and-pack").expect("it is the paper's")(segments as u32);
    AppendLayer::filled(drive, PAGE, SEGMENT, logical as u32, policy)
}

fn age(layer: &mut AppendLayer, capacities: f64, seed: Seed) -> Result<()> {
    let logical = layer.geometry().capacity.0 / PAGE.0;
    let table = layer.placer().table();
    let pages = u64::from(table.segment_count()) * u64::from(table.pages_per_segment());
    let mut random = Prng::new(seed);
    let count = (capacities * pages as f64) as u64;
    layer.condition_writes(&mut (0..count).map(|_| random.below(logical) as u32))
}

fn timed(layer: &mut AppendLayer, reads: u32, count: u64, seed: Seed) -> Result<f64> {
    let pattern = iodrive::pattern(mode(reads), Location::Random, PAGE, THREADS, count);
    Ok(iodrive::mib_s(&run(layer, &pattern, seed)?))
}

fn layer_values(reads: u32, alpha: u32, seed: Seed) -> Result<Measured> {
    let mut layer = layer(alpha, seed)?;
    age(&mut layer, 2.0, numbered(seed, 20))?;
    let mark = layer.placer().mark();
    let rate = timed(&mut layer, reads, MIXED, numbered(seed, 21))?;
    let status = layer.placer().status_since(&mark);
    let hot = status.logs.first();
    let value = |name: &str, unit, value: Option<f64>| {
        Measurement::new(NAME, quantity(name, reads, alpha), unit, value)
    };
    let values = vec![
        value("append_and_pack_mib_s", "MiB/s", Some(rate)),
        value("predicted_speedup", "ratio", Some(predicted_speedup(reads, alpha))),
        value("p_h", "percent", hot.and_then(|log| log.survival).map(|share| 100.0 * share)),
        value("write_amplification", "ratio", status.write_amplification),
    ];
    Ok(Measured { values, pictures: Vec::new() })
}

/// Section 3.3: `T_IO / T'_IO`.
fn predicted_speedup(reads: u32, alpha: u32) -> f64 {
    AppendAndPack::PAPER.speed_up(f64::from(reads) / 100.0, f64::from(alpha))
}

/// Figures 2 and 3: the curves of the model, and what the layer measured.
fn model_pictures(values: &[Measurement]) -> [FigurePicture; 2] {
    let measured = |quantity: String| {
        values.iter().find(|value| value.quantity == quantity).and_then(|value| value.value)
    };
    let copied = |(reads, alpha): (u32, u32)| {
        (reads == 50).then_some(())?;
        Some((f64::from(alpha), measured(quantity("p_h", reads, alpha))?))
    };
    let curve = append_and_pack::figure_2().into_iter().map(|(alpha, share)| (alpha, 100.0 * share));
    let survivors = append_and_pack::figure_2()
        .into_iter()
        .map(|(alpha, _)| (alpha, 100.0 * append_and_pack::valid_probability_with_survivors(alpha)));
    let figure_2 = FigurePicture::new(
        "append-and-pack-fig2",
        "Pages that are copied when the hot log is packed",
        FigureAxis::new("alpha: physical capacity / logical capacity", Scale::Steps),
        FigureAxis::new("pages copied (%)", Scale::Linear),
        vec![
            FigureSeries::new("measured", SeriesStyle::Dots, ROWS.into_iter().filter_map(copied).collect()),
            FigureSeries::new("model with survivors", SeriesStyle::Line, survivors.collect()),
            FigureSeries::new("the paper's model", SeriesStyle::PaperLine, curve.collect()),
        ],
    );
    let mut series = Vec::new();
    for (alpha, line) in append_and_pack::figure_3(AppendAndPack::PAPER) {
        let speedup = |(reads, of_row): (u32, u32)| {
            (f64::from(of_row) == alpha).then_some(())?;
            Some((f64::from(reads), measured(quantity("speedup", reads, of_row))?))
        };
        let dots: Vec<(f64, f64)> = ROWS.into_iter().filter_map(speedup).collect();
        let line = line.into_iter().map(|(reads, speedup)| (100.0 * reads, speedup)).collect();
        series.push(FigureSeries::new(format!("measured, alpha {alpha}"), SeriesStyle::Dots, dots));
        series.push(FigureSeries::new(
            format!("the paper's model, alpha {alpha}"),
            SeriesStyle::PaperLine,
            line,
        ));
    }
    series.retain(|series| !series.points.is_empty());
    let figure_3 = FigurePicture::new(
        "append-and-pack-fig3",
        "Speed-up of Append and Pack",
        FigureAxis::new("random reads among the IOs (%)", Scale::Linear),
        FigureAxis::new("speed-up", Scale::Linear),
        series,
    );
    [figure_2, figure_3]
}

/// Figure 4b: the layer on a drive after a day, from its first write on.
fn over_time(seed: Seed) -> Result<Measured> {
    let mut layer = layer(2, seed)?;
    // The drive of the zoo is a 64th of the real one.
    let scale = 160e9 / 2.5e9;
    let (mut hours, mut points) = (0.0, Vec::<(f64, f64)>::new());
    for look in 0..=LOOKS {
        if let Some(&(_, rate)) = points.last() {
            age(&mut layer, BETWEEN, numbered(seed, 30 + look))?;
            let table = layer.placer().table();
            let pages = f64::from(table.segment_count()) * f64::from(table.pages_per_segment());
            // Half of the IOs are writes.
            let bytes = (2.0 * BETWEEN * pages + LOOK_IOS as f64) * PAGE.0 as f64;
            hours += scale * bytes / MIB / rate / 3600.0;
        }
        points.push((hours, timed(&mut layer, 50, LOOK_IOS, numbered(seed, 60 + look))?));
    }
    let series = vec![
        FigureSeries::new("half reads, half writes", SeriesStyle::Curve, points),
        FigureSeries::level("paper: 349 MiB/s".to_owned(), 349.0),
        FigureSeries::level("paper, without the layer: 38 MiB/s".to_owned(), 38.0),
    ];
    let (x, y) =
        (FigureAxis::new("time (h)", Scale::Linear), FigureAxis::new("throughput (MiB/s)", Scale::Linear));
    let title = "Append and Pack on the ioDrive after a day of random writes, 15 threads";
    let picture = FigurePicture::new("append-and-pack-fig4b", title, x, y, series);
    Ok(Measured { values: Vec::new(), pictures: vec![picture] })
}

/// Figures 1 and 4a, which the reproduction `iodrive` draws.
fn figures(seed: Seed) -> Result<Measured> {
    let mut pictures = iodrive::random_then_sequential(seed)?.pictures;
    pictures.extend(iodrive::even_mix(seed)?.pictures);
    Ok(Measured { values: Vec::new(), pictures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_the_model_have_a_curve_for_each_alpha_and_what_was_measured() {
        let value = |quantity, unit, value| Measurement::new(NAME, quantity, unit, Some(value));
        let values = [
            value(quantity("p_h", 50, 2), "percent", 24.0),
            value(quantity("speedup", 50, 2), "ratio", 8.2),
            value(quantity("speedup", 90, 2), "ratio", 5.0),
        ];
        let [copied, speedup] = model_pictures(&values);
        assert_eq!(copied.series[0].points, [(2.0, 24.0)]);
        let paper = copied.series[2].points.iter().find(|(alpha, _)| (alpha - 3.0).abs() < 1e-9).unwrap();
        assert!((paper.1 - 4.98).abs() < 0.01);
        // Five curves, and the points of alpha 2.
        assert_eq!(speedup.series.len(), 6);
        assert!(speedup.series.iter().any(|series| series.points == [(50.0, 8.2), (90.0, 5.0)]));
    }
}
