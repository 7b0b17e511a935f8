//! Keeps idle CPUs awake, so that a sleeping thread wakes up without delay.
//!
//! # Model
//! An idle CPU enters a sleep state and needs time to wake up. In a virtual machine, or in the deeper states
//! of a real one, that is tens of microseconds. A program can ask the kernel for a smaller latency through
//! `/dev/cpu_dma_latency` (kernel documentation: "PM Quality of Service Interface"). With a latency of zero,
//! an idle CPU waits in a loop. The request ends when the program ends or closes the file.
//!
//! # Invariants
//! - When the value is dropped, CPUs sleep as before.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// The request of this process for CPUs that wake up immediately.
#[derive(Debug)]
pub struct IdleProcessors {
    wishes: File,
}

/// The value that the kernel takes for "no request": PM_QOS_CPU_LATENCY_DEFAULT_VALUE, in microseconds.
const NO_REQUEST: i32 = 2_000_000_000;

impl IdleProcessors {
    /// No wish yet.
    ///
    /// # Errors
    /// If only root may make a request, or the kernel does not support it.
    pub fn open() -> io::Result<IdleProcessors> {
        let mut wishes = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
        // Opening the file is a request for 0 us, until a value is written.
        wishes.write_all(&NO_REQUEST.to_ne_bytes())?;
        Ok(IdleProcessors { wishes })
    }

    /// Keeps CPUs awake from now on, or lets them sleep.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stay_awake(&mut self, awake: bool) -> io::Result<()> {
        let microseconds = if awake { 0 } else { NO_REQUEST };
        self.wishes.write_all(&microseconds.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_wish_can_change_the_mind() {
        match IdleProcessors::open() {
            Ok(mut processors) => {
                processors.stay_awake(true).unwrap();
                processors.stay_awake(false).unwrap();
            }
            Err(error) => flashlab_skip::skip(flashlab_skip::Need::Kernel, error),
        }
    }
}
