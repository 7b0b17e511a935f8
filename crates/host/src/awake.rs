//! Processors that stay awake while nothing runs on them.
//!
//! # Model
//! A processor without work sleeps, and takes time to wake up: some tens of microseconds in a virtual machine, where its
//! sleep is the host's business, and in the deeper states of a real one. The kernel lets a program ask for less, in
//! `/dev/cpu_dma_latency` (its documentation: "PM Quality of Service Interface"); asked for none, an idle processor waits
//! in a loop. The wish ends with the program, however that ends.
//!
//! # Invariants
//! - processors sleep as before when the value is dropped.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// The wish of this process for processors that wake up at once.
#[derive(Debug)]
pub struct IdleProcessors {
    wishes: File,
}

/// What the kernel takes for no wish: PM_QOS_CPU_LATENCY_DEFAULT_VALUE, in microseconds.
const NO_WISH: i32 = 2_000_000_000;

impl IdleProcessors {
    /// No wish yet.
    ///
    /// # Errors
    /// When only root may wish, or the kernel takes no wishes.
    pub fn open() -> io::Result<IdleProcessors> {
        let mut wishes = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
        // To open it is to wish for what was asked for last.
        wishes.write_all(&NO_WISH.to_ne_bytes())?;
        Ok(IdleProcessors { wishes })
    }

    /// From now on they stay awake, or sleep as they like.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stay_awake(&mut self, awake: bool) -> io::Result<()> {
        let microseconds = if awake { 0 } else { NO_WISH };
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
