//! A device in virtual time that is asked by the wall clock.
//!
//! # Model
//! The device's clock is moved to the moment at which an IO arrived, the IO is handed to it, and when it will be done
//! is taken from it at once ([`VirtualTime::next_completion`](flashlab_device::VirtualTime::next_completion)). Holding the answer until
//! then is the transport's part. A device without a virtual clock is waited for.
//!
//! # Invariants
//! - no more IOs are with the device than its depth: those that find it full come in when the next is done, as a host's
//!   queue would have it;
//! - the device's clock never runs ahead of the wall clock by more than that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{
    Arena, Buffer, Completion, DataHandling, Device, IoError, MemoryDevice, Operation, Request,
};
use flashlab_sim::{SimulatedDevice, Statistics};

use crate::io::Data;

/// A device that can be served: what is asked of it beside IOs has an answer for those that know none.
pub trait ServedDevice: Device + Send {
    /// The power fails and comes back: what is only in volatile memory is gone.
    fn power_cut(&mut self) {}

    /// What it did, if it counts.
    fn statistics(&self) -> Option<Statistics> {
        None
    }

    /// Its state as bytes, if it has one that can be restored. Nothing is in flight.
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

/// A device and the IOs that it will have done at a time that lies ahead.
pub(crate) struct Model {
    pub device: Box<dyn ServedDevice>,
    data: DataHandling,
    depth: usize,
    /// When the IOs will be done that are with the device.
    ahead: BinaryHeap<Reverse<Nanos>>,
    buffer: Buffer,
}

impl Model {
    pub fn new(device: Box<dyn ServedDevice>) -> Model {
        let geometry = device.geometry();
        Model {
            data: geometry.data,
            depth: geometry.depth.max(1) as usize,
            ahead: BinaryHeap::new(),
            buffer: Buffer::empty(),
            device,
        }
    }

    /// Whether the device keeps the data itself.
    pub fn keeps_data(&self) -> bool {
        self.data.is_stored()
    }

    /// When an IO that arrived at `arrived` is done by the device's model, and how.
    pub fn serve(
        &mut self,
        arrived: Nanos,
        operation: Operation,
        (offset, size): (Bytes, Bytes),
        data: &mut Data<'_>,
    ) -> (Nanos, Result<(), IoError>) {
        let enters = self.enter(arrived);
        // Nothing is in flight with the device: this moves its clock.
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
        self.ahead.push(Reverse(done.completed));
        (done.completed, done.result)
    }

    /// The completion of the IO that was submitted last.
    fn next_completion(&mut self) -> Option<Completion> {
        match self.device.virtual_time() {
            Some(virtual_time) => virtual_time.next_completion(),
            None => self.device.wait(Nanos::MAX),
        }
    }

    /// When an IO that arrived now finds room in the device's queue.
    fn enter(&mut self, arrived: Nanos) -> Nanos {
        let mut enters = arrived;
        while let Some(&Reverse(done)) = self.ahead.peek()
            && (done <= enters || self.ahead.len() >= self.depth)
        {
            enters = enters.max(done);
            self.ahead.pop();
        }
        enters
    }

    /// A buffer with what is written, or with room for what is read, where that makes a difference to the device.
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
            // A write that is widened to whole blocks has no content beyond what was written.
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
    fn a_device_that_keeps_data_is_given_it() {
        let mut model = Model::new(Box::new(MemoryDevice::new(Bytes::mib(1), Nanos(MS))));
        let written = [7; 512];
        assert_eq!(serve(&mut model, 0, Operation::Write, &mut Data::Write(&written)), Nanos(MS));
        let mut read = [0; 512];
        // It came while the first was served, and the device does one after the other.
        assert_eq!(serve(&mut model, MS / 2, Operation::Read, &mut Data::Read(&mut read)), Nanos(2 * MS));
        assert_eq!(read, written);
        // After a rest the device is idle.
        assert_eq!(serve(&mut model, 10 * MS, Operation::Read, &mut Data::Read(&mut read)), Nanos(11 * MS));
    }

    #[test]
    fn what_finds_the_device_full_comes_in_when_the_next_is_done() {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "emmc").unwrap();
        let mut profile = profile.resized(Bytes::mib(256)).unwrap();
        profile.controller.depth = 2;
        let mut model = Model::new(Box::new(profile.device().unwrap()));
        let mut done: Vec<Nanos> =
            (0..6).map(|_| serve(&mut model, 0, Operation::Write, &mut Data::Nothing)).collect();
        done.sort_unstable();
        assert_eq!(model.ahead.len(), 2);
        assert_eq!(model.device.now(), done[3], "the last came in when the fourth was done");
    }
}
