//! Reads and writes files that the user names: plans and profiles, pages.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result};
use flashlab_plan::Plan;

use crate::exit::{Refused, Usage};

/// The text of a profile's file.
pub fn profile(file: &str) -> Result<String> {
    text(Path::new(file), "profile", "")
}

/// The text of a plan's file.
pub fn plan(file: &Path) -> Result<String> {
    text(file, "plan", "; `flashlab plan list` names the plans that come with flashlab")
}

/// The text of a plan that comes with flashlab.
pub fn builtin_plan(name: &str) -> Result<&'static str> {
    let found = Plan::builtins().iter().find(|builtin| builtin.name == name);
    let text = found.map(|builtin| builtin.text);
    text.with_context(|| {
        let names: Vec<&str> = Plan::builtins().iter().map(|builtin| builtin.name).collect();
        Usage(format!("there is no plan `{name}`; there are: {}", names.join(", ")))
    })
}

/// Reads a file of this `kind`, for example `plan`. `advice` is the end of the error message.
fn text(file: &Path, kind: &str, advice: &str) -> Result<String> {
    flashlab_host::read_text(file, kind)
        .map_err(|error| Usage(format!("cannot read the {kind} {}: {error}{advice}", file.display())).into())
}

/// Writes a page of HTML.
pub fn write_page(file: &Path, page: &str) -> Result<()> {
    refuse_block_device(file)?;
    std::fs::write(file, page).map_err(|error| {
        Usage(format!("cannot write {}: {error}; choose another file with --output", file.display())).into()
    })
}

/// Writes an output that is no page, named in the message as `what`.
pub fn write_output(file: &Path, what: &str, content: impl AsRef<[u8]>) -> Result<()> {
    refuse_block_device(file)?;
    std::fs::write(file, content).with_context(|| format!("cannot write {what} to {}", file.display()))
}

/// An output is a file. A block device that was named by mistake has data that nobody gave away.
fn refuse_block_device(file: &Path) -> Result<()> {
    match std::fs::metadata(file) {
        Ok(found) if found.file_type().is_block_device() => Err(Refused(format!(
            "{} is a block device: outputs are only written to files; name a file",
            file.display()
        ))
        .into()),
        _ => Ok(()),
    }
}
