//! The trait [`Wrapper`]: a device in front of another one.
//!
//! # Model
//! Each method of [`Device`] has a twin in [`Wrapper`] which by default calls the inner device. A wrapper overrides what
//! it changes; everything else, capabilities included, reaches the inner device. So a wrapper loses a method or a
//! capability only if its author writes that down.
//!
//! A capability lets callers bypass the five core methods: lanes have their own `submit` and `wait`, and
//! [`VirtualTime::next_completion`] replaces `wait`. A wrapper that changes completions therefore decides on each
//! capability: it intercepts it (returns `Some(self)` and implements the capability's trait), returns `None`, or leaves
//! the default where bypassing is right.
//!
//! # How to implement it
//! Write `impl flashlab_device::Wrapper for ...` and do not import the trait: with [`Device`] and [`Wrapper`] both in
//! scope, a call such as `device.now()` on the wrapper is ambiguous.

use flashlab_base::{Identity, Nanos};

use crate::device::{Conditioning, Device, Health, Parallel, Telemetry, VirtualTime};
use crate::geometry::Geometry;
use crate::io::{Completion, Request};

/// A device that forwards everything that it does not override to an inner device.
pub trait Wrapper {
    /// The inner device.
    type Inner: Device + ?Sized;

    /// The inner device.
    fn inner(&self) -> &Self::Inner;

    /// The inner device.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// See [`Device::geometry`].
    #[inline]
    fn geometry(&self) -> Geometry {
        self.inner().geometry()
    }

    /// See [`Device::identity`].
    #[inline]
    fn identity(&self) -> Identity {
        self.inner().identity()
    }

    /// See [`Device::now`].
    #[inline]
    fn now(&mut self) -> Nanos {
        self.inner_mut().now()
    }

    /// See [`Device::submit`].
    #[inline]
    fn submit(&mut self, request: Request) {
        self.inner_mut().submit(request);
    }

    /// See [`Device::wait`].
    #[inline]
    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.inner_mut().wait(until)
    }

    /// See [`Device::virtual_time`].
    #[inline]
    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        self.inner_mut().virtual_time()
    }

    /// See [`Device::conditioning`].
    #[inline]
    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        self.inner_mut().conditioning()
    }

    /// See [`Device::parallel`].
    #[inline]
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        self.inner_mut().parallel()
    }

    /// See [`Device::health`].
    #[inline]
    fn health(&mut self) -> Option<&mut dyn Health> {
        self.inner_mut().health()
    }

    /// See [`Device::telemetry`].
    #[inline]
    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        self.inner_mut().telemetry()
    }
}

impl<W: Wrapper + ?Sized> Device for W {
    #[inline]
    fn geometry(&self) -> Geometry {
        Wrapper::geometry(self)
    }

    #[inline]
    fn identity(&self) -> Identity {
        Wrapper::identity(self)
    }

    #[inline]
    fn now(&mut self) -> Nanos {
        Wrapper::now(self)
    }

    #[inline]
    fn submit(&mut self, request: Request) {
        Wrapper::submit(self, request);
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        Wrapper::wait(self, until)
    }

    #[inline]
    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        Wrapper::virtual_time(self)
    }

    #[inline]
    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        Wrapper::conditioning(self)
    }

    #[inline]
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        Wrapper::parallel(self)
    }

    #[inline]
    fn health(&mut self) -> Option<&mut dyn Health> {
        Wrapper::health(self)
    }

    #[inline]
    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        Wrapper::telemetry(self)
    }
}

/// A box of a device is a device.
impl<D: Device + ?Sized> Wrapper for Box<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        self
    }

    fn inner_mut(&mut self) -> &mut D {
        self
    }
}

/// A borrowed device is a device.
impl<D: Device + ?Sized> Wrapper for &mut D {
    type Inner = D;

    fn inner(&self) -> &D {
        self
    }

    fn inner_mut(&mut self) -> &mut D {
        self
    }
}
