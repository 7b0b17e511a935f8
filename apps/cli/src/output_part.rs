//! The part of an output: the file or folder as it is named until it is complete.
//!
//! # Invariants
//! - Only flashlab makes names of this form, so nobody else's file is called a leftover.
//! - A signal that ends the program during an [`OutputPart`] says what becomes of it: a file is removed, a folder is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use flashlab_report::shell_word;
use signal_hook::iterator::Signals;

use crate::exit::{FAILED, Usage};
use crate::interrupt::ending_signals;

/// What stands between the name of an output and the number of the process that writes it.
const MARK: &str = ".flashlab-";
const END: &str = ".part";

/// The part that a signal would leave.
static UNDER_WAY: Mutex<Option<PathBuf>> = Mutex::new(None);

fn under_way() -> MutexGuard<'static, Option<PathBuf>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part that takes long to become complete. There is one at a time. The file or folder itself is made by its writer.
pub struct OutputPart {
    path: PathBuf,
}

impl OutputPart {
    /// Names it, and what killed processes left of the same output. Signals are handled from now on.
    pub fn begin(output: &Path) -> Result<OutputPart> {
        let path = path_of(output)?;
        name_left(&path);
        *under_way() = Some(path.clone());
        handle_signals()?;
        Ok(OutputPart { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the complete output its name, unless that exists by now. A signal waits until it has the name.
    pub fn rename(&self, output: &Path) -> std::io::Result<()> {
        let mut under_way = under_way();
        flashlab_host::rename_without_replacing(&self.path, output)?;
        *under_way = None;
        Ok(())
    }
}

impl Drop for OutputPart {
    fn drop(&mut self) {
        *under_way() = None;
    }
}

/// Starts the thread that ends the program when a signal asks for it.
fn handle_signals() -> Result<()> {
    let mut signals = Signals::new(ending_signals()).context("cannot listen to signals")?;
    std::thread::spawn(move || {
        if signals.forever().next().is_none() {
            return;
        }
        // No output gets its name from now on. One that has its name is complete, and the program ends by itself.
        let under_way = under_way();
        match under_way.as_deref() {
            None => return,
            Some(part) if part.is_dir() => {
                let part = shell_word(&part.display().to_string());
                tell!("flashlab: interrupted: what was copied is in {part}; remove it with: rm -r {part}");
            }
            Some(part) => {
                let _ = fs::remove_file(part);
                tell!("flashlab: interrupted: no output was made, and nothing is left of it");
            }
        }
        exit(FAILED.into())
    });
    Ok(())
}

/// The name of an output until it is complete, next to the final one.
pub fn path_of(output: &Path) -> Result<PathBuf> {
    let target = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    let Some(name) = target.file_name() else {
        bail!(Usage(format!("{} names no file", output.display())));
    };
    let mut part = name.to_owned();
    part.push(format!("{MARK}{}{END}", std::process::id()));
    Ok(target.with_file_name(part))
}

/// Names the parts of this output that killed processes left.
pub fn name_left(part: &Path) {
    let Some(name) = part.file_name().and_then(|name| name.to_str()) else { return };
    let Some((output, _)) = name.rsplit_once(MARK) else { return };
    let folder = folder_of(part);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            name.strip_prefix(output)?.strip_prefix(MARK)?.strip_suffix(END)?.parse::<u32>().ok()
        });
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            tell!(
                "{} was left by a flashlab that was killed; it may be removed",
                folder.join(name).display()
            );
        }
    }
}

/// The folder in which a file is.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
