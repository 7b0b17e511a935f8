//! Computes when a simulated device completes each IO of a live disk.
//!
//! # Method
//! 1. If the device's queue is full, an IO enters it when the next IO completes.
//! 2. The device's virtual clock advances to that time, and the device receives the IO.
//! 3. The device predicts the completion time
//!    ([`VirtualTime::next_completion`](flashlab_device::VirtualTime::next_completion)) without advancing its
//!    clock to it, because later IOs may arrive earlier than that. If a device cannot predict, the model
//!    waits for it.
//!
//! # Invariants
//! - The device never has more IOs in flight than its queue depth.
//! - Its clock runs ahead of the wall clock only if an IO waits for a full queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{
    Arena, Buffer, Completion, DataHandling, Device, IoError, MemoryDevice, Operation, Request,
};
use flashlab_sim::{SimulatedDevice, Statistics};

use crate::io::Data;

/// A device that can be a live disk. Devices without power cuts, counters or a saved state keep the defaults.
pub trait ServedDevice: Device + Send {
    /// Loses what is only in volatile memory, as when the power fails and returns.
    fn power_cut(&mut self) {}

    /// Its counters, if it has any.
    fn statistics(&self) -> Option<Statistics> {
        None
    }

    /// Its state as bytes, if it can be restored. No IO is in flight.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }
}

impl ServedDevice for SimulatedDevice {
    fn power_cut(&mut self) {
        if let SimulatedDevice::Flash(device) = self {
            device.power_cut();
        }
    }

    fn statistics(&self) -> Option<Statistics> {
        match self {
            SimulatedDevice::Flash(device) => Some(device.statistics()),
            _ => None,
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        match self {
            SimulatedDevice::Flash(device) => Some(device.save()),
            _ => None,
        }
    }
}

impl ServedDevice for MemoryDevice {}

/// A device with the completion times of the IOs that it still works on.
pub(crate) struct Model {
    pub device: Box<dyn ServedDevice>,
    data: DataHandling,
    depth: usize,
    /// The completion times of the IOs in the device's queue.
    in_flight: BinaryHeap<Reverse<Nanos>>,
    buffer: Buffer,
}

impl Model {
    pub fn new(device: Box<dyn ServedDevice>) -> Model {
        let geometry = device.geometry();
        Model {
            data: geometry.data,
            depth: geometry.depth.max(1) as usize,
            in_flight: BinaryHeap::new(),
            buffer: Buffer::empty(),
            device,
        }
    }

    /// Whether the device stores the data itself.
    pub fn keeps_data(&self) -> bool {
        self.data.is_stored()
    }

    /// The completion time of an IO that arrived at `arrived`, and its result.
    pub fn serve(
        &mut self,
        arrived: Nanos,
        operation: Operation,
        (offset, size): (Bytes, Bytes),
        data: &mut Data<'_>,
    ) -> (Nanos, Result<(), IoError>) {
        let enters = self.enter(arrived);
        // Every earlier IO was completed in advance, so this only advances the clock.
        self.device.wait(enters);
        let buffer = self.lend(size, data);
        self.device.submit(Request { tag: 0, operation, offset, size, buffer });
        let done = self.next_completion().expect("every request is answered by one completion");
        if self.data.is_stored()
            && let Data::Read(wanted) = data
            && done.result.is_ok()
        {
            wanted.copy_from_slice(&done.buffer[..wanted.len()]);
        }
        if !done.buffer.is_empty() {
            self.buffer = done.buffer;
        }
        self.in_flight.push(Reverse(done.completed));
        (done.completed, done.result)
    }

    /// The completion of the IO that was submitted last.
    fn next_completion(&mut self) -> Option<Completion> {
        match self.device.virtual_time() {
            Some(virtual_time) => virtual_time.next_completion(),
            None => self.device.wait(Nanos::MAX),
        }
    }

    /// When an IO that arrives at `arrived` finds space in the device's queue.
    fn enter(&mut self, arrived: Nanos) -> Nanos {
        let mut enters = arrived;
        while let Some(&Reverse(done)) = self.in_flight.peek()
            && (done <= enters || self.in_flight.len() >= self.depth)
        {
            enters = enters.max(done);
            self.in_flight.pop();
        }
        enters
    }

    /// The buffer that the device needs for an IO: with the written bytes if the device uses content, with
    /// space for a read if it stores data, and otherwise none.
    fn lend(&mut self, size: Bytes, data: &Data<'_>) -> Buffer {
        let needed = match data {
            Data::Nothing => false,
            Data::Read(_) => self.data.is_stored(),
            Data::Write(_) => self.data.is_used(),
        };
        if !needed {
            return Buffer::empty();
        }
        if self.buffer.len() < size.0 as usize {
            self.buffer = Arena::buffers(1, size).remove(0);
        }
        let mut buffer = std::mem::replace(&mut self.buffer, Buffer::empty());
        if let Data::Write(bytes) = data {
            buffer[..bytes.len()].copy_from_slice(bytes);
            // The range may be longer than the bytes, because it was extended to whole blocks.
            buffer[bytes.len()..(size.0 as usize).max(bytes.len())].fill(0);
        }
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn serve(model: &mut Model, arrived: u64, operation: Operation, data: &mut Data<'_>) -> Nanos {
        let (done, result) = model.serve(Nanos(arrived), operation, (Bytes(4096), Bytes(512)), data);
        assert_eq!(result, Ok(()));
        done
    }

    #[test]
    fn a_device_that_stores_data_receives_it() {
        let mut model = Model::new(Box::new(MemoryDevice::new(Bytes::mib(1), Nanos(MS))));
        let written = [7; 512];
        assert_eq!(serve(&mut model, 0, Operation::Write, &mut Data::Write(&written)), Nanos(MS));
        let mut read = [0; 512];
        // It arrived while the device served the first IO, and the device serves one at a time.
        assert_eq!(serve(&mut model, MS / 2, Operation::Read, &mut Data::Read(&mut read)), Nanos(2 * MS));
        assert_eq!(read, written);
        // Later the device is idle.
        assert_eq!(serve(&mut model, 10 * MS, Operation::Read, &mut Data::Read(&mut read)), Nanos(11 * MS));
    }

    #[test]
    fn an_io_that_finds_the_queue_full_enters_when_the_next_completes() {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "emmc").unwrap();
        let mut profile = profile.resized(Bytes::mib(256)).unwrap();
        profile.controller.depth = 2;
        let mut model = Model::new(Box::new(profile.device().unwrap()));
        let mut done: Vec<Nanos> =
            (0..6).map(|_| serve(&mut model, 0, Operation::Write, &mut Data::Nothing)).collect();
        done.sort_unstable();
        assert_eq!(model.in_flight.len(), 2);
        assert_eq!(model.device.now(), done[3], "the last entered when the fourth completed");
    }
}
