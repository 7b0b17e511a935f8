//! A device without noise, on which IOs are done one after the other or several at a time.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Arena, Buffer, Device, Operation, Request};
use flashlab_sim::flash::Cause;
use flashlab_sim::{Profile, SimulatedDevice};

/// The content of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenContent {
    Random,
    Zeros,
    Ones,
}

/// The size of the writes that fill a device.
const FILL: Bytes = Bytes::kib(128);
/// The largest IO.
const LARGEST: Bytes = Bytes::mib(16);

pub struct Lab {
    device: SimulatedDevice,
    /// Passed to the IO in flight; empty if content does not matter.
    buffer: Buffer,
    content: WrittenContent,
}

impl Lab {
    /// The device after a sequential fill without times. Nothing is in flight or deferred.
    pub fn filled(profile: &Profile) -> Lab {
        let mut lab = Lab::empty(profile);
        lab.fill();
        lab
    }

    /// Writes the whole device sequentially, without times.
    pub fn fill(&mut self) {
        let capacity = self.capacity();
        let fill = (0..capacity.0.div_ceil(FILL.0)).map(|i| {
            let offset = FILL * i;
            (Operation::Write, offset, FILL.min(capacity - offset))
        });
        self.condition(&mut fill.into_iter());
    }

    /// The new, empty device.
    pub fn empty(profile: &Profile) -> Lab {
        let device = profile.device().expect("the profile was checked");
        let size = if device.geometry().data.is_used() { LARGEST } else { Bytes::ZERO };
        let buffer = Arena::buffers(1, size).pop().expect("one buffer");
        let mut lab = Lab { device, buffer, content: WrittenContent::Zeros };
        lab.write_content(WrittenContent::Random);
        lab
    }

    /// What is written from now on.
    pub fn write_content(&mut self, content: WrittenContent) {
        match content {
            WrittenContent::Random => Prng::new(Seed(1)).fill(&mut self.buffer),
            WrittenContent::Zeros => self.buffer.fill(0x00),
            WrittenContent::Ones => self.buffer.fill(0xFF),
        }
        self.content = content;
    }

    pub fn capacity(&self) -> Bytes {
        self.device.geometry().capacity
    }

    pub fn block(&self) -> Bytes {
        self.device.geometry().block
    }

    pub fn depth(&self) -> u32 {
        self.device.geometry().depth
    }

    pub fn now(&mut self) -> Nanos {
        self.device.now()
    }

    /// Lets the device rest.
    pub fn rest(&mut self, time: Nanos) {
        let until = self.device.now().saturating_add(time);
        assert!(self.device.wait(until).is_none(), "nothing is in flight");
    }

    /// Serves IOs without times.
    pub fn condition(&mut self, ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>) {
        self.device
            .conditioning()
            .expect("a device of flash has this")
            .condition(ios)
            .expect("the device serves what lies on it");
    }

    /// The response time of an IO.
    pub fn io(&mut self, operation: Operation, offset: Bytes, size: Bytes) -> Nanos {
        let buffer = std::mem::replace(&mut self.buffer, Buffer::empty());
        self.device.submit(Request { tag: 0, operation, offset, size, buffer });
        let done = self.device.wait(Nanos::MAX).expect("an IO is in flight");
        done.result.expect("the device serves what lies on it");
        self.buffer = done.buffer;
        done.completed.since(done.submitted)
    }

    /// The response times of `count` sequential IOs of a size, starting at `from`. They wrap around at the
    /// end of the device.
    pub fn sequential(&mut self, operation: Operation, from: Bytes, size: Bytes, count: u64) -> Vec<f64> {
        let slots = self.capacity().0 / size.0;
        let first = from.0 / size.0;
        (0..count).map(|i| self.io(operation, size * ((first + i) % slots), size).0 as f64).collect()
    }

    /// The response times of `count` IOs at random offsets in the first `span` bytes, shifted by `shift`.
    pub fn random(
        &mut self,
        operation: Operation,
        (span, shift, size): (Bytes, Bytes, Bytes),
        count: u64,
        random: &mut Prng,
    ) -> Vec<f64> {
        let slots = (span - shift).0 / size.0;
        (0..count).map(|_| self.io(operation, shift + size * random.below(slots), size).0 as f64).collect()
    }

    /// The mean time between completions of random reads of `size` at this queue depth, in nanoseconds. The
    /// first reads are spread evenly over the dies, and the last ones leave the queue empty: both are not
    /// counted.
    pub fn random_read_interval(
        &mut self,
        size: Bytes,
        in_flight: u64,
        count: u64,
        random: &mut Prng,
    ) -> f64 {
        let slots = self.capacity().0 / size.0;
        let mut submit = |device: &mut SimulatedDevice| {
            let (operation, offset) = (Operation::Read, size * random.below(slots));
            device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
        };
        (0..in_flight).for_each(|_| submit(&mut self.device));
        let mut complete = |count: u64| {
            for _ in 0..count {
                self.device.wait(Nanos::MAX).expect("reads are in flight");
                submit(&mut self.device);
            }
            self.device.now()
        };
        let begin = complete(16 * in_flight);
        let end = complete(count);
        while self.device.wait(Nanos::MAX).is_some() {}
        end.since(begin).0 as f64 / count as f64
    }

    /// Blocks that garbage collection erased.
    pub fn collected(&self) -> u64 {
        self.device.as_flash().map_or(0, |flash| flash.flash().counts().blocks_erased(Cause::Reclaim))
    }
}

/// The median; `None` if it lies between two groups of figures and represents neither.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let quantile = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
    (quantile(0.65) <= 1.2 * quantile(0.35)).then(|| quantile(0.5))
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
