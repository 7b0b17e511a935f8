//! The trait [`Device`]: anything that takes IOs and answers in its own time.
//!
//! # Model
//! A device is handed [`Request`]s and hands back [`Completion`]s, stamped in nanoseconds of the
//! device's own clock. A real disk answers with wall time, a simulated one with virtual time; who
//! waits asks the device to wait. So the disk, the simulator, a repaired disk and a fault injector
//! are interchangeable, and everything above this crate is written once.
//!
//! # Invariants
//! - Every request that [`Device::submit`] accepts is answered by exactly one completion.
//! - `submitted <= completed <= now()` for every completion that was returned.
//! - [`Device::now`] never goes back; all lanes of a device share one clock origin.
//! - The caller owns the data: a [`Buffer`] travels with the request and comes back with the
//!   completion, so nothing is copied or allocated for each IO.
//! - Nothing in this crate opens a file.

mod buffer;
mod fault;
mod huge_pages;
mod memory;
mod nothing;
mod virtual_queue;

use std::fmt;
use std::io;

pub use buffer::{Arena, Buffer};
pub use fault::{Fault, FaultyDevice};
pub use flashlab_base::{Identity, Operation};
pub use huge_pages::vec_in_huge_pages;
pub use memory::MemoryDevice;
pub use nothing::NoDevice;
pub use virtual_queue::VirtualQueue;

use flashlab_base::{Bytes, Nanos};

/// One IO, on its way to a device.
#[derive(Debug)]
pub struct Request {
    /// Chosen by the caller and returned with the completion.
    pub tag: u64,
    /// What to do.
    pub operation: Operation,
    /// Where the range starts.
    pub offset: Bytes,
    /// How long the range is.
    pub size: Bytes,
    /// The data, at least `size` long. A device to which content makes no difference takes
    /// [`Buffer::empty`], and then only times the IO.
    pub buffer: Buffer,
}

/// One IO, on its way back.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// When the device took the request.
    pub submitted: Nanos,
    /// When it was done.
    pub completed: Nanos,
    /// Whether it was done.
    pub result: Result<(), IoError>,
    /// The request's buffer.
    pub buffer: Buffer,
}

/// An IO that the device refused or failed, as the operating system's error number.
///
/// A number and not a text, because it is recorded with every IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoError {
    /// The error number (errno), greater than zero.
    pub errno: i32,
}

impl IoError {
    /// EIO: the device failed the IO.
    pub const IO: IoError = IoError { errno: 5 };
    /// ENXIO: the device is gone.
    pub const GONE: IoError = IoError { errno: 6 };
    /// EINVAL: the range is misaligned or empty.
    pub const INVALID: IoError = IoError { errno: 22 };
    /// ENOSPC: the range ends after the device.
    pub const OUT_OF_RANGE: IoError = IoError { errno: 28 };
    /// EOVERFLOW: more zones are written to than the device allows, as Linux tells it.
    pub const TOO_MANY_ZONES: IoError = IoError { errno: 75 };
    /// EROFS: the device takes no writes.
    pub const READ_ONLY: IoError = IoError { errno: 30 };

    /// Whether no later IO can succeed either, because the device itself is gone.
    pub fn device_is_gone(self) -> bool {
        const ENODEV: i32 = 19;
        self == IoError::GONE || self.errno == ENODEV
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.errno).fmt(f)
    }
}

impl std::error::Error for IoError {}

/// What does not change while a device is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The first offset that does not exist.
    pub capacity: Bytes,
    /// Offsets and sizes are multiples of this.
    pub block: Bytes,
    /// How many requests may be in flight at once.
    pub depth: u32,
}

impl Geometry {
    /// Whether a request to this range can be served.
    ///
    /// # Errors
    /// [`IoError::INVALID`] when it is empty or misaligned, [`IoError::OUT_OF_RANGE`] when it ends
    /// after the device.
    #[inline]
    pub fn check(&self, offset: Bytes, size: Bytes) -> Result<(), IoError> {
        if size == Bytes::ZERO || !offset.is_multiple_of(self.block) || !size.is_multiple_of(self.block) {
            return Err(IoError::INVALID);
        }
        match offset.0.checked_add(size.0) {
            Some(end) if end <= self.capacity.0 => Ok(()),
            _ => Err(IoError::OUT_OF_RANGE),
        }
    }
}

/// What the surroundings of a device did since they were first asked, for finding out whether
/// something else disturbed a measurement. `None` is "not known".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Bytes that the device beneath read and wrote, whoever asked for them.
    pub device_traffic: Option<Bytes>,
    /// How long the calling thread was ready to run and did not, for want of a processor.
    pub processor_wait: Option<Nanos>,
    /// How many times a processor or the device lowered its speed because of heat.
    pub thermal_throttles: Option<u64>,
}

/// Anything that serves IOs. One that is [`Send`] goes to another thread only while nothing is in flight:
/// the kernel may serve its queue to one thread.
pub trait Device {
    /// Capacity, block size and depth.
    fn geometry(&self) -> Geometry;

    /// What is known of the device's make.
    fn identity(&self) -> Identity;

    /// The device's clock.
    fn now(&mut self) -> Nanos;

    /// Hands one request to the device, which stamps it now. A synchronous device serves it before
    /// it returns. Whatever is wrong with the request is told by its completion. More requests in
    /// flight than [`Geometry::depth`] are the caller's mistake, and a panic.
    fn submit(&mut self, request: Request);

    /// Waits for the next completion, or until the clock shows `until`, whichever is first. `None`:
    /// it is `until` now. With nothing in flight this is how one waits; with nothing in flight and
    /// [`Nanos::MAX`] it returns `None` at once.
    fn wait(&mut self, until: Nanos) -> Option<Completion>;

    /// Takes the next completion before its time, which stands in it; the clock stands still. A device in virtual time
    /// knows it, and whoever holds its answers until they are due by another clock needs it. `None`: nothing is in
    /// flight, or the device has to wait for its completions as everybody does.
    fn foresee(&mut self) -> Option<Completion> {
        None
    }

    /// Handles on the same device that can be used by `count` threads at once, each a device with a
    /// depth of its own and all with this device's clock. `None` when the device has a clock that
    /// only one caller can move, as simulated ones do: the caller interleaves its processes then.
    ///
    /// # Errors
    /// When the device has lanes, but not so many: what stands against it.
    fn lanes(&mut self, _count: u32) -> io::Result<Option<Vec<Box<dyn Device + Send>>>> {
        Ok(None)
    }

    /// What became of the target since it was opened, so that a measurement of it means nothing: that
    /// its file was removed, or cut short. A clause without a subject, for people. `None`: nothing.
    fn loss(&mut self) -> Option<String> {
        None
    }

    /// Why it takes no writes any more, although it answers reads, as of a device that is worn out. A clause without a
    /// subject, for people. `None`: it takes them, or does not say.
    fn refusal(&mut self) -> Option<String> {
        None
    }

    /// Whether reads give back what was written.
    fn keeps_data(&self) -> bool {
        true
    }

    /// Whether what is written makes a difference, in time if not in what is read later. Where it does not, callers
    /// pass [`Buffer::empty`].
    fn sees_content(&self) -> bool {
        self.keeps_data()
    }

    /// Serves IOs as fast as can be, without times: a simulated device does so for being brought into a state. `false`,
    /// and nothing is done, when the device can only be given requests. Its clock stands still meanwhile.
    ///
    /// # Errors
    /// Of the first IO that fails; the ones before it were served.
    fn condition(
        &mut self,
        _ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>,
    ) -> Result<bool, IoError> {
        Ok(false)
    }

    /// What the device wrote to its flash since it was made, where it counts that: what hosts wrote, and what it moved by
    /// itself. It may count in coarse steps, and late.
    fn media_written(&mut self) -> Option<Bytes> {
        None
    }

    /// What disturbed the device so far, as seen from the calling thread.
    fn disturbance(&mut self) -> Disturbance {
        Disturbance::default()
    }
}
