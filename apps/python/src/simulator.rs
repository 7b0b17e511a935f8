//! `flashlab.Simulator`: a simulated device in virtual time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flashlab_analysis::ClassTable;
use flashlab_base::{Bytes, Nanos, Operation, Sample, Seed};
use flashlab_device::Device;
use flashlab_engine::Pace;
use flashlab_sim::flash::Counts;
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice, zoo};
use flashlab_sweep::{
    FilledState, RunRecorder, SimulatedRun, SweepError, TableColumn, precondition, replay, run_plans,
};
use flashlab_trace::{Fit, Trace, TraceIo};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::{Description, Size, Whole, to_python};
use crate::arrow_input;
use crate::arrow_output::{RunSamples, Samples};
use crate::errors::{input, of_sweep};
use crate::interruptible::interruptible;

/// The depth of a replay that is as fast as possible, if none is given.
const DEPTH: u32 = 32;

/// The simulated devices that come with flashlab: name and title.
#[pyfunction]
pub fn profiles() -> Vec<(String, String)> {
    zoo().into_iter().map(|profile| (profile.name, profile.title)).collect()
}

/// What makes a pickled device: a function of the package, and profile, seed and state.
type Pickled<'py> = (Bound<'py, PyAny>, (String, u64, Option<Bound<'py, PyBytes>>));

/// A simulated device in virtual time.
///
/// profile: a name of the zoo ("tlc-sata"), a file, TOML text or a dictionary. seed: everything random follows from it.
/// capacity: another size, as "1GiB" or in bytes. state: what state() returned.
///
/// The same profile, seed and calls give the same samples, as in the program. Two threads cannot use one device at a time. It can
/// be pickled and copied.
///
/// Raises InputError for a profile that no device can have, and for a state of another profile.
#[pyclass(module = "flashlab")]
pub struct Simulator {
    profile: Profile,
    seed: Seed,
    /// The lock is never waited for: Python lets one call at a time change the device.
    device: Mutex<SimulatedDevice>,
    is_new: bool,
}

impl Simulator {
    fn device(&self) -> MutexGuard<'_, SimulatedDevice> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> Counts {
        self.device().as_flash().map(|flash| flash.flash().counts().clone()).unwrap_or_default()
    }
}

fn no_flash(profile: &Profile) -> PyErr {
    input(format!("sim:{} is a {}, which has no state", profile.name, profile.kind()))
}

#[pymethods]
impl Simulator {
    #[new]
    #[pyo3(
        signature = (profile, seed = Whole(1), *, capacity = None, state = None),
        text_signature = "(profile, seed=1, *, capacity=None, state=None)"
    )]
    fn new(
        py: Python<'_>,
        profile: Description<'_>,
        seed: Whole,
        capacity: Option<Size>,
        state: Option<Bound<'_, PyBytes>>,
    ) -> PyResult<Simulator> {
        let mut profile = profile.profile()?;
        if let Some(size) = capacity {
            profile = profile.resized(size.bytes()?).map_err(|error| of_sweep(error.into()))?;
        }
        if let Some(available) = flashlab_host::available_memory() {
            profile.fits_memory(available).map_err(|error| of_sweep(error.into()))?;
        }
        let state = state.as_ref().map(|state| state.as_bytes());
        let device = py.detach(|| match state {
            Some(state) => {
                let restored = FlashDevice::restore(&profile, state).map_err(SweepError::State)?;
                Ok(SimulatedDevice::Flash(Box::new(restored)))
            }
            None => Ok(profile.device()?),
        });
        let device = device.map_err(of_sweep)?;
        Ok(Simulator { profile, seed: Seed(seed.0), device: Mutex::new(device), is_new: state.is_none() })
    }

    /// Brings the device into a state, without computing response times.
    ///
    /// state: "steady" (the usual one), "random" or "sequential". times: how many times the capacity is written; not for steady.
    ///
    /// Returns what was written, the state, and how it is known.
    #[pyo3(signature = (state = None, *, times = None))]
    fn precondition<'py>(
        &mut self,
        py: Python<'py>,
        state: Option<&str>,
        times: Option<Whole>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let Simulator { profile, seed, device, is_new } = self;
        let times = times.map(|times| times.within("times", 1..=u32::MAX)).transpose()?;
        let state = match state {
            Some(text) => text.parse().map_err(of_sweep)?,
            None => FilledState::usual(profile),
        };
        let device = device.get_mut().unwrap_or_else(PoisonError::into_inner);
        let SimulatedDevice::Flash(device) = device else { return Err(no_flash(profile)) };
        *is_new = false;
        let filled =
            interruptible(py, |interrupt| precondition(device, profile, state, times, *seed, interrupt))?;
        let filled = filled.map_err(of_sweep)?;
        let result = PyDict::new(py);
        result.set_item("written_bytes", filled.written.0)?;
        result.set_item("state", filled.described.state)?;
        result.set_item("confidence", filled.described.confidence)?;
        result.set_item("evidence", filled.described.evidence)?;
        Ok(result)
    }

    /// Runs a plan or a trace in virtual time, and keeps every IO.
    ///
    /// workload: a plan's name ("granularity", or "baselines/RW" for one of its experiments), a plan's file, TOML text or a
    /// dictionary; or a trace as an Arrow table with the columns time_ns, mode ("read", "write", "flush", "discard"),
    /// offset_bytes, size_bytes.
    /// seed: of the plan's IOs; the device's if not given.
    /// Of a trace: speed is how many times as fast IOs arrive; with depth they do not arrive, but depth of them are in
    /// flight; fit is "wrap" or "scale" for IOs behind the device's end, which are an error otherwise.
    #[pyo3(signature = (workload, *, seed = None, speed = 1.0, depth = None, fit = None))]
    fn run(
        &mut self,
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        seed: Option<Whole>,
        speed: f64,
        depth: Option<Whole>,
        fit: Option<&str>,
    ) -> PyResult<Simulation> {
        let before = self.counts();
        let seed = seed.map_or(self.seed, |seed| Seed(seed.0));
        let depth = depth.map(|depth| depth.within("depth", 1..=u32::MAX)).transpose()?;
        self.is_new = false;
        let mut recorder = MemoryRecorder::default();
        let device = self.device.get_mut().unwrap_or_else(PoisonError::into_inner);
        let runs = match workload.extract::<Description<'_>>() {
            Ok(description) => {
                let plan = [description.plan()?];
                interruptible(py, |interrupt| {
                    let runs = run_plans(device, &plan, seed, &mut recorder, interrupt);
                    runs.map(|runs| (runs, recorder.runs))
                })?
            }
            Err(_) => {
                let mut trace = trace_of(workload)?;
                let pace = pace(speed, depth)?;
                let fit = fit_of(fit)?;
                let geometry = device.geometry();
                trace.fit(geometry.capacity, geometry.block, fit).map_err(|misfit| {
                    input(format!(
                        "row {} of the trace: {misfit}; give fit=\"wrap\" or \"scale\", or a capacity as large",
                        misfit.io.line
                    ))
                })?;
                interruptible(py, |interrupt| {
                    let run = replay(device, &trace, pace, &mut recorder, interrupt);
                    run.map(|run| (vec![run], recorder.runs))
                })?
            }
        };
        let (runs, samples) = runs.map_err(of_sweep)?;
        let statistics = self.device().as_flash().map(|flash| flash.statistics_since(&before));
        let names = runs.iter().map(|run| run.name.clone()).collect();
        let failures = runs.iter().find_map(|run| run.first_failure.clone());
        let tables =
            runs.into_iter().map(|SimulatedRun { classes, duration, .. }| classes.table(duration)).collect();
        Ok(Simulation { names, tables, first_failure: failures, statistics, samples: Arc::new(samples) })
    }

    /// Pages programmed for each page that the host wrote since the device was made; None while it wrote none.
    #[getter]
    fn write_amplification(&self) -> Option<f64> {
        self.device().as_flash().and_then(|flash| flash.statistics().write_amplification)
    }

    /// What the flash did since the device was made: operations by cause, erases, utilisation, energy; None without flash.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.device().as_flash().map(FlashDevice::statistics))
    }

    /// The size of the device in bytes.
    #[getter]
    fn capacity(&self) -> u64 {
        self.device().geometry().capacity.0
    }

    /// The profile as TOML.
    #[getter]
    fn profile(&self) -> String {
        self.profile.to_toml()
    }

    /// The seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed.0
    }

    /// The state as bytes: mapping, wear and buffers, but no times. Simulator(profile, state=...) begins in it.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.device().as_flash().map(FlashDevice::save));
        Ok(PyBytes::new(py, &bytes.ok_or_else(|| no_flash(&self.profile))?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let py = slf.py();
        let restore = py.import("flashlab")?.getattr("_restored")?;
        let own = slf.borrow();
        let state = match own.is_new {
            true => None,
            false => Some(own.state(py)?),
        };
        Ok((restore, (own.profile.to_toml(), own.seed.0, state)))
    }

    fn __repr__(&self) -> String {
        let capacity = Bytes(self.capacity());
        format!("<flashlab.Simulator sim:{} of {capacity}, seed {}>", self.profile.name, self.seed.0)
    }
}

fn pace(speed: f64, depth: Option<u32>) -> PyResult<Pace> {
    match depth {
        Some(depth) => Ok(Pace::AsFastAsPossible { depth }),
        None if speed == f64::INFINITY => Ok(Pace::AsFastAsPossible { depth: DEPTH }),
        None if (1e-3..=1e6).contains(&speed) => Ok(Pace::Recorded { speed }),
        None => Err(input(format!("speed is {speed}: it may be from 0.001 to 1000000, or infinite"))),
    }
}

fn fit_of(fit: Option<&str>) -> PyResult<Fit> {
    match fit {
        None => Ok(Fit::Exact),
        Some("wrap") => Ok(Fit::Wrap),
        Some("scale") => Ok(Fit::Scale),
        Some(other) => Err(input(format!("fit is `{other}`: it may be \"wrap\" or \"scale\""))),
    }
}

/// A trace from a table. The line of an IO is its row, from 1.
fn trace_of(object: &Bound<'_, PyAny>) -> PyResult<Trace> {
    if !object.hasattr("__arrow_c_stream__")? {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a {kind} is no workload: give a plan as name, file, text or dictionary, or a trace as an Arrow table"
        )));
    }
    let table = arrow_input::table(object)?;
    let missing = |name: &str| {
        input(format!(
            "the trace has no column `{name}`: it needs time_ns, mode, offset_bytes and size_bytes"
        ))
    };
    let numbers = |name: &str| match table.column(name) {
        Some(TableColumn::Int(values)) => Ok(values),
        Some(_) => Err(input(format!("the column `{name}` of the trace has to hold whole numbers"))),
        None => Err(missing(name)),
    };
    let (times, offsets, sizes) = (numbers("time_ns")?, numbers("offset_bytes")?, numbers("size_bytes")?);
    let modes = match table.column("mode") {
        Some(TableColumn::Text(values)) => values,
        Some(_) => return Err(input("the column `mode` of the trace has to hold texts")),
        None => return Err(missing("mode")),
    };
    let mut ios = Vec::with_capacity(table.len());
    for (row, mode) in modes.iter().enumerate() {
        let number = |name: &str, values: &[Option<i64>]| {
            let value = values[row].and_then(|value| u64::try_from(value).ok());
            value.ok_or_else(|| {
                input(format!("row {} of the trace: {name} has to be a whole number from 0 on", row + 1))
            })
        };
        let operation = match mode.as_deref() {
            Some("read") => Operation::Read,
            Some("write") => Operation::Write,
            Some("flush") => Operation::Flush,
            Some("discard") => Operation::Discard,
            other => {
                let other = other.unwrap_or("missing");
                return Err(input(format!(
                    "row {} of the trace: mode is {other}; it may be read, write, flush or discard",
                    row + 1
                )));
            }
        };
        let (offset, size) = match operation {
            Operation::Flush => (0, 0),
            _ => (number("offset_bytes", offsets)?, number("size_bytes", sizes)?),
        };
        if operation != Operation::Flush && (size == 0 || offset.checked_add(size).is_none()) {
            return Err(input(format!("row {} of the trace: no IO can have this range", row + 1)));
        }
        ios.push(TraceIo {
            arrival: Nanos(number("time_ns", times)?),
            operation,
            offset: Bytes(offset),
            size: Bytes(size),
            source: 0,
            line: row as u64 + 1,
        });
    }
    if ios.is_empty() {
        return Err(input("the trace has no rows"));
    }
    Ok(Trace::new(ios, vec!["table".to_owned()]))
}

/// Keeps samples in memory.
#[derive(Default)]
struct MemoryRecorder {
    runs: Vec<RunSamples>,
}

impl RunRecorder for MemoryRecorder {
    type Lane = Vec<Sample>;

    fn start(&mut self, _: &str, processes: u32) -> Result<Vec<Option<Vec<Sample>>>, SweepError> {
        Ok((0..processes).map(|_| Some(Vec::new())).collect())
    }

    fn finish(&mut self, lanes: Vec<Vec<Sample>>) -> Result<(), SweepError> {
        let number = self.runs.len() as u32 + 1;
        self.runs.push((number, lanes.into_iter().flatten().collect()));
        Ok(())
    }
}

/// What a Simulator did in one call of run().
#[pyclass(module = "flashlab", frozen)]
pub struct Simulation {
    names: Vec<String>,
    tables: Vec<ClassTable>,
    first_failure: Option<String>,
    statistics: Option<flashlab_sim::Statistics>,
    samples: Arc<Vec<RunSamples>>,
}

#[pymethods]
impl Simulation {
    /// Every IO; run n is the n-th of names.
    fn samples(&self) -> Samples {
        Samples::in_memory(Arc::clone(&self.samples))
    }

    /// The names of the runs: plan, experiment and value.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// For each run, its IOs by class: rates, and percentiles of response times.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = PyDict::new(py);
        for (name, table) in self.names.iter().zip(&self.tables) {
            summary.set_item(name, to_python(py, table)?)?;
        }
        Ok(summary)
    }

    /// Pages programmed for each page that the host wrote in this call; None if it wrote none.
    #[getter]
    fn write_amplification(&self) -> Option<f64> {
        self.statistics.as_ref().and_then(|statistics| statistics.write_amplification)
    }

    /// What the flash did in this call; None without flash.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.statistics)
    }

    /// The first IO that failed; None if all were served.
    #[getter]
    fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    fn __repr__(&self) -> String {
        let ios: usize = self.samples.iter().map(|(_, samples)| samples.len()).sum();
        format!("<flashlab.Simulation of {ios} IOs in {} runs>", self.names.len())
    }
}
