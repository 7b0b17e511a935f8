//! Keeps idle CPUs awake while programs use the disk.
//!
//! # Model
//! An IO passes through several threads. If a CPU sleeps each time, waking it takes longer than everything else, above all
//! in a virtual machine. From the first IO on, the kernel is asked to keep idle CPUs out of sleep states, until the disk
//! was idle for [`IDLE_TIME`]. An unused disk costs no power.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Thread};
use std::time::Duration;

use flashlab_host::IdleProcessors;

use crate::locks::lock;

/// The idle time after which CPUs may sleep: long enough for programs that pause between IOs, and at most twice this time
/// passes before the CPUs sleep again.
const IDLE_TIME: Duration = Duration::from_millis(500);

/// Keeps idle CPUs awake; `None` if the system does not allow it.
pub struct AwakeCpus(Option<(Arc<Shared>, Thread)>);

struct Shared {
    cpus: Mutex<IdleProcessors>,
    /// Whether an IO came since the thread last checked.
    used: AtomicBool,
    /// Changed only under the lock of `cpus`.
    awake: AtomicBool,
    ending: AtomicBool,
}

impl AwakeCpus {
    /// Starts the thread that lets CPUs sleep again.
    pub fn start() -> AwakeCpus {
        let Ok(cpus) = IdleProcessors::open() else { return AwakeCpus(None) };
        let shared = Arc::new(Shared {
            cpus: Mutex::new(cpus),
            used: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("awake".to_owned()).spawn(move || own.let_sleep());
        // Without the thread, nothing would let the CPUs sleep again. They are then not kept awake at all.
        AwakeCpus(thread.ok().map(|handle| (shared, handle.thread().clone())))
    }

    /// Wakes the CPUs, unless they are awake. Every IO calls it.
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
        let mut cpus = lock(&self.cpus);
        // If it fails, IOs are served, but later.
        let _ = cpus.stay_awake(true);
        self.awake.store(true, Ordering::SeqCst);
    }

    fn let_sleep(&self) {
        while !self.ending.load(Ordering::Acquire) {
            if !self.awake.load(Ordering::Acquire) {
                std::thread::park();
                continue;
            }
            std::thread::park_timeout(IDLE_TIME);
            if self.used.swap(false, Ordering::AcqRel) {
                continue;
            }
            let mut cpus = lock(&self.cpus);
            let _ = cpus.stay_awake(false);
            self.awake.store(false, Ordering::SeqCst);
            drop(cpus);
            // An IO between the two lines above saw the CPUs awake and did not wake them.
            if self.used.load(Ordering::SeqCst) {
                self.wake();
            }
        }
    }
}
