//! The IOs of a volume on its device: reads that wait, and writes that are waited for before the next flush.
//!
//! # Invariants
//! - A read never overtakes a write to the same range: it waits until that write has completed.
//! - The first write or flush that fails is remembered; every later write and flush fails with its error.
//! - Where a write failed nobody knows what the device has: a read of that range fails with the write's error.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Arena, Buffer, Completion, Device, IoError, Operation, Request};

use crate::error::RepairError;

/// The most writes in flight: enough that the device always has one while the next is filled.
const WRITES_MAX: usize = 4;

/// A range of the device and memory for it.
pub(crate) struct ReadRange {
    pub offset: u64,
    pub size: Bytes,
    pub buffer: Buffer,
}

impl ReadRange {
    /// Memory of its own for a range.
    pub fn new(offset: u64, size: Bytes) -> ReadRange {
        ReadRange { offset, size, buffer: Arena::buffers(1, size).remove(0) }
    }

    /// The bytes that were read.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.size.0 as usize]
    }
}

/// Memory for many reads of this size. That for 256 KiB and more lies in huge pages of memory, if the system has them. In pages of 4 KiB a
/// MiB is 256 pieces, and the queue of a disk takes a request with more pieces than its limit in parts (`max_segments`; virtio: 254).
/// A virtual disk read 1.4 to 1.7 times as fast into huge pages (`cargo bench -p flashlab --bench sequential`), also with two requests of
/// 512 KiB at once, which a loop device makes of 1 MiB.
pub(crate) fn read_buffer(size: Bytes) -> Buffer {
    const HUGE_PAGE: Bytes = Bytes::mib(2);
    /// Smaller reads have so few pieces that they gain little, and each of 17 lanes would keep 2 MiB for them.
    const HUGE_FROM: Bytes = Bytes::kib(256);
    let size = if size >= HUGE_FROM { size.round_up(HUGE_PAGE) } else { size };
    Arena::buffers(1, size).remove(0)
}

/// A write that failed.
struct FailedWrite {
    offset: u64,
    size: Bytes,
    error: RepairError,
}

struct InFlight {
    tag: u64,
    offset: u64,
    size: Bytes,
    /// Whether the buffer is one of those for records.
    returns: bool,
}

/// A device, and the volume's writes in flight.
pub(crate) struct DeviceIo<D> {
    device: D,
    depth: usize,
    tag: u64,
    writes: Vec<InFlight>,
    spare: Vec<Buffer>,
    failed: Option<RepairError>,
    /// Where writes failed, with their errors.
    unknown: Vec<FailedWrite>,
    takes_discards: bool,
}

impl<D: Device> DeviceIo<D> {
    /// With buffers of this size for records, for as many logs.
    pub fn new(device: D, record: Bytes, logs: usize) -> DeviceIo<D> {
        let depth = device.geometry().depth.max(1) as usize;
        let spare =
            if record == Bytes::ZERO { Vec::new() } else { Arena::buffers(logs + WRITES_MAX, record) };
        DeviceIo {
            device,
            depth,
            tag: 0,
            writes: Vec::new(),
            spare,
            failed: None,
            unknown: Vec::new(),
            takes_discards: true,
        }
    }

    pub fn device(&self) -> &D {
        &self.device
    }

    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The device, without what is in flight.
    pub fn into_device(mut self) -> D {
        self.drain();
        self.device
    }

    /// A buffer for a record, whose content is old.
    pub fn record_buffer(&mut self) -> Buffer {
        loop {
            if let Some(buffer) = self.spare.pop() {
                return buffer;
            }
            let completed = self.complete_one();
            assert!(completed, "every record buffer is open in a log or in flight");
        }
    }

    /// Writes, and returns before the device has.
    pub fn write_record(&mut self, offset: u64, size: Bytes, buffer: Buffer) -> Result<(), RepairError> {
        self.write(offset, size, buffer, true)
    }

    /// As [`DeviceIo::write_record`], with a copy of these bytes.
    pub fn write_bytes(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RepairError> {
        let size = Bytes(bytes.len() as u64);
        let mut buffer = Arena::buffers(1, size).remove(0);
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.write(offset, size, buffer, false)
    }

    fn write(&mut self, offset: u64, size: Bytes, buffer: Buffer, returns: bool) -> Result<(), RepairError> {
        while self.writes.len() >= WRITES_MAX.min(self.depth) {
            self.complete_one();
        }
        if let Some(error) = &self.failed {
            if returns {
                self.spare.push(buffer);
            }
            return Err(error.clone());
        }
        self.tag += 1;
        self.writes.push(InFlight { tag: self.tag, offset, size, returns });
        let offset = Bytes(offset);
        self.device.submit(Request { tag: self.tag, operation: Operation::Write, offset, size, buffer });
        Ok(())
    }

    /// Waits for the writes to a range.
    pub fn settle(&mut self, offset: u64, size: Bytes) {
        while self.writes.iter().any(|write| overlap((write.offset, write.size), (offset, size))) {
            self.complete_one();
        }
    }

    /// Waits for all writes: another handle may flush them then.
    pub fn settle_all(&mut self) -> Result<(), RepairError> {
        self.drain();
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The first write or flush that failed, or why there are no more.
    pub fn failure(&self) -> Option<&RepairError> {
        self.failed.as_ref()
    }

    /// Lets every later write and flush fail: another handle failed to flush, or the volume was closed.
    pub fn fail(&mut self, error: RepairError) {
        self.failed.get_or_insert(error);
    }

    /// Reads ranges at the same time.
    ///
    /// # Errors
    /// That of the first range that fails, or of a write to one of them.
    pub fn read(&mut self, ranges: &mut [ReadRange]) -> Result<(), RepairError> {
        ranges.iter().for_each(|range| self.settle(range.offset, range.size));
        let overlaps = |write: &&FailedWrite| {
            ranges.iter().any(|range| overlap((write.offset, write.size), (range.offset, range.size)))
        };
        if let Some(write) = self.unknown.iter().find(overlaps) {
            return Err(write.error.clone());
        }
        let mut error = None;
        let mut waiting: Vec<(u64, usize)> = Vec::with_capacity(ranges.len());
        let mut next = 0;
        while next < ranges.len() || !waiting.is_empty() {
            if next < ranges.len() && waiting.len() + self.writes.len() < self.depth {
                let range = &mut ranges[next];
                let buffer = std::mem::replace(&mut range.buffer, Buffer::empty());
                self.tag += 1;
                waiting.push((self.tag, next));
                next += 1;
                self.device.submit(Request {
                    tag: self.tag,
                    operation: Operation::Read,
                    offset: Bytes(range.offset),
                    size: range.size,
                    buffer,
                });
                continue;
            }
            let Some(done) = self.device.wait(Nanos::MAX) else {
                return Err(failed("read", ranges[0].offset, ranges[0].size, IoError::GONE));
            };
            match waiting.iter().position(|(tag, _)| *tag == done.tag) {
                None => self.written(done),
                Some(at) => {
                    let range = &mut ranges[waiting.swap_remove(at).1];
                    range.buffer = done.buffer;
                    if let Err(why) = done.result {
                        error.get_or_insert(failed("read", range.offset, range.size, why));
                    }
                }
            }
        }
        error.map_or(Ok(()), Err)
    }

    /// Reads a range in which something is only looked for. Parts of this size that cannot be read are zeroes.
    pub fn read_if_possible(&mut self, range: &mut [ReadRange; 1], part: Bytes) {
        if self.read(range).is_ok() {
            return;
        }
        let [whole] = range;
        let mut one = [ReadRange::new(whole.offset, part)];
        for at in (0..whole.size.0).step_by(part.0 as usize) {
            one[0].offset = whole.offset + at;
            let to = &mut whole.buffer[at as usize..(at + part.0) as usize];
            match self.read(&mut one) {
                Ok(()) => to.copy_from_slice(one[0].bytes()),
                Err(_) => to.fill(0),
            }
        }
    }

    /// Waits for all writes and flushes the device: everything written is durable when this succeeds.
    pub fn flush(&mut self) -> Result<(), RepairError> {
        self.settle_all()?;
        if let Err(error) = self.alone(Operation::Flush, 0, Bytes::ZERO) {
            self.fail(error.clone());
            return Err(error);
        }
        Ok(())
    }

    /// Discards a range that holds nothing. A device that cannot is not asked a second time.
    pub fn discard(&mut self, offset: u64, size: Bytes) {
        if self.takes_discards {
            self.drain();
            self.takes_discards = self.alone(Operation::Discard, offset, size).is_ok();
        }
    }

    /// Whether the device has not refused a discard.
    pub fn takes_discards(&self) -> bool {
        self.takes_discards
    }

    /// Lets the device's time go on until then.
    pub fn pause(&mut self, until: Nanos) {
        while let Some(done) = self.device.wait(until) {
            self.written(done);
        }
    }

    fn alone(&mut self, operation: Operation, offset: u64, size: Bytes) -> Result<(), RepairError> {
        let action = if operation == Operation::Flush { "flush" } else { "discard" };
        self.tag += 1;
        let buffer = Buffer::empty();
        self.device.submit(Request { tag: self.tag, operation, offset: Bytes(offset), size, buffer });
        let result = loop {
            match self.device.wait(Nanos::MAX) {
                None => break Err(IoError::GONE),
                Some(done) if done.tag == self.tag => break done.result,
                Some(done) => self.written(done),
            }
        };
        result.map_err(|error| failed(action, offset, size, error))
    }

    fn drain(&mut self) {
        while self.complete_one() {}
    }

    fn complete_one(&mut self) -> bool {
        if self.writes.is_empty() {
            return false;
        }
        match self.device.wait(Nanos::MAX) {
            Some(done) => self.written(done),
            None => {
                // A device that does not answer is gone, and so are its buffers.
                let lost = self.writes.swap_remove(0);
                self.write_failed(&lost, IoError::GONE);
            }
        }
        true
    }

    /// Takes the answer to a write.
    fn written(&mut self, done: Completion) {
        let Some(at) = self.writes.iter().position(|write| write.tag == done.tag) else { return };
        let write = self.writes.swap_remove(at);
        if write.returns {
            self.spare.push(done.buffer);
        }
        if let Err(error) = done.result {
            self.write_failed(&write, error);
        }
    }

    fn write_failed(&mut self, write: &InFlight, error: IoError) {
        let InFlight { offset, size, .. } = *write;
        let error = failed("write", offset, size, error);
        self.unknown.push(FailedWrite { offset, size, error: error.clone() });
        self.fail(error);
    }
}

/// Whether two ranges, each an offset and a size, have a byte in common.
fn overlap(a: (u64, Bytes), b: (u64, Bytes)) -> bool {
    a.0 < b.0 + b.1.0 && b.0 < a.0 + a.1.0
}

/// The error of an IO on the device.
pub(crate) fn failed(action: &'static str, offset: u64, size: Bytes, error: IoError) -> RepairError {
    RepairError::Io { action, offset, size, error }
}
