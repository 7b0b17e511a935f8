//! Shows every IO of a recording as linked pictures in a browser, 10^8 of them as well as 10^4.
//!
//! # Model
//! 1. A [`ViewedRecording`] is opened from its files of samples. A large one is summed up once to a pyramid, which is kept in a file.
//! 2. A page asks for a [`view::View`]: windows over time, offsets and response times, and filters. The answer has the panels' bins, whose
//!    number depends on the pixels and not on the IOs ([`count::count`]).
//! 3. The page paints the bins of the pyramid at once, and asks for those of the IOs themselves where they are finer.
//!
//! # Invariants
//! - Each count is exact for the windows that the answer names.
//! - Nothing is written into samples. Only the files that were named when the server started are read.
//! - The server listens on the loopback interface alone, and answers only those who know the address that it printed.

pub mod answer;
mod assets;
pub mod browser;
pub mod count;
mod error;
mod export;
mod frame;
pub mod grid;
mod growing;
mod import;
pub mod ios;
mod live;
mod opening;
mod overview;
pub mod page_file;
pub mod panels;
mod pyramid;
mod pyramid_file;
mod ratios;
mod recording;
pub mod response_bins;
mod server;
mod stamp;
mod summing;
mod table;
pub mod view;
pub mod windows;

pub use error::ViewError;
pub use import::{ForeignFiles, ForeignFormat};
pub use live::{LiveRecording, LookAgain};
pub use overview::{Overview, RunLabel};
pub use recording::{Mark, MarkKind, MarkedTime, ReadProgress, Source, ViewedRecording};
pub use server::{Server, ServerPace};
