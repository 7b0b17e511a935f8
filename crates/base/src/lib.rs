//! The vocabulary of flashlab: bytes, nanoseconds, seeds, the mode, the operation and the sample of an IO,
//! and one pseudo-random generator.
//!
//! Every other crate uses these types, so that a size is never mistaken for an index, nor a duration for a
//! count. Invariants:
//! - nothing here reads a clock, a file or the operating system's randomness;
//! - [`Prng`] yields the same sequence for the same [`Seed`] on every platform and in every
//!   version: recorded runs are replayed from their seed.

mod activity;
mod bytes;
mod identity;
mod mode;
mod nanos;
mod operation;
mod prng;
mod quantile;
mod sample;
mod spans;
mod target;
mod text_or_number;

pub use activity::{Activity, ActivityAmount, ActivityKind};
pub use bytes::{Bytes, ParseBytesError};
pub use identity::{Identity, SavedState};
pub use mode::Mode;
pub use nanos::{Nanos, ParseNanosError};
pub use operation::Operation;
pub use prng::{Prng, Seed};
pub use quantile::{median, quantile};
pub use sample::Sample;
pub use spans::{Span, Spans};
pub use target::{ParseTargetError, ProfileName, SimulatedTarget, Target};
