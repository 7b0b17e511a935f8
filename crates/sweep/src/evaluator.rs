//! A table of trials to a table of results.
//!
//! # Columns
//! | column | what it is | if it is missing |
//! | --- | --- | --- |
//! | `profile` | a profile: its name, file or text | refused |
//! | `workload` | a plan: its name, file or text | refused |
//! | `seed` | a whole number | 1 |
//! | `state` | `steady`, `random`, `sequential` or `none` | `steady`; `sequential` for zones |
//! | `capacity` | a size, as text or in bytes | the profile's |
//! | `id` | anything; it is kept | |
//! | with a dot, as `flash.over_provisioning` | a key of the profile; a missing value leaves it as it is | |
//!
//! The result has these columns, those of [`RESULT_COLUMNS`], and `error`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use flashlab_base::{Bytes, Seed};
use flashlab_plan::Plan;
use flashlab_sim::Profile;

use crate::SweepError;
use crate::precondition::FilledState;
use crate::setting::override_key;
use crate::state_cache::StateCache;
use crate::table::{Table, TableColumn};
use crate::trial::{ModeResult, Trial, TrialResult, evaluate_trial};
use crate::workload::{profile_of, workload_of};

const PROFILE: &str = "profile";
const WORKLOAD: &str = "workload";
const SEED: &str = "seed";
const STATE: &str = "state";
const CAPACITY: &str = "capacity";
const ID: &str = "id";
const KNOWN: [&str; 6] = [PROFILE, WORKLOAD, SEED, STATE, CAPACITY, ID];
const ERROR: &str = "error";
/// The column that is not the same each time.
const WALL: &str = "wall_s";

/// The names of a mode's columns.
type ModeNames = [&'static str; 9];

const MODE_NAMES: [ModeNames; 2] = [
    [
        "read_count",
        "read_iops",
        "read_mb_per_s",
        "read_mean_ns",
        "read_p50_ns",
        "read_p95_ns",
        "read_p99_ns",
        "read_p999_ns",
        "read_max_ns",
    ],
    [
        "write_count",
        "write_iops",
        "write_mb_per_s",
        "write_mean_ns",
        "write_p50_ns",
        "write_p95_ns",
        "write_p99_ns",
        "write_p999_ns",
        "write_max_ns",
    ],
];

/// The columns of a result but `error`, in their order; see [`TrialResult`] for what they are.
pub const RESULT_COLUMNS: [&str; 26] = {
    let [read, write] = MODE_NAMES;
    [
        "write_amplification",
        read[0],
        read[1],
        read[2],
        read[3],
        read[4],
        read[5],
        read[6],
        read[7],
        read[8],
        write[0],
        write[1],
        write[2],
        write[3],
        write[4],
        write[5],
        write[6],
        write[7],
        write[8],
        "failed_ios",
        "simulated_s",
        "energy_j",
        "block_erases",
        "block_erases_mean",
        "block_erases_max",
        WALL,
    ]
};

/// Evaluates tables of trials.
#[derive(Debug)]
pub struct Evaluator {
    states: StateCache,
    memory: Option<Bytes>,
}

/// The result of a row: an error is a text, because it is a value of the table.
type Outcome = Result<TrialResult, String>;

impl Evaluator {
    /// An evaluator that keeps states in a cache of this size. A row that needs more than `memory` is refused.
    pub fn new(cache: Bytes, memory: Option<Bytes>) -> Evaluator {
        Evaluator { states: StateCache::new(cache), memory }
    }

    /// The states that it keeps.
    pub fn states(&self) -> &StateCache {
        &self.states
    }

    /// Evaluates every row, on this number of threads. `done` is called with the number of rows that are finished.
    ///
    /// # Errors
    /// When the table lacks a column or has one that means nothing, and when the caller interrupts it. What is wrong with one row is
    /// in its column `error`.
    pub fn evaluate(
        &self,
        table: &Table,
        threads: usize,
        interrupt: &AtomicBool,
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<Table, SweepError> {
        check_columns(table)?;
        let texts = Texts::of(table);
        let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; table.len()]);
        let work = || {
            loop {
                let row = next.fetch_add(1, Ordering::Relaxed);
                if row >= table.len() || interrupt.load(Ordering::Relaxed) {
                    return;
                }
                let outcome = self.row(table, &texts, row, interrupt);
                outcomes.lock().unwrap_or_else(PoisonError::into_inner)[row] = Some(outcome);
                done(finished.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.clamp(1, table.len().max(1)) {
                scope.spawn(work);
            }
            work();
        });
        if interrupt.load(Ordering::Relaxed) {
            return Err(SweepError::Interrupted { ios: 0 });
        }
        let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcomes: Vec<Outcome> =
            outcomes.into_iter().map(|outcome| outcome.expect("every row was done")).collect();
        Ok(with_results(table, &outcomes))
    }

    /// Refuses a table of which no row can be computed.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`], and what is wrong with the first row if something is wrong with each.
    pub fn check(table: &Table) -> Result<(), SweepError> {
        check_columns(table)?;
        let texts = Texts::of(table);
        let mut first = Ok(());
        for row in 0..table.len() {
            match texts.trial(table, row) {
                Ok(_) => return Ok(()),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// The result of one row. A panic is a defect of ours, and ends the row alone.
    fn row(&self, table: &Table, texts: &Texts, row: usize, interrupt: &AtomicBool) -> Outcome {
        let computed = catch_unwind(AssertUnwindSafe(|| {
            let trial = texts.trial(table, row)?;
            evaluate_trial(&trial, &self.states, self.memory, interrupt)
        }));
        match computed {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("a defect of flashlab: the row ended in a panic; please report it".to_owned()),
        }
    }
}

/// Refuses a table that lacks a column, or has one that means nothing.
fn check_columns(table: &Table) -> Result<(), SweepError> {
    let columns = table.columns();
    for (index, (name, column)) in columns.iter().enumerate() {
        if columns[..index].iter().any(|(other, _)| other == name) {
            return Err(SweepError::Input(format!("the table has two columns `{name}`: keep one")));
        }
        if RESULT_COLUMNS.contains(&name.as_str()) || name == ERROR {
            return Err(SweepError::Input(format!(
                "the table has the column `{name}` already, which is a result: leave it out"
            )));
        }
        if !KNOWN.contains(&name.as_str()) && !name.contains('.') {
            return Err(SweepError::Input(format!(
                "the column `{name}` means nothing here: there are {}, and keys of a profile, as flash.over_provisioning",
                KNOWN.join(", ")
            )));
        }
        let wanted = match (name.as_str(), column) {
            (PROFILE | WORKLOAD | STATE, TableColumn::Text(_)) => continue,
            (PROFILE | WORKLOAD | STATE, _) => "texts",
            (SEED, TableColumn::Int(_)) => continue,
            (SEED, _) => "whole numbers",
            _ => continue,
        };
        return Err(SweepError::Input(format!("the column `{name}` has to hold {wanted}")));
    }
    for name in [PROFILE, WORKLOAD] {
        if table.column(name).is_none() {
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            return Err(SweepError::Input(format!(
                "the table has no column `{name}`: it needs profile and workload, and has {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            )));
        }
    }
    Ok(())
}

/// The profiles and plans that the rows name, each parsed once.
struct Texts {
    profiles: BTreeMap<String, Result<Profile, String>>,
    workloads: BTreeMap<String, Result<Plan, String>>,
}

impl Texts {
    fn of(table: &Table) -> Texts {
        fn parsed<T>(
            column: Option<&TableColumn>,
            parse: impl Fn(&str) -> Result<T, SweepError>,
        ) -> BTreeMap<String, Result<T, String>> {
            let Some(TableColumn::Text(texts)) = column else { return BTreeMap::new() };
            let mut all = BTreeMap::new();
            for text in texts.iter().flatten() {
                if !all.contains_key(text) {
                    all.insert(text.clone(), parse(text).map_err(|error| error.to_string()));
                }
            }
            all
        }
        Texts {
            profiles: parsed(table.column(PROFILE), profile_of),
            workloads: parsed(table.column(WORKLOAD), workload_of),
        }
    }

    fn trial(&self, table: &Table, row: usize) -> Result<Trial, SweepError> {
        let text = |name: &str| table.column(name).and_then(|column| column.text(row));
        fn named<'a, T>(
            all: &'a BTreeMap<String, Result<T, String>>,
            text: Option<String>,
            name: &str,
        ) -> Result<&'a T, SweepError> {
            let text = text.ok_or_else(|| SweepError::Input(format!("the row has no {name}")))?;
            all[&text].as_ref().map_err(|error| SweepError::Input(error.clone()))
        }
        let base = named(&self.profiles, text(PROFILE), PROFILE)?;
        let workload = named(&self.workloads, text(WORKLOAD), WORKLOAD)?.clone();
        let overrides = table.columns().iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
        let overrides = overrides.filter_map(|(name, column)| Some((name.as_str(), column.text(row)?)));
        let profile = varied(base, text(CAPACITY).as_deref(), overrides)?;
        let state = match text(STATE).as_deref() {
            None => Some(FilledState::usual(&profile)),
            Some("none") => None,
            Some(state) => Some(
                state.parse().map_err(|error: SweepError| SweepError::Input(format!("{error}; or none")))?,
            ),
        };
        let seed = match table.column(SEED) {
            Some(TableColumn::Int(seeds)) => match seeds[row] {
                None => 1,
                Some(seed) => u64::try_from(seed).map_err(|_| {
                    SweepError::Input(format!("the seed is {seed}: it has to be a whole number from 0 on"))
                })?,
            },
            _ => 1,
        };
        Ok(Trial { profile, state, workload, seed: Seed(seed) })
    }
}

/// The profile with another capacity and other values of its keys.
fn varied<'a>(
    base: &Profile,
    capacity: Option<&str>,
    overrides: impl Iterator<Item = (&'a str, String)>,
) -> Result<Profile, SweepError> {
    let mut profile = base.clone();
    if let Some(text) = capacity {
        let bytes = match text.parse::<u64>() {
            Ok(bytes) => Bytes(bytes),
            Err(_) => {
                text.parse().map_err(|error| SweepError::Input(format!("the capacity `{text}`: {error}")))?
            }
        };
        profile = profile.resized(bytes)?;
    }
    let overrides: Vec<(&str, String)> = overrides.collect();
    if overrides.is_empty() {
        return Ok(profile);
    }
    let mut table: toml::Table = toml::from_str(&profile.to_toml()).expect("a profile is TOML");
    for (key, value) in &overrides {
        override_key(&mut table, key, value)?;
    }
    let text = toml::to_string(&table).expect("a table of texts and numbers is TOML");
    let pairs: Vec<String> = overrides.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok(Profile::parse(&text, &format!("{} with {}", base.name, pairs.join(" ")))?)
}

/// The columns of the table, followed by the results.
fn with_results(table: &Table, outcomes: &[Outcome]) -> Table {
    let mut results = table.clone();
    let floats = |get: &dyn Fn(&TrialResult) -> Option<f64>| {
        TableColumn::Float(outcomes.iter().map(|outcome| outcome.as_ref().ok().and_then(get)).collect())
    };
    let counts = |get: &dyn Fn(&TrialResult) -> Option<u64>| {
        let values = outcomes.iter().map(|outcome| outcome.as_ref().ok().and_then(get));
        TableColumn::Int(values.map(|value| value.map(|value| value as i64)).collect())
    };
    results.push("write_amplification", floats(&|result| result.write_amplification));
    for (mode, names) in MODE_NAMES.iter().enumerate() {
        let float = |get: fn(&ModeResult) -> f64| floats(&move |result| result.modes[mode].as_ref().map(get));
        let count = |get: &dyn Fn(&ModeResult) -> u64| counts(&|result| result.modes[mode].as_ref().map(get));
        results.push(names[0], count(&|mode| mode.count));
        results.push(names[1], float(|mode| mode.iops));
        results.push(names[2], float(|mode| mode.mb_per_s));
        results.push(names[3], float(|mode| mode.mean_ns));
        for (at, name) in names[4..8].iter().enumerate() {
            results.push(name, count(&|mode| mode.percentiles_ns[at]));
        }
        results.push(names[8], count(&|mode| mode.max_ns));
    }
    results.push("failed_ios", counts(&|result| Some(result.failed_ios)));
    results.push("simulated_s", floats(&|result| Some(result.simulated.as_secs_f64())));
    results.push("energy_j", floats(&|result| result.energy_j));
    results.push("block_erases", counts(&|result| result.block_erases));
    results.push("block_erases_mean", floats(&|result| result.block_erases_mean));
    results.push("block_erases_max", counts(&|result| result.block_erases_max.map(u64::from)));
    results.push(WALL, floats(&|result| Some(result.wall_s)));
    results.push(
        ERROR,
        TableColumn::Text(outcomes.iter().map(|outcome| outcome.as_ref().err().cloned()).collect()),
    );
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> TableColumn {
        TableColumn::Text(values.iter().map(|value| Some((*value).to_owned())).collect())
    }

    const WRITES: &str = "version = 1\nname = \"w\"\n[[experiment]]\nname = \"W\"\npattern = \"RW\"\nio_size = \"4KiB\"\nio_count = 2000\n";

    fn trials() -> Table {
        let mut table = Table::default();
        table.push(PROFILE, texts(&["tlc-sata", "sim:tlc-sata", "tlc-sata", "no-such"]));
        table.push(WORKLOAD, texts(&[WRITES; 4]));
        table.push(CAPACITY, texts(&["64MiB"; 4]));
        table.push(SEED, TableColumn::Int([1, 1, 2, 1].map(Some).to_vec()));
        table.push("flash.over_provisioning", TableColumn::Float(vec![None, Some(0.28), None, None]));
        table
    }

    fn evaluate(table: &Table, threads: usize) -> Result<Table, SweepError> {
        let evaluator = Evaluator::new(StateCache::USUAL, None);
        evaluator.evaluate(table, threads, &AtomicBool::new(false), &|_| {})
    }

    fn without_wall(table: &Table) -> Vec<(String, TableColumn)> {
        table.columns().iter().filter(|(name, _)| name != WALL).cloned().collect()
    }

    #[test]
    fn rows_do_not_depend_on_each_other_and_an_error_is_a_value() {
        let table = evaluate(&trials(), 1).unwrap();
        assert_eq!(without_wall(&table), without_wall(&evaluate(&trials(), 3).unwrap()));
        let names: Vec<&str> = table.columns().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[5..31], RESULT_COLUMNS);
        let Some(TableColumn::Float(amplification)) = table.column("write_amplification") else {
            panic!("{names:?}")
        };
        let [Some(usual), Some(more_spare), Some(_), None] = amplification[..] else {
            panic!("{amplification:?}")
        };
        assert!(more_spare < usual, "{amplification:?}");
        assert_eq!(table.column("write_count").unwrap().text(0).unwrap(), "2000");
        let error = table.column(ERROR).unwrap();
        assert_eq!((error.text(0), error.text(1), error.text(2)), (None, None, None));
        assert!(error.text(3).unwrap().starts_with("there is no simulated device `no-such`"), "{error:?}");
    }

    #[test]
    fn a_table_without_a_column_or_with_a_wrong_one_is_refused() {
        let refused = |name: &str, column: TableColumn| {
            let mut table = trials();
            table.push(name, column);
            evaluate(&table, 1).unwrap_err().to_string()
        };
        assert!(
            refused("sede", TableColumn::Int(vec![None; 4]))
                .starts_with("the column `sede` means nothing here")
        );
        assert!(refused("error", TableColumn::Int(vec![None; 4])).contains("which is a result"));
        assert!(refused(SEED, TableColumn::Int(vec![None; 4])).contains("two columns"));
        assert!(refused(STATE, TableColumn::Int(vec![None; 4])).contains("has to hold texts"));
        let nothing = evaluate(&Table::default(), 1).unwrap_err().to_string();
        assert!(nothing.starts_with("the table has no column `profile`"), "{nothing}");
    }

    #[test]
    fn what_is_wrong_with_a_row_is_in_the_row() {
        let mut table = Table::default();
        table.push(PROFILE, texts(&["tlc-sata"; 5]));
        table.push(WORKLOAD, texts(&["baselines/RW"; 5]));
        table.push(CAPACITY, texts(&["many", "64MiB", "64MiB", "64MiB", "64MiB"]));
        table.push(STATE, texts(&["none", "fresh", "none", "none", "none"]));
        table.push(SEED, TableColumn::Int([1, 1, -1, 1, 1].map(Some).to_vec()));
        table.push("flash.over_provisionin", texts(&["0.1"; 5]));
        table.push("flash.dies", TableColumn::Float(vec![None, None, None, Some(1.5), None]));
        let results = evaluate(&table, 2).unwrap();
        let error = |row| results.column(ERROR).unwrap().text(row).unwrap();
        assert!(error(0).starts_with("the capacity `many`"), "{}", error(0));
        assert!(error(4).contains("over_provisionin"), "{}", error(4));
        assert!(error(3).contains("whole number"), "{}", error(3));
    }
}
