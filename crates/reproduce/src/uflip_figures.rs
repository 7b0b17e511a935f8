//! Reproduces uFLIP (CIDR 2009), Figures 3 to 8, and the Samsung's values of sections 4.1 and 5.2.
//!
//! The paper has the figures only as pictures, so the values in its text are compared.

use flashlab_analysis::findings::{Baseline, Findings, Point, Traces};
use flashlab_analysis::trace;
use flashlab_base::{Bytes, Mode, Nanos, Sample, Seed};
use flashlab_device::Device;
use flashlab_plan::{Basic, Location, ModeRule, Pattern, Space};
use flashlab_sim::SimulatedDevice;

use crate::lab::{
    ReproduceError, Result, Run, condition, device, mean, mean_us, on_all_processors, plan, run,
};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};
use crate::uflip::measured;

const fn reproduction(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    measure: fn(Seed) -> Result<Measured>,
) -> Reproduction {
    Reproduction { name, title, source, measure }
}

/// Figure 3.
pub(crate) const FIGURE_3: Reproduction = reproduction(
    "uflip-fig3",
    "Start-up and running phase of random writes on the Mtron",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 3 and sections 4.2 and 5.1",
    |seed| {
        let run = measured(MTRON, &[], seed)?;
        let random = baseline(&run.findings, "RW");
        let startup = random.map(|baseline| baseline.phases.startup_ios as f64);
        let period = random.and_then(|baseline| baseline.phases.period_ios).map(|ios| ios as f64);
        let ignored = random.map(|baseline| baseline.io_ignore as f64);
        let values = vec![
            Measurement::new(MTRON, "random-write start-up phase", "IOs", startup),
            Measurement::new(MTRON, "random-write period", "IOs", period),
            Measurement::new(MTRON, "IOIgnore used for random writes", "IOs", ignored),
        ];
        let begin = paper("uflip-fig3", MTRON, "random-write start-up phase");
        let mut series = vec![FigureSeries::place("paper: the start-up phase ends, 125 IOs", begin)];
        series.extend(first_ios(&run, "RW", 400)?);
        let title = "Random writes of 32 KiB on the Mtron";
        Ok(Measured { values, pictures: vec![trace_picture("uflip-fig3", title, Scale::Linear, series)] })
    },
);

/// Figure 4.
pub(crate) const FIGURE_4: Reproduction = reproduction(
    "uflip-fig4",
    "Running phase of sequential writes on the Kingston DTI",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 4 and section 4.2",
    |seed| {
        let run = measured(DTI, &[], seed)?;
        let phases = baseline(&run.findings, "SW").map(|baseline| &baseline.phases);
        let startup = phases.map(|phases| phases.startup_ios as f64);
        let period = phases.and_then(|phases| phases.period_ios).map(|ios| ios as f64);
        let values = vec![
            Measurement::new(DTI, "sequential-write start-up phase", "IOs", startup),
            Measurement::new(DTI, "sequential-write period", "IOs", period),
        ];
        let of_paper = paper("uflip-fig4", DTI, "sequential-write period");
        let name = |i| if i == 1 { "paper: a period of 128 IOs" } else { "" };
        let mut series: Vec<FigureSeries> =
            (1..=4).map(|i| FigureSeries::place(name(i), f64::from(i) * of_paper)).collect();
        series.extend(first_ios(&run, "SW", 520)?);
        let title = "Sequential writes of 32 KiB on the Kingston DTI";
        Ok(Measured { values, pictures: vec![trace_picture("uflip-fig4", title, Scale::Decimal, series)] })
    },
);

/// Figure 5.
pub(crate) const FIGURE_5: Reproduction = reproduction(
    "uflip-fig5",
    "Sequential reads after random writes on the Mtron",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 5 and section 4.3",
    |seed| {
        let run = measured(MTRON, &[], seed)?;
        let lingering = run.findings.lingering.as_ref();
        let reads = lingering.map(|lingering| lingering.affected_reads as f64);
        let time = lingering.map(|lingering| lingering.affected.as_secs_f64());
        let pause = lingering.map(|lingering| lingering.pause.as_secs_f64());
        let effect = "lingering effect of random writes on sequential reads";
        let values = vec![
            Measurement::new(MTRON, effect, "IOs", reads),
            Measurement::new(MTRON, effect, "s", time),
            Measurement::new(MTRON, "pause used between runs", "s", pause),
        ];
        Ok(Measured { values, pictures: vec![lingering_picture(&run.traces)] })
    },
);

/// Reads, random writes, and reads once more, in their order.
fn lingering_picture(traces: &Traces) -> FigurePicture {
    let mut series = Vec::new();
    if let Some(trace) = traces.traces.iter().find(|trace| trace.name == "lingering") {
        // The phases are reads, writes, and the reads after them.
        if let Some((after, _)) = trace.marks.get(2) {
            let affected =
                paper("uflip-fig5", MTRON, "lingering effect of random writes on sequential reads");
            series
                .push(FigureSeries::place("paper: reads are slower for 3,000 IOs", *after as f64 + affected));
        }
        let shown = trace.position.iter().zip(&trace.response_ns).take_while(|(at, _)| **at < 15_000);
        let points = shown.map(|(at, ns)| (*at as f64, *ns as f64 / 1e6)).collect();
        series.push(FigureSeries::new("response time of each IO", SeriesStyle::Line, points));
    }
    let title = "Sequential reads, random writes, sequential reads on the Mtron";
    trace_picture("uflip-fig5", title, Scale::Decimal, series)
}

/// Figure 6.
pub(crate) const FIGURE_6: Reproduction = reproduction(
    "uflip-fig6",
    "Granularity on the Memoright",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 6 and section 5.2",
    |seed| {
        let Run { findings: found, .. } = measured(MEMORIGHT, &[plan("granularity")], seed)?;
        let floor = |pattern| latency_us(points(&found, pattern));
        let random = |size| response_ms(&found, "RW", size);
        let small =
            random(Bytes::kib(4)).zip(random(Bytes::kib(16))).map(|(four, sixteen)| 4.0 * four / sixteen);
        let sequential = floor("SR").zip(floor("SW")).map(|(read, write)| mean(&[read, write]));
        let values = vec![
            Measurement::new(MEMORIGHT, "latency floor of SR and SW", "us", sequential),
            Measurement::new(MEMORIGHT, "latency floor of SR", "us", floor("SR")),
            Measurement::new(MEMORIGHT, "latency floor of SW", "us", floor("SW")),
            Measurement::new(MEMORIGHT, "latency floor of RR", "us", floor("RR")),
            Measurement::new(MEMORIGHT, "random write of 32 KiB", "ms", random(Bytes::kib(32))),
            Measurement::new(MEMORIGHT, "four random writes of 4 KiB relative to one of 16 KiB", "", small),
        ];
        let mut series = granularity_series(&found, &["SR", "RR", "SW", "RW"]);
        let level = paper("uflip-fig6", MEMORIGHT, "random write of 32 KiB");
        series.push(FigureSeries::level("paper: large random writes take at least 5 ms", level));
        let pictures = vec![granularity_picture("uflip-fig6", "Granularity of the Memoright", series)];
        Ok(Measured { values, pictures })
    },
);

/// Figure 7.
pub(crate) const FIGURE_7: Reproduction = reproduction(
    "uflip-fig7",
    "Granularity on the Kingston DTI, with the random writes that the figure omits as all the same",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 7 and section 5.2",
    |seed| {
        let Run { findings: found, .. } = measured(DTI, &[plan("granularity")], seed)?;
        let sizes = [Bytes::kib(4), Bytes::kib(32), Bytes::kib(64)];
        let all: Vec<f64> = points(&found, "RW").iter().map(|point| point.response_ns_mean / 1e6).collect();
        let any = "random write response time (any IO size)";
        let mut values = vec![Measurement::new(DTI, any, "ms", mean(&all))];
        values.extend(sizes.map(|size| {
            Measurement::new(DTI, format!("random write of {size}"), "ms", response_ms(&found, "RW", size))
        }));
        let mut series = granularity_series(&found, &["SR", "RR", "SW", "RW"]);
        series.push(FigureSeries::level("paper: around 260 ms", paper("uflip-fig7", DTI, any)));
        let pictures = vec![granularity_picture("uflip-fig7", "Granularity of the Kingston DTI", series)];
        Ok(Measured { values, pictures })
    },
);

/// Figure 8.
pub(crate) const FIGURE_8: Reproduction = reproduction(
    "uflip-fig8",
    "Locality of random writes on the Samsung, the Memoright and the Mtron",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 8 and Table 3",
    |seed| {
        let names = [SAMSUNG, MEMORIGHT, MTRON];
        let found =
            on_all_processors(&names, |name| Ok(measured(name, &[plan("locality")], seed)?.findings))?;
        let (mut values, mut series) = (Vec::new(), Vec::new());
        for (name, found) in names.into_iter().zip(&found) {
            let row = &found.characteristics;
            values.push(Measurement::new(name, "locality_mb", "MB", row.locality_mb));
            values.push(Measurement::new(name, "locality_ratio", "", row.locality_ratio));
            let sequential = row.sw_ms.unwrap_or(f64::NAN);
            let relative = |point: &Point| (point.value / MIB, point.response_ns_mean / 1e6 / sequential);
            let label = found.identity.model.clone().unwrap_or_else(|| name.to_owned());
            series.push(FigureSeries::new(
                label,
                SeriesStyle::Curve,
                points(found, "RW").iter().map(relative).collect(),
            ));
            let of_paper = |column| paper("uflip-fig8", name, column);
            let cross = vec![(of_paper("locality_mb"), of_paper("locality_ratio"))];
            series.push(FigureSeries::new("paper: area and cost", SeriesStyle::PaperCrosses, cross));
        }
        let x = FigureAxis::new("TargetSize (MiB)", Scale::Binary);
        let y = FigureAxis::new("random write / sequential write", Scale::Linear);
        let title = "Random writes of 32 KiB within an area";
        Ok(Measured { values, pictures: vec![FigurePicture::new("uflip-fig8", title, x, y, series)] })
    },
);

/// The device state of section 4.1.
pub(crate) const STATE: Reproduction = reproduction(
    "uflip-state",
    "Random writes of 16 KiB on the Samsung, out of the box and after all of it was written at random",
    "Bouganim et al., uFLIP (CIDR 2009), section 4.1",
    |seed| {
        let new = random_writes(&mut device(SAMSUNG)?, Bytes::kib(16), Bytes::ZERO, seed)?;
        let written = random_writes(&mut in_random_state(SAMSUNG, seed)?, Bytes::kib(16), Bytes::ZERO, seed)?;
        let (out_of_the_box, after) =
            ("16 KiB random write out of the box", "16 KiB random write after writing the whole device");
        let values = vec![
            Measurement::new(SAMSUNG, out_of_the_box, "ms", mean_us(&new) / 1e3),
            Measurement::new(SAMSUNG, after, "ms", mean_us(&written) / 1e3),
        ];
        let running = |samples: &[Sample]| {
            let means = samples.iter().scan(Nanos::ZERO, |sum, sample| {
                *sum += sample.response();
                Some(*sum)
            });
            means.enumerate().map(|(i, sum)| (i as f64, sum.0 as f64 / 1e6 / (i + 1) as f64)).collect()
        };
        let level = |quantity| paper("uflip-state", SAMSUNG, quantity);
        let series = vec![
            FigureSeries::new("out of the box, mean so far", SeriesStyle::Line, running(&new)),
            FigureSeries::level("paper: 1 ms", level(out_of_the_box)),
            FigureSeries::new(
                "after writing the whole device, mean so far",
                SeriesStyle::Line,
                running(&written),
            ),
            FigureSeries::level("paper: 8 ms", level(after)),
        ];
        let title = "Random writes of 16 KiB on the Samsung";
        Ok(Measured { values, pictures: vec![trace_picture("uflip-state", title, Scale::Linear, series)] })
    },
);

/// The alignment of section 5.2.
pub(crate) const ALIGNMENT: Reproduction = reproduction(
    "uflip-alignment",
    "Random writes on the Samsung, aligned to 16 KiB and not",
    "Bouganim et al., uFLIP (CIDR 2009), section 5.2",
    |seed| {
        let shifts = [0, 512, 1024, 2048, 4096, 8192, 16_384, 32_768].map(Bytes);
        let ms = on_all_processors(&shifts, |shift| {
            Ok(mean_us(&random_writes(&mut in_random_state(SAMSUNG, seed)?, Bytes::kib(32), *shift, seed)?)
                / 1e3)
        })?;
        let measured: Vec<(Bytes, f64)> = shifts.into_iter().zip(ms).collect();
        let is_aligned = |shift: Bytes| shift.is_multiple_of(Bytes::kib(16));
        let of = |aligned: bool| {
            let ms = measured.iter().filter(|(shift, _)| is_aligned(*shift) == aligned).map(|one| one.1);
            mean(&ms.collect::<Vec<f64>>())
        };
        let (aligned, not) = ("random write aligned to 16 KiB", "random write not aligned to 16 KiB");
        let mut values = vec![
            Measurement::new(SAMSUNG, aligned, "ms", of(true)),
            Measurement::new(SAMSUNG, not, "ms", of(false)),
        ];
        values.extend(measured.iter().map(|(shift, ms)| {
            Measurement::new(SAMSUNG, format!("random write shifted by {shift}"), "ms", *ms)
        }));
        let points = measured.iter().map(|(shift, ms)| (shift.0 as f64 / 1024.0, *ms)).collect();
        let level = |quantity| paper("uflip-alignment", SAMSUNG, quantity);
        let series = vec![
            FigureSeries::new("random writes of 32 KiB", SeriesStyle::Curve, points),
            FigureSeries::level("paper: 18 ms aligned, 32 ms not", level(aligned)),
            FigureSeries::level("", level(not)),
        ];
        let (x, y) = (
            FigureAxis::new("IOShift (KiB)", Scale::Linear),
            FigureAxis::new("response time (ms)", Scale::Linear),
        );
        let title = "Random writes on the Samsung over their shift";
        Ok(Measured { values, pictures: vec![FigurePicture::new("uflip-alignment", title, x, y, series)] })
    },
);

const MEMORIGHT: &str = "uflip-memoright";
const MTRON: &str = "uflip-mtron";
const SAMSUNG: &str = "uflip-samsung";
const DTI: &str = "uflip-dti";

const MIB: f64 = (1 << 20) as f64;

fn baseline<'a>(found: &'a Findings, pattern: &str) -> Option<&'a Baseline> {
    found.baselines.iter().find(|baseline| baseline.pattern == pattern)
}

/// The first IOs of a baseline with the running averages of Figure 3.
fn first_ios(run: &Run, pattern: &str, most: u64) -> Result<Vec<FigureSeries>> {
    let Some(baseline) = baseline(&run.findings, pattern) else { return Ok(Vec::new()) };
    let trace = trace(pattern, &run.responses(baseline, most)?, Some(&baseline.phases), most as usize);
    let at = || trace.position.iter().map(|position| *position as f64);
    let responses = at().zip(trace.response_ns.iter().map(|ns| *ns as f64 / 1e6)).collect();
    let means = at().zip(trace.running_mean_ns.iter().map(|ns| ns / 1e6)).collect();
    let without = at().zip(&trace.running_mean_without_startup_ns);
    let without = without.filter_map(|(at, ns)| Some((at, (*ns)? / 1e6))).collect();
    let mut series = vec![
        FigureSeries::new("response time", SeriesStyle::Dots, responses),
        FigureSeries::new("mean so far", SeriesStyle::Line, means),
    ];
    if baseline.phases.startup_ios > 0 {
        series.push(FigureSeries::new("the same without the start-up phase", SeriesStyle::Line, without));
    }
    Ok(series)
}

fn trace_picture(name: &str, title: &str, scale: Scale, series: Vec<FigureSeries>) -> FigurePicture {
    FigurePicture::new(
        name,
        title,
        FigureAxis::new("IO", Scale::Linear),
        FigureAxis::new("response time (ms)", scale),
        series,
    )
}

/// Response time over IOSize.
fn granularity_series(found: &Findings, patterns: &[&str]) -> Vec<FigureSeries> {
    let series = |pattern: &&str| {
        let points = points(found, pattern).iter();
        let points = points.map(|point| (point.value / 1024.0, point.response_ns_mean / 1e6)).collect();
        FigureSeries::new(*pattern, SeriesStyle::Curve, points)
    };
    patterns.iter().map(series).collect()
}

fn granularity_picture(name: &str, title: &str, series: Vec<FigureSeries>) -> FigurePicture {
    let (x, y) = (
        FigureAxis::new("IOSize (KiB)", Scale::Binary),
        FigureAxis::new("response time (ms)", Scale::Decimal),
    );
    FigurePicture::new(name, title, x, y, series)
}

/// The points of a pattern in the only micro-benchmark.
fn points<'a>(found: &'a Findings, pattern: &str) -> &'a [Point] {
    let experiments = found.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
    experiments.filter(|one| one.pattern == pattern).map(|one| &one.points[..]).next().unwrap_or(&[])
}

fn response_ms(found: &Findings, pattern: &str, size: Bytes) -> Option<f64> {
    let point = points(found, pattern).iter().find(|point| point.value == size.0 as f64)?;
    Some(point.response_ns_mean / 1e6)
}

/// The intercept of the least-squares line through the response times.
fn latency_us(points: &[Point]) -> Option<f64> {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|point| point.value), mean(&|point| point.response_ns_mean));
    let covariance = mean(&|point| (point.value - x) * (point.response_ns_mean - y));
    let variance = mean(&|point| (point.value - x).powi(2));
    (variance > 0.0).then(|| (y - x * covariance / variance) / 1e3)
}

/// A device that was completely written randomly, as in uFLIP's section 4.1.
fn in_random_state(name: &str, seed: Seed) -> Result<SimulatedDevice> {
    let mut device = device(name)?;
    let wrong = |error: &dyn std::fmt::Display| ReproduceError::new(name, error);
    let flashlab_device::Geometry { capacity, block, .. } = device.geometry();
    let pattern = plan("random-state").experiments.swap_remove(0).pattern;
    let placed = pattern.place(Space { capacity, block }, seed).map_err(|error| wrong(&error))?;
    let mut written = 0;
    let mut ios = placed.ios(0).map_while(|io| {
        let more = written < capacity.0;
        written += io.size.0;
        more.then_some((io.mode.into(), io.offset, io.size))
    });
    condition(&mut device, &mut ios)?;
    Ok(device)
}

/// Random writes over the whole device.
fn random_writes(device: &mut SimulatedDevice, size: Bytes, shift: Bytes, seed: Seed) -> Result<Vec<Sample>> {
    let basic = Basic {
        io_shift: shift,
        ..Basic::consecutive(ModeRule::Always(Mode::Write), Location::Random, size)
    };
    let pattern = Pattern { io_count: Some(5120), ..Pattern::basic(basic) };
    run(device, &pattern, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that do not agree, with the measured ones.
    fn differing(reproductions: &[Reproduction]) -> Vec<String> {
        let figures = reproductions.iter().flat_map(|one| one.run(Seed(1)).unwrap().figures);
        let differing = figures.filter(|figure| !figure.agrees());
        differing.map(|figure| format!("{} {:.1?}", figure.quantity, figure.flashlab)).collect()
    }

    #[test]
    fn the_mtron_starts_cheap_and_lingers() {
        assert_eq!(differing(&[FIGURE_3, FIGURE_5]), [""; 0]);
    }

    #[test]
    fn the_dti_has_the_period_of_its_block() {
        assert_eq!(differing(&[FIGURE_4]), [""; 0]);
    }

    #[test]
    fn granularity_and_locality() {
        let known = ["four random writes of 4 KiB relative to one of 16 KiB Some(2.8)"];
        assert_eq!(differing(&[FIGURE_6]), known);
        assert_eq!(differing(&[FIGURE_7]), [""; 0]);
        assert_eq!(differing(&[FIGURE_8]), [""; 0]);
    }

    #[test]
    fn the_samsung_depends_on_its_state_and_on_alignment() {
        assert_eq!(differing(&[STATE, ALIGNMENT]), [""; 0]);
    }
}
