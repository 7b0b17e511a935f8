//! The trait [`Device`] and the capabilities that some devices have in addition.
//!
//! # Model
//! A caller submits [`Request`]s and waits for [`Completion`]s. The device stamps both in nanoseconds of its own clock:
//! a real disk's clock shows wall time, a simulated device's clock virtual time. A caller that needs a pause also waits
//! through the device.
//!
//! Every device implements `geometry`, `identity`, `now`, `submit` and `wait`. A function that only some devices
//! have is in a separate trait, a capability, which one group of callers uses. An accessor of [`Device`] returns the capability,
//! or `None`:
//!
//! | capability | what it adds | who calls it |
//! | --- | --- | --- |
//! | [`VirtualTime`] | completions that are known in advance | the export of a simulated device as a disk of this system, which sends each answer when it is due |
//! | [`Conditioning`] | IOs without response times | the code that prepares a device, for example fills it |
//! | [`Parallel`] | handles for several threads | the engine, for parallel patterns |
//! | [`Health`] | whether the device can still be measured | the code that explains a failed run |
//! | [`Telemetry`] | counters of what the device did, which its completions do not show | the code that compares them before and after a run |
//!
//! # Invariants
//! - The device answers every submitted request with exactly one completion.
//! - `submitted <= completed <= now()` for every completion that [`Device::wait`] returns.
//! - [`Device::now`] never decreases. All handles that [`Parallel::lanes`] returns share one clock.
//! - A capability's methods have no default implementation, except the counters that only a simulator has
//!   ([`Telemetry::programmed`], [`Telemetry::erased`]). So every implementation and every wrapper decides on each of them.

use std::io;

use flashlab_base::{Activity, Bytes, Identity, Nanos, Operation};

use crate::geometry::Geometry;
use crate::io::{Completion, IoError, Request};

/// Anything that serves IOs.
///
/// A device that is [`Send`] may move to another thread only while no IO is in flight: the kernel may tie its queue to
/// one thread.
///
/// A device that stands in front of another one implements [`Wrapper`](crate::Wrapper) instead of this trait.
pub trait Device {
    /// Capacity, block size, depth, and whether the device stores data.
    fn geometry(&self) -> Geometry;

    /// The device's make: model, firmware, what the operating system knows of it.
    fn identity(&self) -> Identity;

    /// The time on the device's clock.
    fn now(&mut self) -> Nanos;

    /// Submits one request, which the device stamps with the current time. A synchronous device serves it before this
    /// returns. If anything is wrong with the request, its completion has the error.
    ///
    /// # Panics
    /// When more than [`Geometry::depth`] requests are in flight: the caller's mistake.
    fn submit(&mut self, request: Request);

    /// Waits for the next completion, but at most until the clock shows `until`. Returns `None` when that
    /// time is reached first. If nothing is in flight, this is a pause. If nothing is in flight and `until`
    /// is [`Nanos::MAX`], it returns `None` immediately.
    fn wait(&mut self, until: Nanos) -> Option<Completion>;

    /// Completions that are known in advance, on a device with a virtual clock.
    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        None
    }

    /// Prepares the device faster than timed requests can.
    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        None
    }

    /// Handles for several threads. `None` where only one caller can move the clock, as on simulated devices. The caller
    /// then submits the IOs of all processes of a parallel pattern from one thread.
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        None
    }

    /// Whether the device can still be measured.
    fn health(&mut self) -> Option<&mut dyn Health> {
        None
    }

    /// The device's counters.
    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        None
    }
}

/// A device whose clock moves only when its caller waits, so that it knows when each IO will complete.
pub trait VirtualTime {
    /// Takes the next completion without waiting for it: the clock does not move, and `completed` may be
    /// later than the clock. `None`: nothing is in flight.
    fn next_completion(&mut self) -> Option<Completion>;
}

/// A device that can be brought into a state without computing response times.
pub trait Conditioning {
    /// Serves IOs, each an operation with its offset and size, as fast as possible. The clock does not move.
    ///
    /// # Errors
    /// That of the first IO that fails; the device served the IOs before it.
    fn condition(&mut self, ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>) -> Result<(), IoError>;

    /// Keeps the state, so that [`Conditioning::recall`] can return to it. Nothing may be in flight. A device whose response times do
    /// not depend on its state keeps nothing.
    fn remember(&mut self) {}

    /// Returns to the state that was kept last; the clock goes on. Nothing may be in flight. Without a kept state, nothing happens.
    fn recall(&mut self) {}
}

/// A device that several threads can use at the same time.
pub trait Parallel {
    /// Opens `count` handles on the device. Each is a device with its own depth; all share this device's clock.
    ///
    /// # Errors
    /// When the device cannot open `count` handles. The error says why.
    fn lanes(&mut self, count: u32) -> io::Result<Vec<Box<dyn Device + Send>>>;
}

/// A device that knows whether it can still be measured.
pub trait Health {
    /// Why measurements are meaningless from now on, as the predicate of a sentence about the device: "was removed", "is
    /// smaller than before". `None`: nothing happened.
    fn loss(&mut self) -> Option<String>;

    /// Why the device refuses writes while it still serves reads, as the predicate of a sentence about the device: "is worn
    /// out". `None`: it accepts writes, or does not know.
    fn refusal(&mut self) -> Option<String>;
}

/// A device with counters of what it did, which no response time shows.
pub trait Telemetry {
    /// Bytes that the device programmed into its flash since it was made: host writes and the device's own copies. The
    /// counter may be coarse and may lag behind. `None`: the device does not count them.
    fn media_written(&mut self) -> Option<Bytes>;

    /// As [`Telemetry::media_written`], for code that may use the simulator's true values. A simulated device returns the
    /// number even if the device that it models does not count it.
    fn programmed(&mut self) -> Option<Bytes> {
        self.media_written()
    }

    /// The size of all flash blocks that the device erased since it was made, each block counted once for each erase.
    /// For code that may use the simulator's true values; `None` on every other device.
    fn erased(&mut self) -> Option<Bytes> {
        None
    }

    /// Notes from now on when the device works on its own account. Only simulated devices know it.
    fn note_activity(&mut self) {}

    /// What was noted since the last call, at most `most` spans of each kind, ascending in time.
    fn take_activity(&mut self, most: usize) -> Vec<Activity> {
        let _ = most;
        Vec::new()
    }

    /// What disturbed measurements so far, as seen from the calling thread.
    fn disturbance(&mut self) -> DisturbanceCounters;
}

/// Counters of what may disturb a measurement, since the device was opened. The difference of two readings
/// shows a disturbance. `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisturbanceCounters {
    /// Bytes that any program read from or wrote to the underlying device.
    pub device_traffic: Option<Bytes>,
    /// How long the calling thread was ready to run but had to wait for a CPU.
    pub cpu_wait: Option<Nanos>,
    /// How many times a CPU or the device throttled itself because of heat.
    pub thermal_throttles: Option<u64>,
}
