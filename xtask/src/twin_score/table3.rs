//! Judges twins of the seven devices of uFLIP's Table 3: each characteristic of the twin against that of the device.
//!
//! # Method
//! 1. `flashlab bench --full` measures the device of the zoo, and `flashlab infer` infers it, unless `--no-inference` is given.
//! 2. The twin is measured with the same settings.
//! 3. Both have a row of Table 3, by the same definitions. Their ratio is the error.

use anyhow::Result;
use flashlab_analysis::findings::Characteristics;
use flashlab_analysis::inference::Parameter;
use flashlab_base::Seed;
use flashlab_bench::{Settings, State, Thoroughness, rebuild};
use flashlab_model::twin::{MeasuredRuns, fit_twin};
use flashlab_sim::Profile;
use serde_json::{Value, json};

use super::{TwinScore, measured_in_folder};
use crate::hidden::Hidden;
use crate::score;

/// The devices of Table 3, in its order.
const DEVICES: [&str; 7] = [
    "uflip-memoright",
    "uflip-mtron",
    "uflip-samsung",
    "uflip-transcend-mlc",
    "uflip-transcend-ide",
    "uflip-dt-hyperx",
    "uflip-dti",
];
/// The goal for each characteristic.
const GOAL: f64 = 0.25;

/// A characteristic of a device and of its twin; `None` where there is none.
struct Compared {
    name: &'static str,
    device: Option<f64>,
    twin: Option<f64>,
}

impl Compared {
    /// The relative error; 1 where only one of the two has the characteristic.
    fn error(&self) -> f64 {
        match (self.device, self.twin) {
            (None, None) => 0.0,
            (Some(device), Some(twin)) if device == twin => 0.0,
            (Some(device), Some(twin)) if device > 0.0 => (twin / device - 1.0).abs(),
            _ => 1.0,
        }
    }
}

/// Judges the seven devices and prints the table.
pub fn judge(arguments: &TwinScore) -> Result<()> {
    let (mut text, mut documents, mut met, mut all) = (String::new(), Vec::new(), 0, 0);
    let is_asked = |name: &&str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    for name in DEVICES.into_iter().filter(is_asked) {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == name);
        let profile = profile.ok_or_else(|| anyhow::anyhow!("the zoo has no {name}"))?;
        let (model, compared) = compared(&profile, arguments)?;
        let within = compared.iter().filter(|one| one.error() <= GOAL).count();
        (met, all) = (met + within, all + compared.len());
        let mut found = format!("{name} ({model}): {within} of {} within 25 %\n", compared.len());
        for one in &compared {
            let figure = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.3}"));
            let missed = if one.error() > GOAL { "  missed" } else { "" };
            let (device, twin, percent) = (figure(one.device), figure(one.twin), one.error() * 100.0);
            found +=
                &format!("  {:<18} device {device:>9}  twin {twin:>9}  {percent:>6.1} %{missed}\n", one.name);
        }
        // A device takes minutes: what is known of it is shown at once.
        eprint!("{found}");
        text += &found;
        let each =
            compared.iter().map(|one| (one.name.to_owned(), json!([one.device, one.twin, one.error()])));
        let characteristics = Value::Object(each.collect());
        documents.push(json!({"device": name, "model": model, "characteristics": characteristics}));
    }
    if arguments.json {
        println!("{:#}", json!({"within_goal": met, "characteristics": all, "devices": documents}));
    } else {
        println!("{text}{met} of {all} characteristics are within 25 %");
    }
    Ok(())
}

/// The twin's model, and each characteristic.
fn compared(profile: &Profile, arguments: &TwinScore) -> Result<(String, Vec<Compared>)> {
    let settings =
        || Settings { seed: Seed(arguments.seed), state: State::Random, ..Settings::new(Thoroughness::Full) };
    let of_device = measured_in_folder(profile, settings())?;
    let run = of_device.path().join("run");
    let known = match arguments.no_inference {
        true => None,
        false => {
            let mut hidden = Hidden::new(profile.device()?);
            Some(score::inferred(&mut hidden, arguments.seed, Parameter::ALL, score::VIRTUAL, &mut ()))
        }
    };
    let fit = fit_twin(&MeasuredRuns::read(&run)?, known.as_ref(), &|_| ())?;
    let of_twin = measured_in_folder(&fit.profile, settings())?;
    let (device, _) = rebuild(&run)?;
    let (twin, _) = rebuild(&of_twin.path().join("run"))?;
    let pairs = rows(&device.characteristics).into_iter().zip(rows(&twin.characteristics));
    Ok((fit.model, pairs.map(|((name, device), (_, twin))| Compared { name, device, twin }).collect()))
}

fn rows(of: &Characteristics) -> [(&'static str, Option<f64>); 12] {
    [
        ("SR (ms)", of.sr_ms),
        ("RR (ms)", of.rr_ms),
        ("SW (ms)", of.sw_ms),
        ("RW (ms)", of.rw_ms),
        ("pause (ms)", of.pause_rw_ms),
        ("locality (MB)", of.locality_mb),
        ("locality ratio", of.locality_ratio),
        ("partitions", of.partitions.map(f64::from)),
        ("partition ratio", of.partition_ratio),
        ("reverse ratio", of.reverse_ratio),
        ("in place ratio", of.in_place_ratio),
        ("large increments", of.large_incr_vs_rw),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_characteristic_that_only_one_of_the_two_has_is_missed() {
        let error = |device, twin| Compared { name: "", device, twin }.error();
        assert_eq!(error(None, None), 0.0);
        assert_eq!(error(Some(0.0), Some(0.0)), 0.0);
        assert_eq!(error(Some(4.0), None), 1.0);
        assert!((error(Some(4.0), Some(5.0)) - 0.25).abs() < 1e-12);
        assert!(DEVICES.iter().all(|name| flashlab_sim::zoo().iter().any(|profile| profile.name == *name)));
    }
}
