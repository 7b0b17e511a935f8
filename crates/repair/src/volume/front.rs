//! The volume as a [`Device`].
//!
//! # Method
//! Reads, writes and discards are served when they are submitted. Flushes are served by the next wait, all with one write and
//! one flush of the device. While a caller waits with nothing in flight, the volume packs segments and discards free ones.

use flashlab_base::{Bytes, Identity, Nanos, Operation};
use flashlab_device::{Buffer, Completion, DataHandling, Device, Geometry, IoError, Request};

use super::Volume;
use crate::error::RepairError;

/// The unit of offsets and sizes: parts of pages are read, changed and written.
const BLOCK: Bytes = Bytes(512);
/// Requests in flight.
const DEPTH: u32 = 256;

impl<D: Device> Volume<D> {
    fn serve(&mut self, request: &mut Request) -> Result<(), IoError> {
        Device::geometry(self).check(request.offset, request.size)?;
        let (offset, size) = (request.offset.0, request.size.0 as usize);
        let done = match request.operation {
            Operation::Read => self.read(offset, &mut request.buffer[..size]),
            Operation::Write => self.write(offset, &request.buffer[..size]),
            Operation::Discard => self.discard(offset, size as u64),
            Operation::Flush => Ok(()),
        };
        done.map_err(|error| error.io_error())
    }

    fn answer(&mut self, tag: u64, submitted: Nanos, buffer: Buffer, result: Result<(), IoError>) {
        let completed = self.io.device_mut().now();
        self.answered.push_back(Completion { tag, submitted, completed, result, buffer });
    }

    /// Serves all submitted flushes with one.
    fn serve_flushes(&mut self) {
        if self.flushes.is_empty() {
            return;
        }
        let result = self.flush().map_err(|error: RepairError| error.io_error());
        let others = self.flushes.len() as u64 - 1;
        self.counters.flushes += others;
        self.counters.shared_flushes += others;
        for (request, submitted) in std::mem::take(&mut self.flushes) {
            self.answer(request.tag, submitted, request.buffer, result);
        }
    }

    /// Uses idle time until `until`.
    fn idle(&mut self, until: Nanos) {
        while self.io.device_mut().now() < until {
            if !self.idle_step() && !self.discard_step() {
                let has_backlog = !self.discards.segments.is_empty() && self.poison().is_none();
                self.io.pause(if has_backlog { until.min(self.discards.next) } else { until });
            }
        }
    }

    /// Discards a free segment on the device if the rate allows it. False: there is none, or it has to wait.
    pub(super) fn discard_step(&mut self) -> bool {
        let now = self.io.device_mut().now();
        if now < self.discards.next || self.poison().is_some() {
            return false;
        }
        if !self.io.takes_discards() {
            self.discards.segments.clear();
        }
        let Some(&(segment, freed_by)) = self.discards.segments.front() else { return false };
        // If the newest checkpoint is damaged, the one before needs what that one freed. A later one shows that it was there.
        if freed_by == self.checkpoint_name.number && self.write_checkpoint().is_err() {
            return false;
        }
        self.discards.segments.pop_front();
        if self.placer.table().segment(segment).state == crate::segment_table::SegmentState::Free {
            let size = self.layout().options.segment;
            let position = segment.0 * self.layout().pages_per_segment();
            self.io.discard(self.layout().offset(position), size);
            self.counters.device_discarded_bytes += size.0;
            let pause = Nanos::from_secs_f64(size.0 as f64 / self.discards.rate.0 as f64);
            self.discards.next = now.saturating_add(pause);
        }
        true
    }
}

impl<D: Device> Device for Volume<D> {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.size(), block: BLOCK, depth: DEPTH, data: DataHandling::Stored }
    }

    fn identity(&self) -> Identity {
        let beneath = self.io.device().identity();
        Identity {
            target: beneath.target.clone(),
            kind: "flashlab volume".to_owned(),
            backing_device: Some(beneath.target),
            serial: Some(self.superblock.uuid.to_string()),
            capacity: self.size(),
            logical_block: Some(BLOCK),
            physical_block: Some(self.layout().options.page),
            engine: beneath.engine,
            ..Identity::default()
        }
    }

    fn now(&mut self) -> Nanos {
        self.io.device_mut().now()
    }

    fn submit(&mut self, mut request: Request) {
        let submitted = self.io.device_mut().now();
        let in_flight = self.answered.len() + self.flushes.len();
        assert!(in_flight < DEPTH as usize, "more than {DEPTH} requests in flight");
        if request.operation == Operation::Flush {
            self.flushes.push((request, submitted));
            return;
        }
        let result = self.serve(&mut request);
        self.answer(request.tag, submitted, request.buffer, result);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        if self.answered.is_empty() {
            self.serve_flushes();
        }
        if let Some(done) = self.answered.pop_front() {
            return Some(done);
        }
        if until != Nanos::MAX {
            self.idle(until);
        }
        None
    }
}
