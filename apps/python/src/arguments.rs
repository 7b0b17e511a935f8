//! Arguments from Python: sizes, profiles and plans as numbers, texts or dictionaries.

use std::path::PathBuf;

use flashlab_base::Bytes;
use flashlab_plan::Plan;
use flashlab_sim::Profile;
use flashlab_sweep::{profile_of, workload_of};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::errors::{input, of_sweep};

/// A value as Python shows it.
fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string())
}

/// A whole number from 0 on.
#[derive(Clone, Copy)]
pub struct Whole(pub u64);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Whole> {
        if object.is_instance_of::<PyBool>() {
            return Err(input("a boolean is no number: give a whole number from 0 on"));
        }
        let number = object.extract::<u64>();
        number
            .map(Whole)
            .map_err(|_| input(format!("{} is no whole number from 0 to 2^64 - 1", shown(&object))))
    }
}

impl Whole {
    /// The number, if it is within these bounds.
    pub fn within(self, name: &str, bounds: std::ops::RangeInclusive<u32>) -> PyResult<u32> {
        let number = u32::try_from(self.0).ok().filter(|number| bounds.contains(number));
        let (least, most) = (bounds.start(), bounds.end());
        number.ok_or_else(|| input(format!("{name} is {}: it may be from {least} to {most}", self.0)))
    }
}

/// A size: a number of bytes, or text as `"32KiB"`.
pub enum Size {
    Number(u64),
    Text(String),
}

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Size> {
        match object.extract::<String>() {
            Ok(text) => Ok(Size::Text(text)),
            Err(_) => object.extract::<Whole>().map(|bytes| Size::Number(bytes.0)).map_err(|_| {
                input(format!("{} is no size: give a number of bytes, or text as \"32KiB\"", shown(&object)))
            }),
        }
    }
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
