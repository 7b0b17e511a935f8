//! The processors stay awake while the disk is used.
//!
//! # Model
//! An IO crosses from thread to thread several times, and each time a processor that sleeps has to wake up, which here
//! takes longer than the rest of its way. Where the system allows it, idle processors wait awake from the first IO on,
//! until the disk was not used for a while. A disk that nobody uses costs nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Thread};
use std::time::Duration;

use flashlab_host::IdleProcessors;

use crate::locks::lock;

/// For how long after its last IO a disk counts as used, at least.
const WHILE: Duration = Duration::from_millis(500);

/// Sees to it that processors are awake; `None` where the system does not allow it.
pub struct AwakeCpus(Option<(Arc<Shared>, Thread)>);

struct Shared {
    processors: Mutex<IdleProcessors>,
    /// Whether there was an IO since the thread looked last.
    used: AtomicBool,
    /// Changed by who has the lock of the processors.
    awake: AtomicBool,
    ending: AtomicBool,
}

impl AwakeCpus {
    /// Starts the thread that lets processors sleep again.
    pub fn start() -> AwakeCpus {
        let Ok(processors) = IdleProcessors::open() else { return AwakeCpus(None) };
        let shared = Arc::new(Shared {
            processors: Mutex::new(processors),
            used: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("awake".to_owned()).spawn(move || own.let_sleep());
        // Without the thread they would stay awake for ever.
        AwakeCpus(thread.ok().map(|handle| (shared, handle.thread().clone())))
    }

    /// There is an IO.
    #[inline]
    pub fn used(&self) {
        let Some((shared, thread)) = &self.0 else { return };
        if !shared.used.load(Ordering::Relaxed) {
            shared.used.store(true, Ordering::SeqCst);
            if !shared.awake.load(Ordering::SeqCst) {
                shared.wake();
                thread.unpark();
            }
        }
    }
}

impl Drop for AwakeCpus {
    fn drop(&mut self) {
        if let Some((shared, thread)) = &self.0 {
            shared.ending.store(true, Ordering::Release);
            thread.unpark();
        }
    }
}

impl Shared {
    fn wake(&self) {
        let mut processors = lock(&self.processors);
        // IOs take their time all the same.
        let _ = processors.stay_awake(true);
        self.awake.store(true, Ordering::SeqCst);
    }

    fn let_sleep(&self) {
        while !self.ending.load(Ordering::Acquire) {
            if !self.awake.load(Ordering::Acquire) {
                std::thread::park();
                continue;
            }
            std::thread::park_timeout(WHILE);
            if self.used.swap(false, Ordering::AcqRel) {
                continue;
            }
            let mut processors = lock(&self.processors);
            let _ = processors.stay_awake(false);
            self.awake.store(false, Ordering::SeqCst);
            drop(processors);
            // One that came in between saw them awake.
            if self.used.load(Ordering::SeqCst) {
                self.wake();
            }
        }
    }
}
