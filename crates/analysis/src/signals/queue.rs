//! A write buffer as a queue in front of dies, and which one fits a burst of writes.
//!
//! # Model
//! Pages come in one after the other as fast as the link brings them, each when there is room. A row of pages goes to the
//! next die when it is whole, and takes room until it is programmed. The dies together program at the sustained rate; how many they are,
//! what a row holds, and how large the buffer is are tried out.
//!
//! # Invariants
//! - buffers are tried out between the lead and what passes before the first wait, between which the true one lies: the
//!   lead counts what is in the dies as gone, and before the first wait some may be gone.

use super::bursts::{Bursts, SMALL};

/// Units of [`SMALL`] of a row.
const ROWS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const DIES: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// The shortest and the longest time that programming a row takes, in nanoseconds: SLC cells, and slow pages of dense
/// ones.
const PROGRAM: (f64, f64) = (100e3, 5e6);
/// Queues whose times are off by no more than this beside the best are as good.
const ALIKE: f64 = 0.02;
/// Buffers that are tried out, at the most.
const STEPS: usize = 64;
/// So many times what passes before the first wait is compared.
const COMPARED: usize = 3;

/// A queue that may be the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// How much it holds, in writes.
    pub buffer: f64,
    /// The dies behind it.
    pub dies: usize,
    /// By how much of a sustained write the times are off, on average.
    pub off: f64,
}

/// The queue that fits best.
pub fn queue(bursts: &Bursts, lead: f64, before_waiting: usize) -> Option<Queue> {
    let units = (bursts.size.0 / SMALL.0).max(1) as usize;
    let least = ((lead - 1.0).max(0.0) * units as f64) as usize;
    let most = (before_waiting + 1) * units;
    let step = (most.saturating_sub(least) / STEPS).max(1);
    let compared = (COMPARED * before_waiting + 16).min(bursts.done.len());
    let burst = Burst { units, come_in: bursts.come_in, writes: compared };
    // The rate of the writes that are compared, and that of the end: dies may be as fast as either.
    let waiting = before_waiting.min(compared.saturating_sub(2));
    let last = compared - 1;
    let of_compared = (bursts.done[last] - bursts.done[waiting]) / (last - waiting) as f64;
    let mut tried: Vec<Queue> = Vec::new();
    for sustained in [of_compared, bursts.sustained] {
        for (dies, row) in DIES.into_iter().flat_map(|dies| ROWS.map(|row| (dies, row))) {
            let program = (dies * row) as f64 * sustained / units as f64;
            if !(PROGRAM.0..=PROGRAM.1).contains(&program) {
                continue;
            }
            for buffer in (least.max(row)..=most).step_by(step) {
                let times = burst.served(buffer, (dies, row, program));
                let off = times.iter().zip(&bursts.done).map(|(time, done)| (time - done).abs()).sum::<f64>();
                let off = off / compared as f64 / sustained;
                tried.push(Queue { buffer: buffer as f64 / units as f64, dies, off });
            }
        }
    }
    // Of those that fit as well, the one in the middle.
    let best = tried.iter().map(|queue| queue.off).fold(f64::INFINITY, f64::min);
    tried.retain(|queue| queue.off <= best + ALIKE);
    tried.sort_by(|a, b| a.buffer.total_cmp(&b.buffer));
    tried.get(tried.len() / 2).copied()
}

/// Writes one after the other.
struct Burst {
    /// Units of a write.
    units: usize,
    /// What a write takes to come in.
    come_in: f64,
    /// How many.
    writes: usize,
}

impl Burst {
    /// When each is done, with a buffer of so many units, which holds at least a row, in front of dies that program a row
    /// of so many units in this time.
    fn served(&self, buffer: usize, (dies, row, program): (usize, usize, f64)) -> Vec<f64> {
        let mut free_at: Vec<f64> = Vec::with_capacity(self.writes * self.units);
        let mut idle_at = vec![0.0; dies];
        let (mut now, mut unit) = (0.0, 0);
        let mut times = Vec::with_capacity(self.writes);
        for _ in 0..self.writes {
            for _ in 0..self.units {
                now += self.come_in / self.units as f64;
                if unit >= buffer {
                    now = f64::max(now, free_at[unit - buffer]);
                }
                unit += 1;
                if unit % row == 0 {
                    let die: &mut f64 = &mut idle_at[(unit / row - 1) % dies];
                    *die = f64::max(*die, now) + program;
                    free_at.resize(unit, *die);
                }
            }
            times.push(now);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::Bytes;

    use super::*;

    #[test]
    fn the_queue_that_made_the_times_is_found() {
        for (buffer, dies, row) in [(40, 4, 1), (90, 2, 4), (200, 8, 2)] {
            let burst = Burst { units: 4, come_in: 50e3, writes: 512 };
            let done = burst.served(buffer, (dies, row, (dies * row) as f64 * 100e3));
            let costs: Vec<f64> =
                (0..512).map(|i| done[i] - if i == 0 { 0.0 } else { done[i - 1] }).collect();
            let bursts = Bursts::of(Bytes::kib(16), &[costs]);
            let found = queue(&bursts, buffer as f64 / 8.0, buffer / 2).unwrap();
            let truth = buffer as f64 / 4.0;
            assert!((found.buffer - truth).abs() <= 0.5, "{found:?}, not {truth}");
        }
    }
}
