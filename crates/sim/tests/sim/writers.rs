//! Writers on a drive of the zoo: what the tests of stalls and the example `stalls` share.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_sim::{FlashDevice, Profile, Translation};

const WRITERS: u64 = 16;

/// What each writer writes.
#[derive(Clone, Copy)]
pub struct Load {
    pub io: Bytes,
    pub sequential: bool,
}

impl Load {
    pub const RANDOM: Load = Load { io: Bytes::kib(4), sequential: false };

    /// How many IOs fill the device.
    pub fn slots(self, device: &FlashDevice) -> u64 {
        device.geometry().capacity.0 / self.io.0
    }

    /// Writes all of the device in order, then `random` IOs of this size at random offsets.
    pub fn filling(self, slots: u64, random: u64) -> impl Iterator<Item = (Operation, Bytes, Bytes)> {
        let mut places = Prng::new(Seed(2));
        let anywhere = (0..random).map(move |_| places.below(slots));
        (0..slots).chain(anywhere).map(move |slot| (Operation::Write, Bytes(slot * self.io.0), self.io))
    }
}

/// The device with another capacity; `None` if it cannot have it. A cached map keeps its share.
pub fn resized(profile: &Profile, capacity: Bytes) -> Option<Profile> {
    let mut profile = profile.clone();
    if let Translation::DemandMap(options) = &mut profile.translation {
        let share = capacity.0 as f64 / profile.capacity.0 as f64;
        options.cached_entries = (f64::from(options.cached_entries) * share) as u32;
    }
    profile.resized(capacity).ok()
}

/// The response times of `count` writes, of which 16 are in flight.
pub fn response_times(device: &mut FlashDevice, load: Load, count: usize) -> Vec<Nanos> {
    let slots = load.slots(device);
    let (mut random, mut next) = (Prng::new(Seed(1)), 0);
    let mut submit = |device: &mut FlashDevice| {
        let slot = if load.sequential { next % slots } else { random.below(slots) };
        next += 1;
        device.submit(Request {
            tag: 0,
            operation: Operation::Write,
            offset: Bytes(slot * load.io.0),
            size: load.io,
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
