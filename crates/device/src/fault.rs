//! A wrapper that makes a device fail on purpose.

use flashlab_base::{Bytes, Nanos};

use crate::{Completion, Device, Disturbance, Geometry, Identity, IoError, Operation, Request};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The n-th IO (from 0) fails with this error; the others are served.
    Nth(u64, IoError),
    /// From the n-th IO (from 0) on the device is gone.
    GoneFrom(u64),
}

/// A device that serves as the one beneath it does, but for its fault.
pub struct FaultyDevice<D> {
    inner: D,
    fault: Fault,
    completed: u64,
}

impl<D: Device> FaultyDevice<D> {
    /// `inner`, with `fault`.
    pub fn new(inner: D, fault: Fault) -> FaultyDevice<D> {
        FaultyDevice { inner, fault, completed: 0 }
    }

    fn spoil(&mut self, mut completion: Completion) -> Completion {
        match self.fault {
            Fault::Nth(n, error) if self.completed == n => completion.result = Err(error),
            Fault::GoneFrom(n) if self.completed >= n => completion.result = Err(IoError::GONE),
            _ => {}
        }
        self.completed += 1;
        completion
    }
}

impl<D: Device> Device for FaultyDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn now(&mut self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, request: Request) {
        self.inner.submit(request);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.inner.wait(until)?;
        Some(self.spoil(completion))
    }

    fn foresee(&mut self) -> Option<Completion> {
        let completion = self.inner.foresee()?;
        Some(self.spoil(completion))
    }

    fn keeps_data(&self) -> bool {
        self.inner.keeps_data()
    }

    fn sees_content(&self) -> bool {
        self.inner.sees_content()
    }

    fn condition(
        &mut self,
        ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>,
    ) -> Result<bool, IoError> {
        self.inner.condition(ios)
    }

    fn loss(&mut self) -> Option<String> {
        self.inner.loss()
    }

    fn refusal(&mut self) -> Option<String> {
        self.inner.refusal()
    }

    fn media_written(&mut self) -> Option<Bytes> {
        self.inner.media_written()
    }

    fn disturbance(&mut self) -> Disturbance {
        self.inner.disturbance()
    }
}
