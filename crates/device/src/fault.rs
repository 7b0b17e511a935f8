//! A wrapper that makes a device fail on purpose, for tests.
//!
//! # Invariants
//! - It counts completions in the order in which callers receive them, by [`Device::wait`] or by
//!   [`VirtualTime::next_completion`], so no completion bypasses the fault.
//! - IOs of [`Device::conditioning`] do not count.

use flashlab_base::Nanos;

use crate::device::{Device, Parallel, VirtualTime};
use crate::io::{Completion, IoError};

/// Which IOs fail, numbered from 0 in the order of their completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// This one fails with this error; the device serves the others.
    Nth(u64, IoError),
    /// From this one on the device is gone.
    GoneFrom(u64),
}

/// A device with a fault.
pub struct FaultyDevice<D> {
    inner: D,
    fault: InjectedFault,
    completed: u64,
}

impl<D: Device> FaultyDevice<D> {
    /// `inner` with `fault`.
    pub fn new(inner: D, fault: InjectedFault) -> FaultyDevice<D> {
        FaultyDevice { inner, fault, completed: 0 }
    }

    fn with_fault(&mut self, mut completion: Completion) -> Completion {
        match self.fault {
            InjectedFault::Nth(n, error) if self.completed == n => completion.result = Err(error),
            InjectedFault::GoneFrom(n) if self.completed >= n => completion.result = Err(IoError::GONE),
            _ => {}
        }
        self.completed += 1;
        completion
    }
}

impl<D: Device> crate::Wrapper for FaultyDevice<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.inner.wait(until)?;
        Some(self.with_fault(completion))
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        self.inner.virtual_time()?;
        Some(self)
    }

    /// None: the lanes' completions would bypass the fault.
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        None
    }
}

impl<D: Device> VirtualTime for FaultyDevice<D> {
    fn next_completion(&mut self) -> Option<Completion> {
        let completion = self.inner.virtual_time()?.next_completion()?;
        Some(self.with_fault(completion))
    }
}
