//! uFLIP (CIDR 2009), Figures 3 to 8, and what sections 4.1 and 5.2 tell of the Samsung.
//!
//! The figures are pictures: compared is what the text says of them.

use flashlab_analysis::findings::{Baseline, Findings, Point};
use flashlab_base::{Bytes, Mode, Seed};
use flashlab_device::Device;
use flashlab_plan::{Basic, Location, ModeRule, Pattern, Space};
use flashlab_sim::SimulatedDevice;

use crate::lab::{ReproduceError, Result, consecutive, device, mean_us, on_all_processors, plan, run};
use crate::uflip::{findings, paper};
use crate::{Agreement, Figure, Reproduction};

const fn reproduction(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    measure: fn() -> Result<Vec<Figure>>,
) -> Reproduction {
    Reproduction { name, title, source, measure }
}

/// Figure 3.
pub(crate) const FIGURE_3: Reproduction = reproduction(
    "uflip-fig3",
    "Start-up and running phase of random writes on the Mtron",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 3 and section 5.1",
    || {
        let found = findings(MTRON, &[])?;
        let startup = baseline(&found, "RW").map(|baseline| baseline.phases.startup_ios as f64);
        Ok(vec![figure(MTRON, "random-write start-up phase", "IOs", (125.0, startup), 0.15)])
    },
);

/// Figure 4.
pub(crate) const FIGURE_4: Reproduction = reproduction(
    "uflip-fig4",
    "Running phase of sequential writes on the Kingston DTI",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 4 and section 5.1",
    || {
        let found = findings(DTI, &[])?;
        let phases = baseline(&found, "SW").map(|baseline| &baseline.phases);
        let startup = phases.map(|phases| phases.startup_ios as f64);
        let period = phases.and_then(|phases| phases.period_ios).map(|ios| ios as f64);
        Ok(vec![
            figure(DTI, "sequential-write start-up phase", "IOs", (0.0, startup), 0.0),
            figure(DTI, "sequential-write period", "IOs", (128.0, period), 0.15),
        ])
    },
);

/// Figure 5.
pub(crate) const FIGURE_5: Reproduction = reproduction(
    "uflip-fig5",
    "Sequential reads after random writes on the Mtron",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 5 and section 5.1",
    || {
        let found = findings(MTRON, &[])?;
        let lingering = found.lingering.as_ref();
        let reads = lingering.map(|lingering| lingering.affected_reads as f64);
        let time = lingering.map(|lingering| lingering.affected.as_secs_f64());
        let name = "lingering effect of random writes on sequential reads";
        Ok(vec![
            figure(MTRON, name, "IOs", (3000.0, reads), 0.15),
            figure(MTRON, name, "s", (2.5, time), 0.15),
        ])
    },
);

/// Figure 6.
pub(crate) const FIGURE_6: Reproduction = reproduction(
    "uflip-fig6",
    "Granularity on the Memoright",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 6 and section 5.2",
    || {
        let found = findings(MEMORIGHT, &[plan("granularity")])?;
        let floor = |pattern| latency_us(points(&found, pattern));
        let random = |size| response_ms(&found, "RW", size);
        let small =
            random(Bytes::kib(4)).zip(random(Bytes::kib(16))).map(|(four, sixteen)| 4.0 * four / sixteen);
        Ok(vec![
            figure(MEMORIGHT, "latency floor of SR", "us", (70.0, floor("SR")), 0.15),
            figure(MEMORIGHT, "latency floor of SW", "us", (70.0, floor("SW")), 0.15),
            figure(MEMORIGHT, "latency floor of RR", "us", (115.0, floor("RR")), 0.15),
            figure(MEMORIGHT, "random write of 32 KiB", "ms", (5.0, random(Bytes::kib(32))), 0.15),
            figure(
                MEMORIGHT,
                "four random writes of 4 KiB relative to one of 16 KiB",
                "",
                (1.0, small),
                0.25,
            ),
        ])
    },
);

/// Figure 7.
pub(crate) const FIGURE_7: Reproduction = reproduction(
    "uflip-fig7",
    "Granularity on the Kingston DTI: random writes, which the figure omits as all the same",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 7 and section 5.2",
    || {
        let found = findings(DTI, &[plan("granularity")])?;
        let sizes = [Bytes::kib(4), Bytes::kib(32), Bytes::kib(64)];
        let random = |size| {
            let name = format!("random write of {size}");
            figure(DTI, &name, "ms", (260.0, response_ms(&found, "RW", size)), 0.15)
        };
        Ok(sizes.map(random).to_vec())
    },
);

/// Figure 8.
pub(crate) const FIGURE_8: Reproduction = reproduction(
    "uflip-fig8",
    "Locality of random writes on the Samsung, the Memoright and the Mtron",
    "Bouganim et al., uFLIP (CIDR 2009), Figure 8 and Table 3",
    || {
        let names = [SAMSUNG, MEMORIGHT, MTRON];
        let rows =
            on_all_processors(&names, |name| Ok(findings(name, &[plan("locality")])?.characteristics))?;
        let figures = names.iter().zip(rows).flat_map(|(name, row)| {
            let area = (paper(name, "locality_mb").unwrap_or(0.0), row.locality_mb);
            let ratio = (paper(name, "locality_ratio").unwrap_or(0.0), row.locality_ratio);
            let area = figure(name, "locality_mb", "MB", area, 0.0);
            let area = Figure { agreement: Agreement::PowerOfTwo, ..area };
            [area, figure(name, "locality_ratio", "", ratio, 0.25)]
        });
        Ok(figures.collect())
    },
);

/// The device state of section 4.1.
pub(crate) const STATE: Reproduction = reproduction(
    "uflip-state",
    "Random writes of 16 KiB on the Samsung, out of the box and after all of it was written at random",
    "Bouganim et al., uFLIP (CIDR 2009), section 4.1",
    || {
        let new = random_writes_ms(&mut device(SAMSUNG)?, Bytes::kib(16), Bytes::ZERO)?;
        let written = random_writes_ms(&mut in_random_state(SAMSUNG)?, Bytes::kib(16), Bytes::ZERO)?;
        Ok(vec![
            figure(SAMSUNG, "16 KiB random write out of the box", "ms", (1.0, Some(new)), 0.15),
            figure(
                SAMSUNG,
                "16 KiB random write after writing the whole device",
                "ms",
                (8.0, Some(written)),
                0.15,
            ),
        ])
    },
);

/// The alignment of section 5.2.
pub(crate) const ALIGNMENT: Reproduction = reproduction(
    "uflip-alignment",
    "Random writes on the Samsung, aligned to 16 KiB and not",
    "Bouganim et al., uFLIP (CIDR 2009), section 5.2",
    || {
        let shifts = [Bytes::ZERO, Bytes::kib(16), Bytes(512), Bytes::kib(8)];
        let means = on_all_processors(&shifts, |shift| {
            random_writes_ms(&mut in_random_state(SAMSUNG)?, Bytes::kib(32), *shift)
        })?;
        let figures = shifts.iter().zip(means).map(|(shift, mean)| {
            let paper = if shift.is_multiple_of(Bytes::kib(16)) { 18.0 } else { 32.0 };
            figure(SAMSUNG, &format!("random write shifted by {shift}"), "ms", (paper, Some(mean)), 0.15)
        });
        Ok(figures.collect())
    },
);

const MEMORIGHT: &str = "uflip-memoright";
const MTRON: &str = "uflip-mtron";
const SAMSUNG: &str = "uflip-samsung";
const DTI: &str = "uflip-dti";

fn figure(device: &str, quantity: &str, unit: &str, (paper, got): (f64, Option<f64>), within: f64) -> Figure {
    Figure {
        device: device.to_owned(),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        paper: Some(paper),
        flashlab: got,
        agreement: Agreement::Within(within),
    }
}

fn baseline<'a>(found: &'a Findings, pattern: &str) -> Option<&'a Baseline> {
    found.baselines.iter().find(|baseline| baseline.pattern == pattern)
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

/// Where the line through the response times, by least squares, meets the axis.
fn latency_us(points: &[Point]) -> Option<f64> {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|point| point.value), mean(&|point| point.response_ns_mean));
    let covariance = mean(&|point| (point.value - x) * (point.response_ns_mean - y));
    let variance = mean(&|point| (point.value - x).powi(2));
    (variance > 0.0).then(|| (y - x * covariance / variance) / 1e3)
}

/// A device of which everything was written at random, as uFLIP's section 4.1 has it.
fn in_random_state(name: &str) -> Result<SimulatedDevice> {
    let mut device = device(name)?;
    let wrong = |error: &dyn std::fmt::Display| ReproduceError::new(name, error);
    let flashlab_device::Geometry { capacity, block, .. } = device.geometry();
    let pattern = plan("random-state").experiments.swap_remove(0).pattern;
    let placed = pattern.place(Space { capacity, block }, Seed(1)).map_err(|error| wrong(&error))?;
    let mut written = 0;
    let mut ios = placed.ios(0).map_while(|io| {
        let more = written < capacity.0;
        written += io.size.0;
        more.then_some((io.mode.into(), io.offset, io.size))
    });
    device.condition(&mut ios).map_err(|error| wrong(&error))?;
    Ok(device)
}

/// The mean response time of random writes over the whole device.
fn random_writes_ms(device: &mut SimulatedDevice, size: Bytes, shift: Bytes) -> Result<f64> {
    let basic =
        Basic { io_shift: shift, ..consecutive(ModeRule::Always(Mode::Write), Location::Random, size) };
    let pattern = Pattern { io_count: Some(5120), ..Pattern::basic(basic) };
    Ok(mean_us(&run(device, &pattern, Seed(1))?) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What does not agree, with what was found.
    fn differing(reproductions: &[Reproduction]) -> Vec<String> {
        let figures = reproductions.iter().flat_map(|one| one.run().unwrap());
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
