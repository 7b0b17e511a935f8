//! Noise that the estimators do not assume, in virtual time.
//!
//! # Model
//! A device in front of another one delays its completions: each response time is multiplied by a factor of at least 1.
//! Medians hardly move, so that the truth of the device without noise remains the truth.
//!
//! - **Heavy tails**: the part beyond 1 has a Pareto distribution with index 1.2, so that its variance is infinite.
//! - **Drift**: a triangle wave of 0 to 8 % over 20 seconds, as with the temperature of a controller.
//! - **Bimodal wake-ups**: three in ten IOs take 12 % longer, as behind a link that sleeps.
//! - **Correlated bursts**: one IO in 200 begins a burst of about 25 IOs that take twice the time, as with work of the host.
//! - **Quantised clock**: completions are stamped at whole 4 us.
//!
//! # Invariants
//! - The clock is the inner device's, and never decreases.
//! - No completion is earlier than the inner device's.

use std::collections::BTreeMap;
use std::str::FromStr;

use flashlab_base::{Nanos, Prng, Seed};
use flashlab_device::{Completion, Conditioning, Device, Parallel, VirtualTime};

/// A kind of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseKind {
    /// That of the device's profile: 5 % log-normal jitter, and 1 % outliers of ten times.
    Usual,
    /// Pareto delays.
    HeavyTails,
    /// A slow triangle wave.
    Drift,
    /// Two levels.
    WakeUps,
    /// Runs of slow IOs.
    Bursts,
    /// A coarse clock.
    QuantisedClock,
}

impl NoiseKind {
    /// All of them.
    pub const ALL: [NoiseKind; 6] = [
        NoiseKind::Usual,
        NoiseKind::HeavyTails,
        NoiseKind::Drift,
        NoiseKind::WakeUps,
        NoiseKind::Bursts,
        NoiseKind::QuantisedClock,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            NoiseKind::Usual => "usual",
            NoiseKind::HeavyTails => "heavy-tails",
            NoiseKind::Drift => "drift",
            NoiseKind::WakeUps => "wake-ups",
            NoiseKind::Bursts => "bursts",
            NoiseKind::QuantisedClock => "quantised-clock",
        }
    }
}

impl FromStr for NoiseKind {
    type Err = String;
    fn from_str(text: &str) -> Result<NoiseKind, String> {
        let found = NoiseKind::ALL.into_iter().find(|kind| kind.name() == text);
        let names = NoiseKind::ALL.map(NoiseKind::name).join(", ");
        found.ok_or_else(|| format!("{text} is no kind of noise: write one of {names}"))
    }
}

/// A device whose completions are delayed.
pub struct Noisy<D> {
    device: D,
    kind: NoiseKind,
    random: Prng,
    /// How many IOs of a burst are left.
    burst: u64,
    /// Completions that are due later, by time and by order.
    due: BTreeMap<(Nanos, u64), Completion>,
    order: u64,
}

impl<D: Device> Noisy<D> {
    /// The device with this noise.
    pub fn new(device: D, kind: NoiseKind, seed: u64) -> Noisy<D> {
        let random = Prng::new(Seed(seed).derive("noise-kind", kind as u64));
        Noisy { device, kind, random, burst: 0, due: BTreeMap::new(), order: 0 }
    }

    /// When a completion is due.
    fn due_at(&mut self, completion: &Completion) -> Nanos {
        const QUANTUM: u64 = 4_000;
        const CYCLE: f64 = 20e9;
        let response = completion.completed.since(completion.submitted).0 as f64;
        let factor = match self.kind {
            NoiseKind::Usual => 1.0,
            NoiseKind::HeavyTails => 1.0 + 0.02 * ((1.0 - self.random.unit()).powf(-1.0 / 1.2) - 1.0),
            NoiseKind::Drift => {
                let phase = (completion.completed.0 as f64 / CYCLE).fract();
                1.0 + 0.16 * phase.min(1.0 - phase)
            }
            NoiseKind::WakeUps if self.random.unit() < 0.3 => 1.12,
            NoiseKind::WakeUps => 1.0,
            NoiseKind::Bursts => {
                if self.burst == 0 && self.random.unit() < 1.0 / 200.0 {
                    self.burst = 1 + self.random.below(50);
                }
                let is_slow = self.burst > 0;
                self.burst = self.burst.saturating_sub(1);
                if is_slow { 2.0 } else { 1.0 }
            }
            NoiseKind::QuantisedClock => {
                return Nanos(completion.completed.0.div_ceil(QUANTUM) * QUANTUM);
            }
        };
        Nanos(completion.completed.0 + ((factor - 1.0) * response) as u64)
    }

    /// The completion that is due first, if that is by `until`.
    fn take_due(&mut self, until: Nanos) -> Option<Completion> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= until)?;
        Some(entry.remove())
    }
}

impl<D: Device> flashlab_device::Wrapper for Noisy<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.device
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.device
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            let target = self.due.first_key_value().map_or(until, |(key, _)| key.0.min(until));
            match self.device.wait(target) {
                Some(completion) => {
                    let due = self.due_at(&completion).max(completion.completed);
                    self.order += 1;
                    self.due.insert((due, self.order), Completion { completed: due, ..completion });
                }
                None => return self.take_due(target),
            }
        }
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        // It would bypass the delays.
        None
    }

    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        self.device.conditioning()
    }

    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        // Lanes would bypass the delays.
        None
    }
}

/// The kind of a device of a calibration, by its index: half of them have the usual noise.
pub fn kind_of(index: u64) -> NoiseKind {
    // The family alternates with the index modulo five.
    let turn = (index / 5) % 10;
    if turn < 5 { NoiseKind::Usual } else { NoiseKind::ALL[turn as usize - 4] }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Bytes, Operation};
    use flashlab_device::{Arena, MemoryDevice, Request};

    use super::*;

    fn responses(kind: NoiseKind, seed: u64) -> Vec<u64> {
        let mut device = Noisy::new(MemoryDevice::new(Bytes::kib(64), Nanos(100_300)), kind, seed);
        let mut responses = Vec::new();
        let mut now = Nanos::ZERO;
        for tag in 0..4000 {
            let (operation, offset, size) = (Operation::Read, Bytes::ZERO, Bytes(512));
            let buffer = Arena::buffers(1, size).remove(0);
            device.submit(Request { tag, operation, offset, size, buffer });
            let done = device.wait(Nanos::MAX).expect("it is in flight");
            assert!(done.completed >= now && device.now() >= done.completed, "{kind:?}");
            now = device.now();
            responses.push(done.completed.since(done.submitted).0);
        }
        responses
    }

    #[test]
    fn each_kind_repeats_itself_delays_and_keeps_the_median() {
        for kind in NoiseKind::ALL {
            let mut times = responses(kind, 7);
            assert_eq!(times, responses(kind, 7), "{kind:?}");
            times.sort_unstable();
            let (least, median, most) = (times[0], times[2000], times[3999]);
            assert!(least >= 100_300, "{kind:?}: {least}");
            assert!(median < 108_000, "{kind:?}: {median}");
            assert_eq!(most > 100_300, kind != NoiseKind::Usual, "{kind:?}: {most}");
        }
        let tail = responses(NoiseKind::HeavyTails, 1).into_iter().max().unwrap();
        assert!(tail > 200_000, "{tail}");
    }
}
