//! An SD card as flashbench's documentation describes it (Bergmann, "Optimizing Linux with cheap flash
//! drives", LWN 2011). It has allocation units of some MiB. A few of them are open, and can be written only
//! in ascending order. To open one more, or to go back in an open one, the card copies the remaining part of
//! the unit to a new one. A read senses a multi-plane page of two planes. A read of another allocation unit
//! looks it up in the map.

use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Prng};
use flashlab_device::Operation;

use super::{Model, micros, of, plain};
use crate::truth::Truth;

/// An open allocation unit, and how far it was written.
struct Open {
    unit: u64,
    written: u64,
}

pub struct Card {
    page: u64,
    planes: u64,
    unit: u64,
    units: u64,
    most_open: usize,
    command: u64,
    sense: u64,
    program: u64,
    erase: u64,
    /// The time of a byte on the bus, in picoseconds.
    bus: u64,
    /// In the order of their opening, the oldest first.
    open: Vec<Open>,
    written: Vec<bool>,
    free_at: u64,
}

impl Card {
    pub fn random(random: &mut Prng) -> Card {
        let unit = of(random, &[2, 3, 4, 6, 8]) << 20;
        let units = (250_000_000 + random.below(500_000_000)) / unit;
        Card {
            page: 8192,
            planes: of(random, &[1, 2]),
            unit,
            units,
            most_open: (1 + random.below(8)) as usize,
            command: micros(random, 200.0, 600.0),
            sense: micros(random, 80.0, 200.0),
            program: micros(random, 800.0, 1600.0),
            erase: micros(random, 2000.0, 4000.0),
            bus: 1_000_000 / (18 + random.below(6)),
            open: Vec::new(),
            written: vec![false; units as usize],
            free_at: 0,
        }
    }

    fn row(&self) -> u64 {
        self.page * self.planes
    }

    /// Rows between two addresses.
    fn rows(&self, from: u64, to: u64) -> u64 {
        to.div_ceil(self.row()) - from / self.row()
    }

    /// Closes an open unit: copies its remaining part from the old unit, if there is one.
    fn close(&mut self, index: usize) -> u64 {
        let open = self.open.remove(index);
        let old = std::mem::replace(&mut self.written[open.unit as usize], true);
        if !old {
            return 0;
        }
        let rest = if open.written < self.unit { self.rows(open.written, self.unit) } else { 0 };
        rest * (self.sense + self.program) + self.erase
    }

    /// Writes within one unit.
    fn write(&mut self, unit: u64, from: u64, to: u64) -> u64 {
        let mut time = 0;
        if let Some(index) = self.open.iter().position(|open| open.unit == unit)
            && self.open[index].written > from
        {
            time += self.close(index);
        }
        if !self.open.iter().any(|open| open.unit == unit) {
            if self.open.len() == self.most_open {
                time += self.close(0);
            }
            self.open.push(Open { unit, written: 0 });
        }
        let row = self.row();
        let (old, sense, program) = (self.written[unit as usize], self.sense, self.program);
        let open = self.open.iter_mut().find(|open| open.unit == unit).expect("it was opened");
        // The gap is copied, and the unwritten part of a multi-plane page is read.
        if old && open.written < from {
            time += (from.div_ceil(row) - open.written / row) * (sense + program);
        } else if !from.is_multiple_of(row) {
            time += sense;
        }
        open.written = to;
        time += (to.div_ceil(row) - from / row) * program;
        if to == self.unit {
            let index = self.open.iter().position(|open| open.unit == unit).expect("it is open");
            time += self.close(index);
        }
        time
    }
}

impl Model for Card {
    fn name(&self) -> &'static str {
        "card"
    }

    fn capacity(&self) -> Bytes {
        Bytes(self.units * self.unit)
    }

    fn depth(&self) -> u32 {
        1
    }

    fn serve(&mut self, operation: Operation, offset: u64, size: u64, now: u64) -> u64 {
        let begin = self.free_at.max(now);
        let (mut at, end) = (offset, offset + size);
        let mut time = self.command + size * self.bus / 1000;
        while at < end {
            let (unit, from) = (at / self.unit, at % self.unit);
            let to = (from + end - at).min(self.unit);
            time += match operation {
                // Another unit is looked up in the map.
                Operation::Read if at > offset => self.sense * (1 + self.rows(from, to)),
                Operation::Read => self.sense * self.rows(from, to),
                _ => self.write(unit, from, to),
            };
            at += to - from;
        }
        self.free_at = begin + time;
        self.free_at
    }

    fn truth(&self, parameter: Parameter) -> Truth {
        match parameter {
            // A multi-plane page is read and written as a whole, so its planes cannot be distinguished.
            Parameter::ReadPageSize | Parameter::WritePageSize | Parameter::PlanesReadAtOnce
                if self.planes > 1 =>
            {
                Truth::unjudged("pages of a row cost nothing of their own here")
            }
            Parameter::ReadPageSize => self.page.into(),
            Parameter::PlanesReadAtOnce => 1.into(),
            Parameter::ParallelUnits | Parameter::Channels | Parameter::UsefulQueueDepth => 1.into(),
            Parameter::ChunkSize | Parameter::StripeSize => {
                Truth::NotIdentifiable("with one die there is no other to tell it from")
            }
            Parameter::EraseBlockSize | Parameter::MappingGranularity => self.unit.into(),
            Parameter::OpenBlocks => (self.most_open as u64).into(),
            Parameter::TranslationFamily => "block".into(),
            Parameter::PhysicalCapacity | Parameter::OverProvisioning => {
                Truth::NotIdentifiable("spare units do not show")
            }
            other => plain(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_base::Seed;

    #[test]
    fn one_unit_more_than_are_open_makes_every_write_a_copy() {
        let mut model = Card::random(&mut Prng::new(Seed(8)));
        let (unit, open) = (model.unit, model.most_open as u64);
        for at in (0..model.units * unit).step_by(1 << 16) {
            model.serve(Operation::Write, at, 1 << 16, 0);
        }
        let mut streams = |count: u64| {
            let before = model.free_at;
            for round in 0..8 {
                for stream in 0..count {
                    model.serve(Operation::Write, stream * unit + (round << 16), 1 << 16, 0);
                }
            }
            (model.free_at - before) / (8 * count)
        };
        let (few, many) = (streams(open), streams(open + 1));
        assert!(many > 3 * few, "{few} {many}");
    }
}
