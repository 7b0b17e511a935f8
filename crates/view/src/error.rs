//! What can be wrong with a view.

use std::io;
use std::path::PathBuf;

use flashlab_samples::SamplesError;
use flashlab_trace::TraceError;

/// Why a view cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The samples are damaged or cannot be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// A trace or log of another program has the wrong content.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A file of another program cannot be shown.
    #[error("{}: {message}", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// Why, and what to do.
        message: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of another program is converted into the cache, and that cannot be written.
    #[error("cannot write {}: {source}; set XDG_CACHE_HOME to a folder that can be written", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value of a request is wrong.
    #[error("{key}={value} is not understood: it takes {takes}")]
    Query {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
        /// What would be right.
        takes: String,
    },
    /// There is no such recording.
    #[error("there is no recording {0}: api/recordings lists those that there are")]
    NoRecording(String),
    /// The one who asked has left.
    #[error("the request was given up")]
    Cancelled,
    /// A view has more IOs than can be handled so.
    #[error(
        "{ios} IOs cannot be {purpose} here, {most} at most: narrow the view, or query the run's Parquet files (docs/formats.md)"
    )]
    TooMany {
        /// Its IOs.
        ios: u64,
        /// How many could be.
        most: u64,
        /// What was to be done with them.
        purpose: &'static str,
    },
    /// A picture needs a browser.
    #[error(
        "there is no browser to take the picture with: install chromium, or open the page in your browser and take the picture there"
    )]
    NoBrowser,
    /// Runs do not fit into a page in a file.
    #[error("the page would have {bytes} bytes, and a page in a file has {most} at most: name fewer runs")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// The browser failed.
    #[error("the browser could not show the page: {0}")]
    Browser(String),
    /// A file of IOs cannot be made.
    #[error("the file cannot be made: {0}")]
    Export(String),
    /// The port cannot be listened to.
    #[error(
        "cannot listen on 127.0.0.1:{port}: {source}; choose another port with --port, or leave it out to take a free one"
    )]
    Listen {
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
}

impl ViewError {
    /// Whether another request would succeed, and not the same one later.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            ViewError::Samples(error) => error.is_wrong_input(),
            ViewError::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
            ViewError::Trace(_) | ViewError::Foreign { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn query(key: &str, value: &str, takes: &str) -> ViewError {
        ViewError::Query { key: key.to_owned(), value: value.to_owned(), takes: takes.to_owned() }
    }
}
