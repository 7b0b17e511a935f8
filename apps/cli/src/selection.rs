//! Selects the plans of a run: shipped ones by name, or a file.

use std::path::Path;

use anyhow::{Result, bail};
use flashlab_analysis::ExperimentKey;
use flashlab_analysis::findings::Regime;
use flashlab_base::{Bytes, Identity, Mode};
use flashlab_bench::{Settings, State, Thoroughness, check_runs, check_target};
use flashlab_plan::{Choice, ExperimentValue, Pattern, Plan, Space};
use flashlab_sweep::workload_of;

use crate::exit::Usage;
use crate::files;

/// Plans with their files' text, for the manifest.
pub struct Selection {
    pub texts: Vec<String>,
    pub plans: Vec<Plan>,
}

impl Selection {
    /// The micro-benchmarks with these names; all of them if there are no names.
    pub fn micro_benchmarks(only: &[String]) -> Result<Selection> {
        let all = Plan::MICRO_BENCHMARKS;
        if only.iter().any(String::is_empty) {
            bail!(Usage(format!("--only has an empty name in it; there are: {}", all.join(", "))));
        }
        let twice = only.iter().enumerate().find(|(index, name)| only[..*index].contains(name));
        if let Some((_, name)) = twice {
            bail!(Usage(format!("--only names {name} twice")));
        }
        if let Some(unknown) = only.iter().find(|name| !all.contains(&name.as_str())) {
            bail!(Usage(format!("there is no micro-benchmark `{unknown}`; there are: {}", all.join(", "))));
        }
        let wanted = |name: &&&str| only.is_empty() || only.iter().any(|only| only == **name);
        let texts = all.iter().filter(wanted).map(|name| Ok(files::builtin_plan(name)?.to_owned()));
        Selection::parse(texts.collect::<Result<_>>()?, "the shipped plans")
    }

    /// A file, or the shipped plan of this name, or one of its experiments, as `baselines/RW`.
    pub fn named(name: &str) -> Result<Selection> {
        let is_of_shipped = |(plan, _): (&str, &str)| Plan::builtin(plan).is_some();
        if !Path::new(name).exists() && name.split_once('/').is_some_and(is_of_shipped) {
            return Ok(Selection::of_plans(vec![workload_of(name)?]));
        }
        if !Path::new(name).exists() && !name.contains(['/', '.']) {
            return Selection::parse(vec![files::builtin_plan(name)?.to_owned()], name);
        }
        Selection::parse(vec![files::plan(Path::new(name))?], name)
    }

    /// Plans that flashlab made.
    pub fn of_plans(plans: Vec<Plan>) -> Selection {
        Selection { texts: plans.iter().map(Plan::to_toml).collect(), plans }
    }

    fn parse(texts: Vec<String>, file: &str) -> Result<Selection> {
        let plans = texts.iter().map(|text| Plan::parse(text, file)).collect::<Result<_, _>>()?;
        Ok(Selection { texts, plans })
    }

    /// The largest queue depth, which decides about the engine.
    pub fn depth(&self) -> u32 {
        let depths = self.patterns(Choice::Full).into_iter().map(|pattern| pattern.queue_depth);
        depths.max().unwrap_or(1)
    }

    /// Whether the target is written to.
    pub fn writes(&self, settings: &Settings) -> bool {
        settings.methodology
            || settings.state != State::None
            || self.patterns(Choice::Full).iter().any(Pattern::writes)
    }

    /// Refuses plans that the device cannot run, before anything is created or written.
    pub fn check(&self, settings: &Settings, identity: &Identity) -> Result<()> {
        check_target(identity, settings)?;
        check_runs(&self.plans, settings)?;
        // If the block size is not known yet, the smallest possible one is assumed.
        let block = identity.logical_block.unwrap_or(Bytes(512));
        let space = Space { capacity: settings.target_size.round_down(block), block };
        let placed =
            self.patterns(choice(settings)).into_iter().map(|pattern| pattern.place(space, settings.seed));
        let misfits: Vec<_> = placed.map(Result::err).collect();
        match misfits.first() {
            Some(Some(first)) if misfits.iter().all(Option::is_some) => {
                bail!(Usage(format!("nothing of the plan can be run on {}: {first}", identity.target)))
            }
            _ => Ok(()),
        }
    }

    /// The experiments of a run with these settings, including those that do not fit on the device, and bursts, which a
    /// device with one regime does not have; the reads and the writes of a mix apart.
    pub fn experiments(&self, settings: &Settings) -> Vec<ExperimentKey> {
        let key = |micro_benchmark: &str,
                   parameter: String,
                   pattern: &str,
                   regime,
                   value: ExperimentValue,
                   mode| {
            ExperimentKey {
                micro_benchmark: micro_benchmark.to_owned(),
                parameter,
                pattern: pattern.to_owned(),
                regime,
                value: value.number,
                label: value.label,
                mode,
            }
        };
        let none = || ExperimentValue { number: 0.0, label: String::new() };
        let baselines = [
            ("SR", None, Mode::Read),
            ("RR", None, Mode::Read),
            ("SW", None, Mode::Write),
            ("RW", None, Mode::Write),
            ("RW", Some(Regime::Burst), Mode::Write),
        ];
        let baselines =
            baselines.map(|(name, regime, mode)| key("baseline", String::new(), name, regime, none(), mode));
        let baselines = baselines.into_iter().filter(|_| settings.methodology);
        let planned = self.plans.iter().flat_map(|plan| {
            plan.experiments.iter().flat_map(move |experiment| {
                let parameter =
                    experiment.vary.as_ref().map_or(String::new(), |vary| vary.parameter.to_string());
                let runs = experiment.runs(choice(settings));
                runs.flat_map(move |(value, pattern)| {
                    let modes = [(Mode::Read, pattern.reads()), (Mode::Write, pattern.writes())];
                    let parameter = parameter.clone();
                    let burst = (settings.methodology && pattern.writes()).then_some(Regime::Burst);
                    let regimes = std::iter::once(None).chain(burst.map(Some));
                    regimes.flat_map(move |regime| {
                        let (parameter, value) = (parameter.clone(), value.clone());
                        modes.into_iter().filter(|(_, is_used)| *is_used).map(move |(mode, _)| {
                            key(&plan.name, parameter.clone(), &experiment.name, regime, value.clone(), mode)
                        })
                    })
                })
            })
        });
        baselines.chain(planned).collect()
    }

    fn patterns(&self, choice: Choice) -> Vec<Pattern> {
        let experiments = self.plans.iter().flat_map(|plan| &plan.experiments);
        experiments.flat_map(|experiment| experiment.runs(choice).map(|(_, pattern)| pattern)).collect()
    }
}

fn choice(settings: &Settings) -> Choice {
    match settings.thoroughness {
        Thoroughness::Quick => Choice::Quick,
        Thoroughness::Full => Choice::Full,
    }
}
