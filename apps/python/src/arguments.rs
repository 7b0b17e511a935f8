//! Arguments from Python: sizes, profiles and plans as numbers, texts or dictionaries.

use std::path::PathBuf;

use flashlab_base::Bytes;
use flashlab_plan::Plan;
use flashlab_sim::Profile;
use flashlab_sweep::{profile_of, workload_of};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{input, of_sweep};

/// A size: a number of bytes, or text as `"32KiB"`.
#[derive(FromPyObject)]
pub enum Size {
    Number(u64),
    Text(String),
}

impl Size {
    pub fn bytes(&self) -> PyResult<Bytes> {
        match self {
            Size::Number(bytes) => Ok(Bytes(*bytes)),
            Size::Text(text) => text.parse().map_err(|error| input(format!("{error}"))),
        }
    }
}

/// A description: its name, file or text; a path; or its content as a dictionary.
#[derive(FromPyObject)]
pub enum Description<'py> {
    Text(String),
    Content(Bound<'py, PyDict>),
    Path(PathBuf),
}

impl Description<'_> {
    /// As a name, a file or text.
    pub fn text(&self) -> PyResult<String> {
        match self {
            Description::Text(text) => Ok(text.clone()),
            Description::Path(path) => Ok(path.display().to_string()),
            Description::Content(content) => {
                let json: String =
                    content.py().import("json")?.call_method1("dumps", (content,))?.extract()?;
                let table: toml::Table = serde_json::from_str(&json)
                    .map_err(|error| input(format!("the dictionary cannot be written as TOML: {error}")))?;
                let text = toml::to_string(&table)
                    .map_err(|error| input(format!("the dictionary cannot be written as TOML: {error}")))?;
                // A name or a file has one line.
                Ok(format!("{text}\n"))
            }
        }
    }

    pub fn profile(&self) -> PyResult<Profile> {
        profile_of(&self.text()?).map_err(of_sweep)
    }

    pub fn plan(&self) -> PyResult<Plan> {
        workload_of(&self.text()?).map_err(of_sweep)
    }
}

/// A value as Python's numbers, texts, lists and dictionaries.
pub fn to_python<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(|error| input(error.to_string()))?;
    py.import("json")?.call_method1("loads", (json,))
}
