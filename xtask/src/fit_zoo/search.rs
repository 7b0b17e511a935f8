//! The search for the parameters of one drive.

use anyhow::{Context, Result};
use flashlab_base::Seed;
use flashlab_reproduce::{DriveRows, Quantity, RealDrive, RowComparison, judge_profile};
use flashlab_sim::Profile;

use super::knobs::{
    COLLECTIONS, Knob, with_collection, with_longer_writes, with_program, with_slower_pipeline,
};

/// A fit of one drive.
pub struct Search<'a> {
    pub drive: &'static RealDrive,
    pub rows: &'a DriveRows,
    pub seed: Seed,
    pub keep_collection: bool,
}

/// The factors of the refinement.
const FACTORS: [f64; 4] = [1.2, 1.08, 1.03, 1.01];
/// The least improvement of the errors' sum that counts: less is chance.
const LEAST_GAIN: f64 = 0.01;
/// The mean error, as a share, at which a refinement ends: less than the difference between two runs of a drive.
const GOOD_ENOUGH: f64 = 0.01;
/// A write that takes longer, in microseconds, waits for the flash.
const UNLOADED_US: f64 = 100.0;
/// The shortest and longest over-provisioning that the secant tries.
const OVER_PROVISIONING: std::ops::RangeInclusive<f64> = 0.03..=1.5;

/// The mean square of the logarithms of model by drive, of the quantities that have goals.
fn cost(comparisons: &[RowComparison]) -> f64 {
    let errors: Vec<f64> = comparisons
        .iter()
        .filter_map(|one| {
            // A percentile may be as many times further off as its goal is wider.
            let weight = match one.quantity {
                Quantity::SteadyRate | Quantity::Knee => 1.0,
                Quantity::ReadP50 => 0.2,
                Quantity::ReadP99 => 0.1,
                _ => return None,
            };
            Some(weight * (one.simulated / one.measured).ln().powi(2))
        })
        .collect();
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

impl Search<'_> {
    /// The best profile that was found.
    pub fn fit(&self, profile: Profile) -> Result<Profile> {
        let rates = self.rows.clone().without_latencies();
        let mut best = self.with_rates_of_links(profile)?;
        best = self.with_best_collection(best, &rates)?;
        best = self.with_rates_of_links(best)?;
        best = self.refined(best, &rates, &[Knob::OverProvisioning, Knob::Copy, Knob::BlockPages])?;
        if !self.rows.only_latencies().is_empty() {
            best = self.refined(best, &self.rows.only_latencies(), &[Knob::ReadInterrupts, Knob::Read])?;
            best = self.with_write_latency(best)?;
        }
        Ok(best)
    }

    /// Sets the pipeline's time of a write so that the medians of writes that wait for nothing are the drive's.
    fn with_write_latency(&self, profile: Profile) -> Result<Profile> {
        let comparisons = self.measured(&profile, &self.rows.only_latencies())?;
        let differences: Vec<f64> = comparisons
            .iter()
            .filter(|one| one.quantity == Quantity::WriteP50 && one.measured.max(one.simulated) < UNLOADED_US)
            .map(|one| one.measured - one.simulated)
            .collect();
        let mean = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
        Ok(with_longer_writes(&profile, mean))
    }

    fn measured(&self, profile: &Profile, rows: &DriveRows) -> Result<Vec<RowComparison>> {
        judge_profile(profile, rows, self.seed).with_context(|| self.drive.zoo)
    }

    /// The model's rate over all rows of a workload, and the drive's.
    fn rate_of(&self, profile: &Profile, workload: &str) -> Result<Option<(f64, f64)>> {
        let rows = self.rows.of_workload(workload, self.drive.gib as f64);
        if rows.is_empty() {
            return Ok(None);
        }
        let comparisons = self.measured(profile, &rows)?;
        let mean = |value: fn(&RowComparison) -> f64| {
            comparisons.iter().map(value).sum::<f64>() / comparisons.len() as f64
        };
        Ok(Some((mean(|one| one.simulated), mean(|one| one.measured))))
    }

    /// Sets `program` and the pipeline.
    fn with_rates_of_links(&self, mut profile: Profile) -> Result<Profile> {
        let sheet = self.drive.sheet_mb_s as f64 * 1e6 / f64::from(1 << 20);
        for _ in 0..3 {
            let sequential = DriveRows::sequential(self.drive, sheet);
            let simulated = self.measured(&profile, &sequential)?[0].simulated;
            let drive = self.rate_of(&profile, "sequential")?.map_or(sheet, |(_, measured)| measured);
            profile = with_program(&profile, simulated / drive);
        }
        let Some(one_write) = self.rows.one_large_write() else { return Ok(profile) };
        for _ in 0..3 {
            let first = DriveRows::first_whole_zones(self.drive, one_write);
            let simulated = self.measured(&profile, &first)?[0].simulated;
            profile = with_slower_pipeline(&profile, 1.0 / one_write - 1.0 / simulated);
        }
        Ok(profile)
    }

    /// Sets the over-provisioning so that uniform writes have their rate.
    fn with_uniform_rate(&self, mut profile: Profile) -> Result<Profile> {
        for _ in 0..4 {
            let Some((simulated, drive)) = self.rate_of(&profile, "uniform")? else { break };
            if (simulated / drive - 1.0).abs() < 0.005 {
                break;
            }
            let section = profile.flash.as_ref().context("a model of a drive has flash")?;
            // Write amplification is about the inverse of the over-provisioning.
            let factor = drive / simulated;
            let wanted = section.over_provisioning * factor;
            let bounded = wanted.clamp(*OVER_PROVISIONING.start(), *OVER_PROVISIONING.end());
            profile = Knob::OverProvisioning.turned(&profile, bounded / section.over_provisioning);
        }
        Ok(profile)
    }

    fn with_best_collection(&self, profile: Profile, rates: &DriveRows) -> Result<Profile> {
        if self.keep_collection {
            return self.with_uniform_rate(profile);
        }
        let mut best: Option<(f64, Profile)> = None;
        for collection in &COLLECTIONS {
            let tried = self.with_uniform_rate(with_collection(&profile, collection))?;
            let cost = cost(&self.measured(&tried, rates)?);
            println!("{}: {}: {:.1} %", self.drive.zoo, collection.name, 100.0 * cost.sqrt());
            if best.as_ref().is_none_or(|best| cost < best.0) {
                best = Some((cost, tried));
            }
        }
        best.map(|best| best.1).context("there are ways of collecting garbage")
    }

    /// Changes parameters in turn, by smaller and smaller factors, as long as the errors become smaller.
    fn refined(&self, profile: Profile, rows: &DriveRows, knobs: &[Knob]) -> Result<Profile> {
        let mut best = (cost(&self.measured(&profile, rows)?), profile);
        for factor in FACTORS {
            if best.0.sqrt() < GOOD_ENOUGH {
                break;
            }
            for &knob in knobs {
                for factor in [factor, 1.0 / factor] {
                    let mut gained = false;
                    for _ in 0..3 {
                        let tried = knob.turned(&best.1, factor);
                        // A profile may be out of range, as one with less over-provisioning than the map needs.
                        let Ok(comparisons) = self.measured(&tried, rows) else { break };
                        let cost = cost(&comparisons);
                        if cost >= best.0 * (1.0 - LEAST_GAIN) {
                            break;
                        }
                        best = (cost, tried);
                        gained = true;
                    }
                    if gained {
                        break;
                    }
                }
            }
            println!("{}: by {factor}: {:.2} %", self.drive.zoo, 100.0 * best.0.sqrt());
        }
        Ok(best.1)
    }
}
