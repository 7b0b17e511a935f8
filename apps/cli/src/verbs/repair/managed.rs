//! The directories whose files live on the volume.
//!
//! # Model
//! `--files` names a directory, all of whose files live on the volume, or names in one by a pattern. On the volume the files have the
//! directory's absolute path, so one volume may hold those of several.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use flashlab_export::merged::name_matches;

use crate::exit::{Refused, Usage};
use crate::served_paths::advice_on_directory;

/// What begins a pattern.
const SPECIAL: &[u8] = b"*?[";

/// A directory of which files live on the volume.
#[derive(Debug, PartialEq)]
pub struct ManagedDirectory {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// The patterns of the names that live on the volume; none: all of them.
    pub patterns: Vec<Vec<u8>>,
}

/// What `--files` names.
///
/// # Errors
/// When it names no directory, or one in another one.
pub fn managed_directories(given: &[PathBuf]) -> Result<Vec<ManagedDirectory>> {
    let mut managed: Vec<ManagedDirectory> = Vec::new();
    for given in given {
        let new = one(given)?;
        match managed.iter_mut().find(|known| known.path == new.path) {
            None => managed.push(new),
            Some(known) if known.is_whole() || new.is_whole() => known.patterns.clear(),
            Some(known) => known.patterns.extend(new.patterns),
        }
    }
    for inner in &managed {
        let within =
            |outer: &&ManagedDirectory| inner.path != outer.path && inner.path.starts_with(&outer.path);
        if let Some(outer) = managed.iter().find(within) {
            bail!(Usage(format!(
                "--files {}: it lies in {}, which --files names, too: name one of them",
                inner.path.display(),
                outer.path.display()
            )));
        }
    }
    Ok(managed)
}

fn one(given: &Path) -> Result<ManagedDirectory> {
    let name = given.display();
    let is_pattern = |name: &OsStr| name.as_bytes().iter().any(|byte| SPECIAL.contains(byte));
    let (directory, patterns) = match (given.is_dir(), given.file_name(), given.parent()) {
        (false, Some(pattern), Some(parent)) if is_pattern(pattern) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            (parent, vec![pattern.as_bytes().to_vec()])
        }
        _ => (given, Vec::new()),
    };
    let found = directory.canonicalize().and_then(|path| Ok((fs::metadata(&path)?.is_dir(), path)));
    let path = match found {
        Ok((true, path)) => path,
        Ok((false, _)) => bail!(Usage(format!(
            "--files {name}: it is no directory; name its directory, or a pattern, such as '{name}*', because programs make \
             files in addition to it"
        ))),
        Err(error) if is_pattern(directory.as_os_str()) => bail!(Usage(format!(
            "--files {name}: {}: {error}; only the last name may be a pattern",
            directory.display()
        ))),
        Err(error) => bail!(Usage(format!(
            "--files {name}: {error}; name a directory, and make it first{}",
            advice_on_directory(&error)
        ))),
    };
    if path == Path::new("/") {
        bail!(Usage(format!("--files {name}: programs need what is there; name a directory in it")));
    }
    Ok(ManagedDirectory { path, patterns })
}

impl ManagedDirectory {
    /// Whether all of its files live on the volume.
    pub fn is_whole(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a name in it lives on the volume.
    pub fn has(&self, name: &OsStr) -> bool {
        self.is_whole() || self.patterns.iter().any(|pattern| name_matches(pattern, name.as_bytes()))
    }

    /// The path of its files on the volume, from the volume's root.
    pub fn on_volume(&self) -> &Path {
        self.path.strip_prefix("/").unwrap_or(&self.path)
    }

    /// The names beneath that the volume's hide.
    pub fn hidden(&self, beneath: &Path) -> Result<Vec<OsString>> {
        let failed = |error| Usage(format!("cannot read {}: {error}", self.path.display()));
        let entries = fs::read_dir(beneath).map_err(failed)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names: Vec<OsString> = names.collect::<Result<_, _>>().map_err(failed)?;
        names.retain(|name| self.has(name));
        names.sort();
        Ok(names)
    }

    /// Fails if there are files beneath, which the volume's would hide.
    pub fn refuse_hidden(&self) -> Result<()> {
        let hidden = self.hidden(&self.path)?;
        let Some(first) = hidden.first() else { return Ok(()) };
        bail!(Refused(format!(
            "{} holds {} that the volume's files would hide, for example {}: copy them to the volume with --copy-in, or hide \
             them with --hide; nothing was changed",
            self.path.display(),
            if hidden.len() == 1 { "a file".to_owned() } else { format!("{} files", hidden.len()) },
            self.path.join(first).display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_patterns_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("a/[b]")).unwrap();
        fs::write(path.join("file"), "").unwrap();
        let managed = |names: &[&str]| {
            let given: Vec<PathBuf> = names.iter().map(|name| path.join(name)).collect();
            managed_directories(&given).map_err(|error| error.to_string())
        };
        let patterns = |names: &[&str]| managed(names).unwrap().remove(0).patterns;
        assert_eq!(patterns(&["a"]), [b""; 0]);
        // What is a directory is no pattern.
        assert_eq!(patterns(&["a/[b]"]), [b""; 0]);
        assert_eq!(patterns(&["a/app.db*", "a/*.log"]), [&b"app.db*"[..], b"*.log"]);
        assert_eq!(patterns(&["a/app.db*", "a"]), [b""; 0]);
        for (names, text) in [
            (&["file"][..], "file*'"),
            (&["missing"], "make it first"),
            (&["*/x"], "only the last name"),
            (&["a", "a/[b]"], "name one of them"),
            (&["a/x*", "a/[b]/*"], "name one of them"),
            (&["/"], "name a directory in it"),
        ] {
            let error = managed(names).unwrap_err();
            assert!(error.contains(text), "{names:?}: {error}");
        }
    }
}
