//! The text files that a person names: plans and profiles.

use std::path::Path;

use anyhow::Result;

use crate::exit::Usage;

/// Reads a `kind` of file, as `plan`. `advice` ends the message that it cannot be read.
pub fn text(file: impl AsRef<Path>, kind: &str, advice: &str) -> Result<String> {
    let file = file.as_ref();
    flashlab_host::read_text(file, kind)
        .map_err(|error| Usage(format!("cannot read the {kind} {}: {error}{advice}", file.display())).into())
}
