//! The CPU time of a bench's thread: others may use the CPU.

use std::time::{Duration, Instant};

/// CPU time of this thread; wall time where the kernel does not tell.
pub fn cpu_time(begin: Instant) -> Duration {
    // The kernel brings the count up to date at its ticks, which are milliseconds apart, and when a thread yields.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_cpu = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    on_cpu.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}
