//! The text files that a person names: plans and profiles.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::Result;

use crate::exit::Usage;

/// Larger than any plan or profile. A device that is named by mistake may have no end.
const LARGEST: u64 = 1 << 20;

/// Opens what has an end: a pipe that nobody writes to would be waited for for ever.
pub fn open(file: &Path) -> io::Result<File> {
    if std::fs::metadata(file)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe and not a file"));
    }
    File::open(file)
}

/// Reads a `kind` of file, as `plan`. `advice` ends the message that it cannot be read.
pub fn text(file: impl AsRef<Path>, kind: &str, advice: &str) -> Result<String> {
    let file = file.as_ref();
    let failed =
        |reason: String| Usage(format!("cannot read the {kind} {}: {reason}{advice}", file.display()));
    let mut bytes = Vec::new();
    open(file)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(failed(format!("it is larger than 1 MiB, as no {kind} is")).into());
    }
    Ok(String::from_utf8(bytes).map_err(|_| failed("it is no text in UTF-8".to_owned()))?)
}
