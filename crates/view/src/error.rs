//! What can be wrong with a view.

use std::io;

use flashlab_samples::SamplesError;

/// Why a view cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The samples are damaged or cannot be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
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
    /// The browser failed.
    #[error("the browser could not show the page: {0}")]
    Browser(String),
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
    pub(crate) fn query(key: &str, value: &str, takes: &str) -> ViewError {
        ViewError::Query { key: key.to_owned(), value: value.to_owned(), takes: takes.to_owned() }
    }
}
