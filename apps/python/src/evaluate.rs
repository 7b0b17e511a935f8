//! `flashlab.evaluate`: a table of simulated experiments to a table of results.

use std::sync::LazyLock;

use flashlab_base::Seed;
use flashlab_sweep::{Evaluator, Sampling, StateCache, names_a_file};
use pyo3::prelude::*;

use crate::arguments::{Description, Whole};
use crate::arrow_input;
use crate::arrow_output::Table;
use crate::errors::of_sweep;
use crate::interruptible::interruptible;

/// One for each process, so that batches that follow each other share states.
static EVALUATOR: LazyLock<Evaluator> =
    LazyLock::new(|| Evaluator::new(StateCache::USUAL, flashlab_host::available_memory()));

/// More threads than any host has CPUs.
const MOST_THREADS: u32 = 4096;

/// Computes simulated experiments, one a row.
///
/// table: an Arrow table of any library, or a dictionary of lists. Its columns are profile and workload (a name, a file or TOML
/// text), seed, state ("steady", "random", "sequential" or "none"), capacity, id, and keys of the profile, as
/// flash.over_provisioning. Only profile and workload are needed.
///
/// threads: how many rows are computed at a time. The results do not depend on it.
///
/// Returns the table with the results of each row, and in the column error what was wrong with it. All results but wall_s follow
/// from the row alone.
///
/// Raises InputError if the table lacks a column, or has one that means nothing.
#[pyfunction]
#[pyo3(signature = (table, *, threads = Whole(1)), text_signature = "(table, *, threads=1)")]
pub fn evaluate(py: Python<'_>, table: &Bound<'_, PyAny>, threads: Whole) -> PyResult<Table> {
    let threads = threads.within("threads", 1..=MOST_THREADS)? as usize;
    let trials = arrow_input::table(table)?;
    let results = interruptible(py, |interrupt| EVALUATOR.evaluate(&trials, threads, interrupt, &|_| {}))?;
    Ok(Table::new(results.map_err(of_sweep)?))
}

/// Refuses a table of which no row can be computed, with what is wrong with the first one.
#[pyfunction]
pub fn _check(py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<()> {
    let trials = arrow_input::table(table)?;
    py.detach(|| Evaluator::check(&trials)).map_err(of_sweep)
}

/// `number` different combinations of a grid with these counts of values, numbered with the last key first. method is "sobol" or
/// "random".
#[pyfunction]
pub fn _combinations(method: &str, counts: Vec<u64>, number: Whole, seed: Whole) -> PyResult<Vec<u64>> {
    method
        .parse::<Sampling>()
        .and_then(|method| method.combinations(&counts, number.0, Seed(seed.0)))
        .map_err(of_sweep)
}

/// A profile or workload as a table has it: a file as its text, so that no other host needs the file.
#[pyfunction]
pub fn _text(description: Description<'_>, kind: &str) -> PyResult<String> {
    let text = description.text()?;
    let content =
        if kind == "profile" { description.profile()?.to_toml() } else { description.plan()?.to_toml() };
    Ok(if text.contains('\n') || names_a_file(&text) { content } else { text })
}
