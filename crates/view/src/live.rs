//! A recording behind the page: as it is, or growing while it is looked at.
//!
//! # Model
//! Nothing runs in the background. The page asks for its recordings about once a second while one of them grows, and that question is what
//! looks at the run's folder. So a run that nobody looks at costs nothing.
//!
//! # Invariants
//! - An answer is computed from one state of the recording, however much it grows meanwhile.
//! - A look that fails changes nothing: the next one may find the file whole.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::recording::{Source, ViewedRecording};

/// Looks at what a recording comes from: `None` if it is as it was at the look before.
pub type LookAgain = Box<dyn FnMut() -> Result<Option<Source>, Box<dyn Error + Send + Sync>> + Send>;

/// The least time between two looks, less than the page's second: two browsers cause no more looks than one.
const LOOK_LEAST: Duration = Duration::from_millis(500);
/// Failed looks in a row after which the page says so: a file that is replaced is missing for less than one.
const FAILURES_MOST: u32 = 3;

/// A recording, as it is now.
pub struct LiveRecording {
    current: RwLock<Arc<ViewedRecording>>,
    follower: Option<Mutex<Follower>>,
}

struct Follower {
    look: LookAgain,
    looked: Option<Instant>,
    /// What was found and could not be read.
    unread: Option<Source>,
    failures: u32,
}

impl From<Arc<ViewedRecording>> for LiveRecording {
    fn from(recording: Arc<ViewedRecording>) -> LiveRecording {
        LiveRecording { current: RwLock::new(recording), follower: None }
    }
}

impl LiveRecording {
    /// A recording, and what looks at it again if it grows.
    pub fn new(recording: ViewedRecording, look: Option<LookAgain>) -> LiveRecording {
        let follower =
            look.map(|look| Mutex::new(Follower { look, looked: None, unread: None, failures: 0 }));
        LiveRecording { current: RwLock::new(Arc::new(recording)), follower }
    }

    /// The recording as it was at the latest look.
    pub fn now(&self) -> Arc<ViewedRecording> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks whether the recording has grown, if the latest look is not too recent, and reads what is new.
    pub fn refresh(&self) {
        let Some(follower) = &self.follower else { return };
        let mut follower = follower.lock().unwrap_or_else(PoisonError::into_inner);
        if follower.looked.is_some_and(|looked| looked.elapsed() < LOOK_LEAST) {
            return;
        }
        let before = self.now();
        let found = (follower.look)().map(|found| found.or(follower.unread.take()));
        let grown = match found {
            Ok(None) => Ok(None),
            Ok(Some(source)) => {
                let grown = before.grown(source.clone());
                follower.unread = grown.is_err().then_some(source);
                grown.map(Some).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        follower.failures = if grown.is_err() { follower.failures.saturating_add(1) } else { 0 };
        match grown {
            Ok(None) => {}
            Ok(Some(grown)) => self.replace(grown),
            Err(error) if follower.failures == FAILURES_MOST => self.replace(before.stopped(&error)),
            Err(_) => {}
        }
        follower.looked = Some(Instant::now());
    }

    fn replace(&self, recording: ViewedRecording) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(recording);
    }
}
