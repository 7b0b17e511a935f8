//! A hard disk: a head that seeks, a platter that turns, read-ahead, and perhaps a write cache.

use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Prng};
use flashlab_device::Operation;

use crate::foreign::{Model, micros, of};
use crate::truth::Truth;

/// Times are nanoseconds.
pub struct HardDisk {
    capacity: u64,
    turn: u64,
    track: u64,
    command: u64,
    /// The shortest seek, and what one over the whole disk takes more.
    settle: u64,
    full_seek: u64,
    /// Bytes that are read ahead.
    read_ahead: u64,
    /// Bytes of writes that are answered before they are on the platter; 0 for none.
    write_cache: u64,
    /// What of the cache waits, by offset and size.
    waiting: Vec<(u64, u64)>,
    head: u64,
    /// The end of the last read, and how far the buffer was read ahead.
    read_until: [u64; 2],
    free_at: u64,
}

impl HardDisk {
    pub fn random(random: &mut Prng) -> HardDisk {
        let rpm = of(random, &[5400, 7200, 10_000, 15_000]);
        HardDisk {
            capacity: (256 << 20) + random.below(512) * (1 << 20),
            turn: 60_000_000_000 / rpm,
            track: of(random, &[256, 512, 1024]) << 10,
            command: micros(random, 50.0, 200.0),
            settle: micros(random, 500.0, 2000.0),
            full_seek: micros(random, 2000.0, 15_000.0),
            read_ahead: of(random, &[0, 256 << 10, 2 << 20]),
            write_cache: of(random, &[0, 0, 2 << 20, 8 << 20]),
            waiting: Vec::new(),
            head: 0,
            read_until: [0; 2],
            free_at: 0,
        }
    }

    /// The time of `size` bytes under the head.
    fn transfer(&self, size: u64) -> u64 {
        (u128::from(size) * u128::from(self.turn) / u128::from(self.track)) as u64
    }

    /// Moves the head to an offset and passes `size` bytes, from `begin` on; returns when it is done.
    fn pass(&mut self, offset: u64, size: u64, begin: u64) -> u64 {
        let distance = (offset / self.track).abs_diff(self.head / self.track);
        let share = (distance * self.track) as f64 / self.capacity as f64;
        let seek =
            if distance <= 1 { 0 } else { self.settle + (self.full_seek as f64 * share.sqrt()) as u64 };
        let arrived = begin + seek;
        let angle = self.transfer(offset % self.track);
        let wait = (angle + self.turn - arrived % self.turn) % self.turn;
        self.head = offset + size;
        arrived + wait + self.transfer(size)
    }

    /// Writes of the cache what is nearest to the head.
    fn write_one_back(&mut self, begin: u64) -> u64 {
        let head = self.head;
        let nearest = (0..self.waiting.len()).min_by_key(|&index| self.waiting[index].0.abs_diff(head));
        let Some(index) = nearest else { return begin };
        let (offset, size) = self.waiting.swap_remove(index);
        self.pass(offset, size, begin)
    }

    fn read(&mut self, offset: u64, size: u64, begin: u64) -> u64 {
        let [last, ahead] = self.read_until;
        let end = offset + size;
        if offset >= last.saturating_sub(self.read_ahead) && end <= ahead {
            self.read_until = [end, ahead.max(end + self.read_ahead).min(self.capacity)];
            // From the buffer, which the platter fills behind it.
            return begin + self.command + self.transfer(size);
        }
        self.read_until = [end, (end + self.read_ahead).min(self.capacity)];
        self.pass(offset, size, begin + self.command)
    }

    fn write(&mut self, offset: u64, size: u64, begin: u64) -> u64 {
        self.read_until = [0; 2];
        if self.write_cache == 0 {
            return self.pass(offset, size, begin + self.command);
        }
        match self.waiting.last_mut() {
            Some((first, length)) if *first + *length == offset => *length += size,
            _ => self.waiting.push((offset, size)),
        }
        let mut time = begin + self.command + size / 4;
        while self.waiting.iter().map(|(_, size)| size).sum::<u64>() > self.write_cache {
            time = self.write_one_back(time);
        }
        time
    }
}

impl Model for HardDisk {
    fn name(&self) -> &'static str {
        "hard disk"
    }

    fn capacity(&self) -> Bytes {
        Bytes(self.capacity)
    }

    fn depth(&self) -> u32 {
        1
    }

    fn serve(&mut self, operation: Operation, offset: u64, size: u64, now: u64) -> u64 {
        // The cache is written while nobody asks for anything.
        while self.free_at < now && !self.waiting.is_empty() {
            self.free_at = self.write_one_back(self.free_at);
        }
        let begin = self.free_at.max(now);
        self.free_at = match operation {
            Operation::Read => self.read(offset, size, begin),
            _ => self.write(offset, size, begin),
        };
        self.free_at
    }

    fn truth(&self, parameter: Parameter) -> Truth {
        super::truth(parameter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_base::Seed;

    #[test]
    fn random_reads_take_half_a_revolution_and_sequential_ones_none() {
        let mut disk = HardDisk {
            settle: 0,
            full_seek: 0,
            read_ahead: 2 << 20,
            ..HardDisk::random(&mut Prng::new(Seed(3)))
        };
        let mut random = Prng::new(Seed(4));
        let mut mean = |offset: &mut dyn FnMut(u64) -> u64| {
            let mut now = disk.free_at;
            let begin = now;
            for index in 0..2000 {
                now = disk.serve(Operation::Read, offset(index), 4096, now);
            }
            (now - begin) / 2000 - disk.command
        };
        let sequential = mean(&mut |index| index * 4096);
        let scattered = mean(&mut |_| random.below(50_000) * 4096);
        let turn = disk.turn;
        assert!(sequential < turn / 20, "{sequential}");
        assert!((turn * 9 / 20..turn * 12 / 20).contains(&scattered), "{scattered} of {turn}");
    }
}
