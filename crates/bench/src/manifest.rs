//! The manifest of a bench run, the plans in it, and plans as text.

use std::path::Path;

use flashlab_plan::{Experiment, Pattern, Plan};

use crate::error::BenchError;
use crate::settings::Settings;

/// The manifest of a bench run.
pub type BenchManifest = flashlab_samples::Manifest<Settings>;

/// The plans in the manifest of the run in this folder. An error names that file.
pub(crate) fn plans(path: &Path, manifest: &BenchManifest) -> Result<Vec<Plan>, BenchError> {
    let file = path.join("manifest.json");
    let name = |number| format!("{}: plan {number}", file.display());
    manifest.plans.iter().zip(1u32..).map(|(text, number)| Ok(Plan::parse(text, &name(number))?)).collect()
}

/// The shipped plan of this name.
pub(crate) fn builtin(name: &str) -> Plan {
    Plan::builtin(name).expect("a test asks for every shipped plan that this crate uses")
}

/// A pattern as TOML, for the record.
pub(crate) fn pattern_text(pattern: &Pattern) -> String {
    let experiment = Experiment { name: "run".to_owned(), pattern: pattern.clone(), vary: None };
    Plan::new("run", "", "", vec![experiment]).to_toml()
}
