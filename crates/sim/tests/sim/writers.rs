//! Random writers on a drive of the zoo: what the tests of stalls and the example `stalls` share.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_sim::{FlashDevice, Profile, Translation};

pub const IO: Bytes = Bytes::kib(4);
const WRITERS: u64 = 16;

/// The device with another capacity; `None` if it cannot have it. A cached map keeps its share.
pub fn resized(profile: &Profile, capacity: Bytes) -> Option<Profile> {
    let mut profile = profile.clone();
    if let Translation::DemandMap(options) = &mut profile.translation {
        let share = capacity.0 as f64 / profile.capacity.0 as f64;
        options.cached_entries = (f64::from(options.cached_entries) * share) as u32;
    }
    profile.resized(capacity).ok()
}

/// The response times of `count` random writes, of which 16 are in flight.
pub fn response_times(device: &mut FlashDevice, count: usize) -> Vec<Nanos> {
    let slots = device.geometry().capacity.0 / IO.0;
    let mut random = Prng::new(Seed(1));
    let mut submit = |device: &mut FlashDevice| {
        let offset = Bytes(random.below(slots) * IO.0);
        device.submit(Request {
            tag: 0,
            operation: Operation::Write,
            offset,
            size: IO,
            buffer: Buffer::empty(),
        });
    };
    (0..WRITERS).for_each(|_| submit(device));
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        let done = device.wait(Nanos::MAX).expect("an IO is in flight");
        done.result.as_ref().expect("writes succeed");
        times.push(done.completed.since(done.submitted));
        submit(device);
    }
    times
}
