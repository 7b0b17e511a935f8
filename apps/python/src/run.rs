//! `flashlab.open`: the folder of a run.

use std::path::PathBuf;

use flashlab_analysis::compare;
use flashlab_bench::{compared_run, rebuild};
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use pyo3::prelude::*;

use crate::arguments::to_python;
use crate::arrow_output::{Samples, Table, of_rows};
use crate::errors::{input, of_bench, of_samples};
use crate::interruptible::interruptible;

/// Opens the folder of a run that any verb of flashlab made. Each file is compared with its checksum.
///
/// Raises InputError if it is no such folder, or a file of it is missing or damaged.
#[pyfunction]
pub fn open(py: Python<'_>, folder: PathBuf) -> PyResult<Run> {
    let opened = interruptible(py, |_| RunFolder::open::<serde_json::Value>(&folder, FolderKind::ALL))?;
    let (folder, manifest) = opened.map_err(|error| of_samples(&error))?;
    Ok(Run { folder, manifest })
}

/// A run in a folder.
#[pyclass(module = "flashlab", frozen)]
pub struct Run {
    folder: RunFolder,
    manifest: Manifest<serde_json::Value>,
}

impl Run {
    fn require_bench(&self, what: &str) -> PyResult<()> {
        if FolderKind::BENCHMARKS.contains(&self.manifest.kind) {
            return Ok(());
        }
        let (path, kind) = (self.folder.path().display(), self.manifest.kind.name());
        Err(input(format!("{path} is {kind}, which has no {what}: open a run of flashlab bench or run")))
    }
}

#[pymethods]
impl Run {
    /// Every IO of the run.
    fn samples(&self) -> Samples {
        Samples::in_segments(self.folder.all_segments())
    }

    /// What was measured, how, and by which version, as a dictionary.
    #[getter]
    fn manifest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.manifest)
    }

    /// Where the folder is.
    #[getter]
    fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Whether all work was done.
    #[getter]
    fn is_finished(&self) -> bool {
        self.manifest.finished.is_some()
    }

    /// What follows from the samples, computed from the files: baselines, micro-benchmarks, hints, as in summary.json.
    ///
    /// Raises InputError for a folder that is no run of bench or run.
    #[getter]
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.require_bench("findings")?;
        let (findings, _) =
            interruptible(py, |_| rebuild(self.folder.path()))?.map_err(|error| of_bench(&error))?;
        to_python(py, &findings)
    }

    /// A table with a row for each run: experiment, value, rates and percentiles, as flashlab report --json has them. Of repetitions,
    /// the middle one.
    ///
    /// Raises InputError for a folder that is no run of bench or run.
    #[getter]
    fn summary(&self, py: Python<'_>) -> PyResult<Table> {
        self.require_bench("summary")?;
        let (findings, _) =
            interruptible(py, |_| rebuild(self.folder.path()))?.map_err(|error| of_bench(&error))?;
        Ok(Table::new(of_rows(&flashlab_report::middle_rows(&findings))?))
    }

    /// How far other runs differ from this one: ratios with confidence intervals at each quantile, as flashlab compare --json.
    ///
    /// Raises InputError for a folder that is no run of bench or run.
    #[pyo3(signature = (*others))]
    fn compare<'py>(&self, py: Python<'py>, others: Vec<PyRef<'py, Run>>) -> PyResult<Bound<'py, PyAny>> {
        if others.is_empty() {
            return Err(input("give at least one run to compare with"));
        }
        self.require_bench("experiments to compare")?;
        for other in &others {
            other.require_bench("experiments to compare")?;
        }
        let paths: Vec<PathBuf> =
            std::iter::once(self.path()).chain(others.iter().map(|run| run.path())).collect();
        drop(others);
        let compared = interruptible(py, |_| {
            let runs = paths.iter().map(|path| compared_run(path)).collect::<Result<Vec<_>, _>>()?;
            Ok(compare(&runs))
        })?;
        to_python(py, &compared.map_err(|error| of_bench(&error))?)
    }

    /// Figures of the run: response_time, cdf, micro_benchmark, load. They need matplotlib.
    #[getter]
    fn plot<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("flashlab._plot")?.call_method1("RunPlots", (slf,))
    }

    /// The folder's path is pickled, and not what lies in it.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (PathBuf,))> {
        let path = slf.get().folder.path();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok((slf.py().import("flashlab")?.getattr("open")?, (path,)))
    }

    fn __repr__(&self) -> String {
        format!("<flashlab.Run {} in {}>", self.manifest.kind.name(), self.folder.path().display())
    }
}
