//! The throughput model as a device in virtual time (El Maghraoui et al., section 4).
//!
//! # Model
//! One server takes the IOs in the order of their submission. An IO of n bytes in class c keeps the server
//! busy for T_c(n) = A_c + n B_c. An IO is sequential if it starts where the last IO of its mode ended.
//!
//! A profile can add four mechanisms to the model: a start-up phase, an oscillation, a lingering effect, and noise (see
//! [`crate::profile`]). Their parameters are known, so the methodology can be tested against them. The model keeps no
//! data: reads leave their buffers as they are.
//!
//! # Invariants
//! - IOs complete in the order of submission, and no IO completes before its submission;
//! - over whole periods, an oscillation does not change the mean.

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{Completion, Device, Geometry, IoError, Operation, Request, VirtualQueue, VirtualTime};

use crate::noise::NoiseSource;
use crate::profile::{Profile, Throughput, ThroughputClass};

/// The most IOs in flight. The model itself has no limit.
const DEPTH: u32 = 1024;

/// A device that follows the throughput model.
#[derive(Debug)]
pub struct ThroughputDevice {
    profile: Profile,
    model: Throughput,
    busy_until: Nanos,
    /// Where the last read and the last write ended.
    ends: [Bytes; 2],
    /// The number of IOs of the oscillating class that were served.
    oscillated: u64,
    /// The number of random writes left in the start-up phase. Not an integer, because idle time restores it gradually.
    startup_left: f64,
    last_random_write: Nanos,
    /// The end of the lingering effect: reads that start before it are slow.
    slow_until: Nanos,
    noise: NoiseSource,
    queue: VirtualQueue,
}

impl ThroughputDevice {
    /// The device that `profile` describes, after a long idle time.
    pub(crate) fn new(profile: &Profile, model: Throughput) -> ThroughputDevice {
        ThroughputDevice {
            model,
            busy_until: Nanos::ZERO,
            ends: [Bytes(u64::MAX); 2],
            oscillated: 0,
            startup_left: profile.startup.map_or(0.0, |startup| startup.ios as f64),
            last_random_write: Nanos::ZERO,
            slow_until: Nanos::ZERO,
            noise: NoiseSource::new(profile.noise.unwrap_or_default()),
            queue: VirtualQueue::new(DEPTH),
            profile: profile.clone(),
        }
    }

    /// The class of the next IO; remembers where it ends.
    fn classify(&mut self, operation: Operation, offset: Bytes, size: Bytes) -> ThroughputClass {
        let is_write = operation == Operation::Write;
        let end = &mut self.ends[usize::from(is_write)];
        let is_sequential = *end == offset;
        *end = offset + size;
        ThroughputClass::of(is_write, is_sequential)
    }

    /// How long an IO that starts at `start` keeps the server busy.
    fn service(&mut self, class: ThroughputClass, size: Bytes, start: Nanos) -> Nanos {
        let factor = self.startup_factor(class, start)
            * self.oscillation_factor(class)
            * self.lingering_factor(class, start);
        self.noise.disturbed(self.model.line(class).time_ns(size) * factor)
    }

    fn startup_factor(&mut self, class: ThroughputClass, start: Nanos) -> f64 {
        let Some(startup) = self.profile.startup else { return 1.0 };
        if class != ThroughputClass::RandomWrite {
            return 1.0;
        }
        let idle = start.since(self.last_random_write).0 as f64 / startup.idle.0.max(1) as f64;
        // The short idle times between two writes of a busy device do not restore its start-up phase.
        if idle >= 0.5 {
            self.startup_left = (self.startup_left + idle * startup.ios as f64).min(startup.ios as f64);
        }
        if self.startup_left < 1.0 {
            return 1.0;
        }
        self.startup_left -= 1.0;
        startup.factor
    }

    fn oscillation_factor(&mut self, class: ThroughputClass) -> f64 {
        let Some(oscillation) = self.profile.oscillation else { return 1.0 };
        if class != oscillation.class {
            return 1.0;
        }
        self.oscillated += 1;
        let period = oscillation.period as f64;
        if self.oscillated.is_multiple_of(oscillation.period) {
            period * oscillation.peak_share
        } else {
            period * (1.0 - oscillation.peak_share) / (period - 1.0)
        }
    }

    fn lingering_factor(&self, class: ThroughputClass, start: Nanos) -> f64 {
        match (self.profile.lingering, class) {
            (Some(lingering), ThroughputClass::SequentialRead | ThroughputClass::RandomRead)
                if start < self.slow_until =>
            {
                lingering.read_factor
            }
            _ => 1.0,
        }
    }

    /// Serves one IO and returns when it is done.
    fn serve(&mut self, request: &Request) -> Result<Nanos, IoError> {
        let start = self.queue.now().max(self.busy_until);
        match request.operation {
            Operation::Flush => return Ok(start),
            Operation::Discard => {
                return self.geometry().check(request.offset, request.size).map(|()| start);
            }
            Operation::Read | Operation::Write => {}
        }
        self.geometry().check(request.offset, request.size)?;
        let class = self.classify(request.operation, request.offset, request.size);
        let end = start.saturating_add(self.service(class, request.size, start));
        if class == ThroughputClass::RandomWrite {
            self.last_random_write = end;
            if let Some(lingering) = self.profile.lingering {
                let latest = end.saturating_add(lingering.longest);
                self.slow_until = self.slow_until.max(end).saturating_add(lingering.per_write).min(latest);
            }
        }
        Ok(end)
    }
}

impl Device for ThroughputDevice {
    fn geometry(&self) -> Geometry {
        self.profile.geometry(DEPTH)
    }

    fn identity(&self) -> Identity {
        self.profile.identity()
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, request: Request) {
        let served = self.serve(&request);
        self.busy_until = served.unwrap_or_else(|_| self.queue.now().max(self.busy_until));
        self.queue.push(request, self.busy_until, served.map(drop));
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        Some(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_device::Buffer;

    use super::*;

    fn zeus(more: &str) -> ThroughputDevice {
        let text = format!("{}\n{more}", include_str!("../profiles/zeus.toml"));
        let profile = Profile::parse(&text, "test").unwrap();
        ThroughputDevice::new(&profile, profile.throughput.unwrap())
    }

    /// One IO's response time in microseconds.
    fn timed(device: &mut ThroughputDevice, operation: Operation, offset: u64, size: Bytes) -> f64 {
        let request = Request { tag: 0, operation, offset: Bytes(offset), size, buffer: Buffer::empty() };
        device.submit(request);
        let done = device.wait(Nanos::MAX).expect("one IO is in flight");
        done.result.unwrap();
        done.completed.since(done.submitted).0 as f64 / 1e3
    }

    fn random_writes(device: &mut ThroughputDevice, count: u64) -> Vec<f64> {
        (0..count).map(|i| timed(device, Operation::Write, (i * 7 % 9973 + 1) << 20, Bytes::kib(4))).collect()
    }

    #[test]
    fn the_four_classes_take_the_times_of_the_papers_table_1() {
        // T(32 KiB) = A + 32 B, computed by hand from the table.
        let mut device = zeus("");
        let size = Bytes::kib(32);
        let mut expect = |operation, offset, us: f64| {
            let got = timed(&mut device, operation, offset, size);
            assert!((got - us).abs() < 0.001, "{operation:?} at {offset}: {got} and not {us}");
        };
        expect(Operation::Read, 1 << 20, 357.584);
        expect(Operation::Read, (1 << 20) + 32_768, 255.66);
        expect(Operation::Write, 1 << 20, 942.224);
        expect(Operation::Write, (1 << 20) + 32_768, 2325.72);
    }

    #[test]
    fn requests_that_are_in_flight_together_wait_for_each_other() {
        let mut device = zeus("");
        for tag in 0..3 {
            let buffer = Buffer::empty();
            let (offset, size) = (Bytes::mib(tag * 9), Bytes::kib(4));
            device.submit(Request { tag, operation: Operation::Read, offset, size, buffer });
        }
        let done: Vec<u64> = std::iter::from_fn(|| device.wait(Nanos::MAX)).map(|c| c.completed.0).collect();
        assert_eq!(done, [245_948, 491_896, 737_844]);
    }

    #[test]
    fn the_start_up_phase_has_the_length_of_the_profile_and_is_restored_by_idle_time() {
        let mut device = zeus("[startup]\nios = 125\nfactor = 0.1\nidle = \"2s\"\n");
        let count_fast = |times: &[f64]| times.iter().filter(|&&us| us < 400.0).count();
        assert_eq!(count_fast(&random_writes(&mut device, 500)), 125);
        assert_eq!(count_fast(&random_writes(&mut device, 500)), 0);
        let later = device.now() + Nanos::from_secs(2);
        assert!(device.wait(later).is_none());
        assert_eq!(count_fast(&random_writes(&mut device, 500)), 125);
    }

    #[test]
    fn an_oscillation_keeps_the_mean() {
        let plain = random_writes(&mut zeus(""), 256);
        let wave = "[oscillation]\nclass = \"random_write\"\nperiod = 128\npeak_share = 0.5\n";
        let oscillating = random_writes(&mut zeus(wave), 256);
        let peaks: Vec<usize> = (0..256).filter(|&i| oscillating[i] > plain[i]).collect();
        assert_eq!(peaks, [127, 255]);
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean(&oscillating) / mean(&plain) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn reads_are_slow_for_as_long_as_random_writes_linger() {
        let mut device = zeus("[lingering]\nper_write = \"50ms\"\nlongest = \"2.5s\"\nread_factor = 3.0\n");
        random_writes(&mut device, 100);
        let end = device.now();
        let mut slow = 0;
        for i in 0.. {
            if timed(&mut device, Operation::Read, (1 << 30) + i * 4096, Bytes::kib(4)) < 200.0 {
                break;
            }
            slow += 1;
        }
        let lasted = device.now().since(end).as_secs_f64();
        assert!((lasted - 2.5).abs() < 0.001, "{lasted} s");
        // One random read of 245.948 us, then sequential ones of 143.52 us, each three times that.
        assert_eq!(slow, 1 + ((2.5e6_f64 - 3.0 * 245.948) / (3.0 * 143.52)).ceil() as u32);
    }

    #[test]
    fn noise_has_mean_one_and_repeats_with_its_seed() {
        let noise = "[noise]\nsigma = 0.3\nseed = 5\n";
        let first = random_writes(&mut zeus(noise), 20_000);
        assert_eq!(first, random_writes(&mut zeus(noise), 20_000));
        let mean = first.iter().sum::<f64>() / first.len() as f64;
        assert!((mean / random_writes(&mut zeus(""), 1)[0] - 1.0).abs() < 0.01, "{mean}");
    }
}
