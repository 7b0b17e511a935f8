//! The exceptions. Each has the program's text, and its class has the program's exit code.

use flashlab_bench::BenchError;
use flashlab_samples::SamplesError;
use flashlab_sweep::SweepError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    flashlab,
    FlashlabError,
    PyException,
    "An error of flashlab. `exit_code` is the exit code that the program would have ended with."
);
pyo3::create_exception!(flashlab, FailedError, FlashlabError, "The work failed (exit code 1).");
pyo3::create_exception!(flashlab, InputError, FlashlabError, "What was asked for is wrong (exit code 2).");

/// Adds the exceptions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, class, code) in [
        ("FlashlabError", py.get_type::<FlashlabError>(), 1),
        ("FailedError", py.get_type::<FailedError>(), 1),
        ("InputError", py.get_type::<InputError>(), 2),
    ] {
        class.setattr("exit_code", code)?;
        module.add(name, class)?;
    }
    Ok(())
}

/// The exception for wrong input.
pub fn input(message: impl Into<String>) -> PyErr {
    InputError::new_err(message.into())
}

/// The exception for an error of an experiment.
pub fn of_sweep(error: SweepError) -> PyErr {
    match error {
        SweepError::Samples(error) => of_samples(&error),
        error if error.is_wrong_input() => InputError::new_err(error.to_string()),
        error => FailedError::new_err(error.to_string()),
    }
}

/// The exception for an error of a run's folder.
pub fn of_samples(error: &SamplesError) -> PyErr {
    match error.is_wrong_input() {
        true => InputError::new_err(error.to_string()),
        false => FailedError::new_err(error.to_string()),
    }
}

/// The exception for an error of a measurement.
pub fn of_bench(error: &BenchError) -> PyErr {
    match error.is_wrong_input() {
        true => InputError::new_err(error.to_string()),
        false => FailedError::new_err(error.to_string()),
    }
}
