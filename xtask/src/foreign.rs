//! Devices that share no code with the simulator: three small models, each from its paper. An estimator that
//! relies on habits of crate `sim` fails on them.
//!
//! # Model
//! A [`Model`] serves one IO after the other and returns when it is done. [`Foreign`] is the device around
//! it, with the same noise as the other devices: 5 % log-normal jitter, and 1 % outliers of ten times.

mod bast;
mod card;
mod superblocks;

use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Identity, Nanos, Prng, Seed};
use flashlab_device::{Completion, DataHandling, Device, Geometry, Operation, Request, VirtualQueue};

use crate::truth::Truth;

/// The smallest IO of all of them.
const BLOCK: Bytes = Bytes(512);

/// How a device works.
pub trait Model: Send {
    /// Its name among people.
    fn name(&self) -> &'static str;
    /// Its size.
    fn capacity(&self) -> Bytes;
    /// The most requests in flight.
    fn depth(&self) -> u32;
    /// Serves an IO that arrives at `now`; returns when it is done, in nanoseconds.
    fn serve(&mut self, operation: Operation, offset: u64, size: u64, now: u64) -> u64;
    /// Its truth, by the definitions of the parameters.
    fn truth(&self, parameter: Parameter) -> Truth;
}

/// The models alternate with the seed.
pub fn model(seed: u64) -> Box<dyn Model> {
    let random = &mut Prng::new(Seed(seed).derive("foreign", 0));
    match seed % 3 {
        0 => Box::new(superblocks::Superblocks::random(random)),
        1 => Box::new(bast::Bast::random(random)),
        _ => Box::new(card::Card::random(random)),
    }
}

/// A device around a model.
pub struct Foreign {
    model: Box<dyn Model>,
    queue: VirtualQueue,
    noise: Prng,
}

impl Foreign {
    /// The device with its noise.
    pub fn new(model: Box<dyn Model>, seed: u64) -> Foreign {
        let queue = VirtualQueue::new(model.depth());
        Foreign { model, queue, noise: Prng::new(Seed(seed).derive("noise", 0)) }
    }

    /// A response time with its noise.
    fn disturbed(&mut self, ns: f64) -> u64 {
        const SIGMA: f64 = 0.05;
        // The sum of twelve uniform variables is nearly normal.
        let normal = (0..12).map(|_| self.noise.unit()).sum::<f64>() - 6.0;
        let outlier = if self.noise.unit() < 0.01 { 10.0 } else { 1.0 };
        (ns * (SIGMA * normal).exp() * outlier) as u64
    }
}

impl Device for Foreign {
    fn geometry(&self) -> Geometry {
        let (capacity, depth) = (self.model.capacity(), self.model.depth());
        Geometry { capacity, block: BLOCK, depth, data: DataHandling::Ignored }
    }

    fn identity(&self) -> Identity {
        Identity { target: self.model.name().to_owned(), kind: "foreign".to_owned(), ..Identity::default() }
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, request: Request) {
        let Request { operation, offset, size, .. } = request;
        let now = self.queue.now();
        let checked = match operation {
            Operation::Flush => Ok(()),
            _ => self.geometry().check(offset, size),
        };
        let done = match (operation, checked) {
            (Operation::Read | Operation::Write, Ok(())) => {
                self.model.serve(operation, offset.0, size.0, now.0)
            }
            _ => now.0,
        };
        let response = self.disturbed((done - now.0) as f64);
        self.queue.push(request, now + Nanos(response), checked);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }
}

/// One of these.
pub fn of(random: &mut Prng, choices: &[u64]) -> u64 {
    choices[random.below(choices.len() as u64) as usize]
}

/// A random time between these numbers of microseconds, in nanoseconds.
pub fn micros(random: &mut Prng, least: f64, most: f64) -> u64 {
    ((least + (most - least) * random.unit()) * 1e3) as u64
}

/// Parameters that have the same truth on every device without buffers, segment groups and compression.
fn plain(parameter: Parameter) -> Truth {
    match parameter {
        Parameter::SegmentGroups => 1.into(),
        Parameter::SegmentGroupSpan => Truth::NotIdentifiable("going anywhere costs the same"),
        Parameter::ReadBufferSize
        | Parameter::ReadAheadSize
        | Parameter::WriteBufferSize
        | Parameter::SlcCacheSize => 0.into(),
        Parameter::WriteBufferFlush => Truth::NotIdentifiable("there is no write buffer"),
        Parameter::SlcCacheRefill => Truth::NotIdentifiable("there is no SLC cache"),
        Parameter::ZerosProgramShare | Parameter::OnesProgramShare => 1.0.into(),
        Parameter::LingeringTime => 0.into(),
        _ => Truth::unjudged("it would have to be measured"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_device::Buffer;

    #[test]
    fn every_model_serves_reads_and_writes_of_any_alignment_and_repeats_itself() {
        for seed in 0..9 {
            let run = || {
                let mut device = Foreign::new(model(seed), seed);
                let capacity = device.geometry().capacity.0;
                let mut random = Prng::new(Seed(seed));
                let mut times = Vec::new();
                for tag in 0..3000 {
                    let size = BLOCK * (1 + random.below(200));
                    let offset = BLOCK * random.below((capacity - size.0) / BLOCK.0);
                    let operation = if tag % 3 == 0 { Operation::Read } else { Operation::Write };
                    device.submit(Request { tag, operation, offset, size, buffer: Buffer::empty() });
                    let done = device.wait(Nanos::MAX).unwrap();
                    assert!(done.result.is_ok() && done.completed > done.submitted);
                    times.push(done.completed);
                }
                times
            };
            assert_eq!(run(), run(), "seed {seed}");
        }
    }
}
