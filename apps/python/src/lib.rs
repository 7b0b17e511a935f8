//! The Python package `flashlab`: simulated devices, the runs in folders as Arrow tables, and the design space.
//!
//! # Model
//! 1. Arguments become values of the other crates (`arguments`, `arrow_input`).
//! 2. Work that may take long runs without the GIL on a thread of its own, and ends when Python receives a signal
//!    (`interruptible`).
//! 3. Results are Python's numbers, dictionaries, or Arrow streams (`arrow_output`).
//!
//! # Invariants
//! - No method keeps the GIL while it computes.
//! - An error is one of the exceptions in `errors`, with the text that the program prints.

// PyO3 makes the functions of the module, and documents them in Python.
#![allow(missing_docs)]

mod arguments;
mod arrow_input;
mod arrow_output;
mod errors;
mod evaluate;
mod interruptible;
mod policy;
mod run;
mod simulator;

use pyo3::prelude::*;

#[pymodule]
mod _flashlab {
    use super::*;

    #[pymodule_export]
    use super::arrow_output::{Samples, Table};
    #[pymodule_export]
    use super::evaluate::{_check, _combinations, _text, evaluate};
    #[pymodule_export]
    use super::policy::_simulate_policy;
    #[pymodule_export]
    use super::run::{Run, open};
    #[pymodule_export]
    use super::simulator::{Simulation, Simulator, profiles};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        errors::add(module)
    }
}
