//! The IOs of a volume on its device: reads that wait, and writes that are waited for before the next flush.
//!
//! # Invariants
//! - A read never overtakes a write to the same range: it waits until that write has completed.
//! - The first write or flush that fails is remembered; every later write and flush fails with its error.
//! - What was read ahead is not used if its range was written or discarded since.
//! - Where a write failed nobody knows what the device has: a read of that range fails with the write's error.

use std::collections::VecDeque;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Arena, Buffer, Completion, Device, IoError, Operation, Request};

use crate::error::RepairError;

/// The most writes in flight: enough that the device always has one while the next is filled.
const WRITES_MAX: usize = 4;

/// The most reads ahead: the device does one while the answer to the other is on its way.
pub(crate) const AHEAD_MAX: usize = 2;

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

/// Memory for many reads of this size. That for 1 MiB and more lies in huge pages of memory, if the system has them. In pages of 4 KiB a
/// MiB is 256 pieces, and the queue of a disk takes a request with more pieces than its limit in parts (`max_segments`; virtio: 254).
/// A virtual disk read 1.4 to 1.7 times as fast into huge pages (`cargo bench -p flashlab --bench sequential`).
pub(crate) fn read_buffer(size: Bytes) -> Buffer {
    const HUGE_PAGE: Bytes = Bytes::mib(2);
    let size = if size >= Bytes::mib(1) { size.round_up(HUGE_PAGE) } else { size };
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
    /// In the order in which they will be asked for.
    ahead: VecDeque<AheadRead>,
}

/// A read that nobody waits for yet.
struct AheadRead {
    tag: u64,
    offset: u64,
    size: Bytes,
    done: Option<Completion>,
    /// Something was written there since.
    is_stale: bool,
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
            ahead: VecDeque::new(),
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
        self.end_ahead(0);
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
        self.spoil_ahead(offset, size);
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
            if next < ranges.len() && waiting.len() + self.writes.len() + self.ahead.len() < self.depth {
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

    /// Whether a read may be begun before it is asked for.
    pub fn can_read_ahead(&self) -> bool {
        /// All writes, the two ranges of a read, and those ahead.
        const DEPTH_MIN: usize = WRITES_MAX + 2 + AHEAD_MAX;
        self.depth >= DEPTH_MIN && self.ahead.len() < AHEAD_MAX && self.failed.is_none()
    }

    /// Whether this range is being read ahead.
    pub fn is_ahead(&self, offset: u64, size: Bytes) -> bool {
        self.ahead.iter().any(|ahead| (ahead.offset, ahead.size) == (offset, size))
    }

    /// Begins a read that [`DeviceIo::take_ahead`] may ask for later, unless its range is being written.
    pub fn read_ahead(&mut self, offset: u64, size: Bytes, buffer: Buffer) {
        if self.writes.iter().any(|write| overlap((write.offset, write.size), (offset, size))) {
            return;
        }
        self.tag += 1;
        self.ahead.push_back(AheadRead { tag: self.tag, offset, size, done: None, is_stale: false });
        let offset = Bytes(offset);
        self.device.submit(Request { tag: self.tag, operation: Operation::Read, offset, size, buffer });
    }

    /// What was read ahead, if it is this range as the device has it now. Reads ahead that are not asked for in their order are dropped.
    pub fn take_ahead(&mut self, offset: u64, size: Bytes) -> Option<Buffer> {
        let next = self.ahead.front()?;
        let is_next = (next.offset, next.size) == (offset, size);
        let kept = if is_next { self.ahead.len() - 1 } else { 0 };
        let ahead = self.end_ahead(kept)?;
        ahead.done.filter(|done| is_next && !ahead.is_stale && done.result.is_ok()).map(|done| done.buffer)
    }

    /// Waits for the first reads ahead until this number of them is left. Returns the last one that it waited for.
    fn end_ahead(&mut self, kept: usize) -> Option<AheadRead> {
        let mut last = None;
        while self.ahead.len() > kept {
            while self.ahead.front().is_some_and(|ahead| ahead.done.is_none()) {
                match self.device.wait(Nanos::MAX) {
                    Some(done) => self.written(done),
                    None => break,
                }
            }
            last = self.ahead.pop_front();
        }
        last
    }

    fn spoil_ahead(&mut self, offset: u64, size: Bytes) {
        for ahead in &mut self.ahead {
            ahead.is_stale |= overlap((ahead.offset, ahead.size), (offset, size));
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
            self.spoil_ahead(offset, size);
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

    /// Takes the answer to a write, or to a read ahead.
    fn written(&mut self, done: Completion) {
        if let Some(ahead) = self.ahead.iter_mut().find(|ahead| ahead.tag == done.tag) {
            ahead.done = Some(done);
            return;
        }
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
