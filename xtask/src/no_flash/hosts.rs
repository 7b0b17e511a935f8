//! Disks that a host makes up: memory, a thin volume, and a disk behind a network.

use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Prng};
use flashlab_device::Operation;

use crate::foreign::{Model, micros, of};
use crate::truth::Truth;

/// What all of them have: a time for each request and for each byte, and requests that are served at the same time.
struct Host {
    capacity: u64,
    request: u64,
    /// The time of a byte, in picoseconds.
    byte: u64,
    /// When each of its threads is free.
    threads: Vec<u64>,
}

impl Host {
    fn random(random: &mut Prng, request: [f64; 2], bytes_per_us: [u64; 2], threads: &[u64]) -> Host {
        let [slow, fast] = bytes_per_us;
        Host {
            capacity: (256 << 20) + random.below(512) * (1 << 20),
            request: micros(random, request[0], request[1]),
            byte: 1_000_000 / (slow + random.below(fast - slow)),
            threads: vec![0; of(random, threads) as usize],
        }
    }

    /// When a request that takes `more` beside its own time is done.
    fn serve(&mut self, size: u64, more: u64, now: u64) -> u64 {
        let time = self.request + size * self.byte / 1000 + more;
        let free = self.threads.iter_mut().min().expect("there is a thread");
        *free = (*free).max(now) + time;
        *free
    }
}

/// A disk in memory.
pub struct Memory(Host);

impl Memory {
    pub fn random(random: &mut Prng) -> Memory {
        Memory(Host::random(random, [3.0, 30.0], [2000, 12_000], &[1, 2, 4]))
    }
}

impl Model for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capacity(&self) -> Bytes {
        Bytes(self.0.capacity)
    }

    fn depth(&self) -> u32 {
        64
    }

    fn serve(&mut self, _: Operation, _: u64, size: u64, now: u64) -> u64 {
        self.0.serve(size, 0, now)
    }

    fn truth(&self, parameter: Parameter) -> Truth {
        super::truth(parameter)
    }
}

/// A thin volume.
pub struct Thin {
    host: Host,
    extent: u64,
    /// What the first write to an extent takes: it is found, noted in the pool's map, and zeroed.
    allocation: u64,
    is_allocated: Vec<bool>,
}

impl Thin {
    pub fn random(random: &mut Prng) -> Thin {
        let host = Host::random(random, [60.0, 400.0], [200, 2000], &[1, 4, 8]);
        let extent = of(random, &[64, 256, 1024, 4096]) << 10;
        let is_allocated = vec![false; host.capacity.div_ceil(extent) as usize];
        Thin { host, extent, allocation: micros(random, 200.0, 5000.0), is_allocated }
    }
}

impl Model for Thin {
    fn name(&self) -> &'static str {
        "thin volume"
    }

    fn capacity(&self) -> Bytes {
        Bytes(self.host.capacity)
    }

    fn depth(&self) -> u32 {
        64
    }

    fn serve(&mut self, operation: Operation, offset: u64, size: u64, now: u64) -> u64 {
        let extents = (offset / self.extent) as usize..=((offset + size - 1) / self.extent) as usize;
        let extents = &mut self.is_allocated[extents];
        let fresh = extents.iter().filter(|is_allocated| !**is_allocated).count() as u64;
        if operation == Operation::Write {
            extents.fill(true);
            return self.host.serve(size, fresh * self.allocation, now);
        }
        // What was never written is not read.
        let size = if fresh > 0 { 0 } else { size };
        self.host.serve(size, 0, now)
    }

    fn truth(&self, parameter: Parameter) -> Truth {
        super::truth(parameter)
    }
}

/// A bucket of tokens that fills with time.
struct Bucket {
    /// Tokens a second, and the most.
    rate: f64,
    most: f64,
    tokens: f64,
    filled_at: u64,
}

impl Bucket {
    fn new(rate: f64, most: f64) -> Bucket {
        Bucket { rate, most, tokens: most, filled_at: 0 }
    }

    /// When this number of tokens is there that is asked for at `now`.
    fn take(&mut self, tokens: f64, now: u64) -> u64 {
        let now = now.max(self.filled_at);
        self.tokens = (self.tokens + self.rate * (now - self.filled_at) as f64 / 1e9).min(self.most);
        self.filled_at = now;
        self.tokens -= tokens;
        now + (-self.tokens / self.rate * 1e9).max(0.0) as u64
    }
}

/// A disk behind a network.
pub struct Network {
    host: Host,
    requests: Bucket,
    bytes: Bucket,
    /// A request that the network or the server holds up: one in so many, for at most this long.
    late_one_in: u64,
    late: u64,
    random: Prng,
}

impl Network {
    pub fn random(random: &mut Prng) -> Network {
        let host = Host::random(random, [200.0, 1500.0], [200, 1200], &[16, 64]);
        let requests = of(random, &[500, 3000, 16_000]) as f64;
        let bytes = of(random, &[60, 125, 500]) as f64 * 1e6;
        // Some sell bursts of seconds to minutes, others none.
        let seconds = of(random, &[0, 1, 30]) as f64;
        Network {
            host,
            requests: Bucket::new(requests, (requests * seconds).max(16.0)),
            bytes: Bucket::new(bytes, (bytes * seconds).max(2e6)),
            late_one_in: of(random, &[50, 500]),
            late: micros(random, 2000.0, 50_000.0),
            random: random.clone(),
        }
    }
}

impl Model for Network {
    fn name(&self) -> &'static str {
        "network disk"
    }

    fn capacity(&self) -> Bytes {
        Bytes(self.host.capacity)
    }

    fn depth(&self) -> u32 {
        64
    }

    fn serve(&mut self, _: Operation, _: u64, size: u64, now: u64) -> u64 {
        let allowed = self.requests.take(1.0, now).max(self.bytes.take(size as f64, now));
        let is_late = self.random.below(self.late_one_in) == 0;
        let late = if is_late { (self.late as f64 * self.random.unit()) as u64 } else { 0 };
        self.host.serve(size, late, now).max(allowed)
    }

    fn truth(&self, parameter: Parameter) -> Truth {
        super::truth(parameter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_its_rate() {
        let mut bucket = Bucket::new(1000.0, 100.0);
        let times: Vec<u64> = (0..300).map(|_| bucket.take(1.0, 0)).collect();
        assert_eq!(times[99], 0);
        assert_eq!(times[299], 200_000_000);
        assert_eq!(bucket.take(1.0, 1_000_000_000), 1_000_000_000, "it has filled again");
    }
}
