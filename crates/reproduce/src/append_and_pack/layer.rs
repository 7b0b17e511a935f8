//! Append and Pack over a simulated device, without durability: the paper's library (section 4).
//!
//! # Model
//! Logical pages are appended to segments in memory. A full segment is written in one sequence of large requests. Packing reads
//! the live pages of a segment from the device, several at a time, and appends them again. Which segment is packed, and where
//! pages go, is decided by a policy of crate `repair`.
//!
//! A host write completes when it is in memory, as in the paper; it waits while [`DIRTY_SEGMENTS`] are being written. The volume
//! of crate `repair` is durable; it serves one request at a time, so that 15 threads would not show on it what they do here.

use std::collections::VecDeque;

use flashlab_base::{Bytes, Identity, Nanos, Operation};
use flashlab_device::{Buffer, Completion, Device, Geometry, Request};
use flashlab_repair::{Placer, Policy, SegmentId, SegmentState, Slot, Watermarks};
use flashlab_sim::SimulatedDevice;

use crate::lab::{Result, condition};

/// Tags of the layer's own requests.
const OWN: u64 = 1 << 63;
/// Segments that may be waiting to be written.
const DIRTY_SEGMENTS: u32 = 2;
/// The size of the requests that write a segment.
const CHUNK: Bytes = Bytes::mib(1);
/// Reads of packing in flight: enough to keep the dies of the ioDrive busy.
const PACKING_READS: u32 = 16;
/// Segments that packing keeps free in addition to its reserve.
const FREE_SEGMENTS: u32 = 4;
const NOWHERE: u32 = u32::MAX;

/// What the layer itself asks of the device.
enum Own {
    WriteChunk,
    ReadPage(Slot),
}

struct Packing {
    segment: SegmentId,
    next_position: u32,
    reads_in_flight: u32,
}

/// The layer in front of a device.
pub(crate) struct AppendLayer {
    device: SimulatedDevice,
    page: Bytes,
    placer: Placer,
    map: Vec<u32>,
    pages: Vec<u32>,
    own: Vec<Own>,
    pending: VecDeque<Request>,
    in_flight: u32,
    dirty_chunks: u32,
    waiting: VecDeque<(Request, Nanos)>,
    answered: VecDeque<Completion>,
    packing: Option<Packing>,
}

impl AppendLayer {
    /// A layer with so many logical pages, all written once.
    pub(crate) fn filled(
        device: SimulatedDevice,
        page: Bytes,
        segment: Bytes,
        logical_pages: u32,
        policy: Box<dyn Policy>,
    ) -> Result<AppendLayer> {
        let segments = (device.geometry().capacity.0 / segment.0) as u32;
        let pages_per_segment = (segment.0 / page.0) as u32;
        let Watermarks { reserve, .. } = Watermarks::smallest(policy.log_count());
        let watermarks =
            Watermarks { reserve, low: reserve + FREE_SEGMENTS / 2, high: reserve + FREE_SEGMENTS };
        let mut layer = AppendLayer {
            device,
            page,
            placer: Placer::new(segments, pages_per_segment, policy, watermarks),
            map: vec![NOWHERE; logical_pages as usize],
            pages: vec![0; (segments * pages_per_segment) as usize],
            own: Vec::new(),
            pending: VecDeque::new(),
            in_flight: 0,
            dirty_chunks: 0,
            waiting: VecDeque::new(),
            answered: VecDeque::new(),
            packing: None,
        };
        layer.condition_writes(&mut (0..logical_pages))?;
        Ok(layer)
    }

    /// The books.
    pub(crate) fn placer(&self) -> &Placer {
        &self.placer
    }

    /// Writes pages without computing times.
    ///
    /// # Errors
    /// When the device fails a write.
    pub(crate) fn condition_writes(&mut self, writes: &mut dyn Iterator<Item = u32>) -> Result<()> {
        for page in writes {
            while self.placer.should_pack() {
                let Some(victim) = self.placer.begin_packing() else { break };
                for position in 0..self.placer.table().segment(victim).written_pages {
                    if let Some(sealed) = self.copy_if_live(Slot { segment: victim, page: position }) {
                        self.condition_segment(sealed)?;
                    }
                }
                self.placer.end_packing(victim);
            }
            if let Some(sealed) = self.place(page) {
                self.condition_segment(sealed)?;
            }
        }
        Ok(())
    }

    fn condition_segment(&mut self, segment: SegmentId) -> Result<()> {
        let size = self.segment_size();
        let first = Bytes(u64::from(segment.0) * size.0);
        condition(&mut self.device, &mut std::iter::once((Operation::Write, first, size)))
    }

    fn segment_size(&self) -> Bytes {
        self.page * u64::from(self.placer.table().pages_per_segment())
    }

    fn index(&self, slot: Slot) -> u32 {
        slot.segment.0 * self.placer.table().pages_per_segment() + slot.page
    }

    fn slot(&self, index: u32) -> Slot {
        let pages = self.placer.table().pages_per_segment();
        Slot { segment: SegmentId(index / pages), page: index % pages }
    }

    /// Places a page of the host. Returns the segment that it filled.
    fn place(&mut self, page: u32) -> Option<SegmentId> {
        let index = self.map[page as usize];
        let previous = (index != NOWHERE).then(|| self.slot(index));
        let slot = self.placer.write(page.into(), previous).expect("the caller packs first");
        self.put(page, slot)
    }

    fn copy_if_live(&mut self, from: Slot) -> Option<SegmentId> {
        let index = self.index(from);
        let page = self.pages[index as usize];
        if self.map[page as usize] != index {
            return None;
        }
        let to = self.placer.copy(page.into(), from);
        self.put(page, to)
    }

    fn put(&mut self, page: u32, slot: Slot) -> Option<SegmentId> {
        let index = self.index(slot);
        self.map[page as usize] = index;
        self.pages[index as usize] = page;
        (self.placer.table().segment(slot.segment).state == SegmentState::Sealed).then_some(slot.segment)
    }

    /// A request of the layer itself.
    fn ask(&mut self, own: Own, operation: Operation, offset: Bytes, size: Bytes) {
        let tag = OWN | self.own.len() as u64;
        self.own.push(own);
        self.pending.push_back(Request { tag, operation, offset, size, buffer: Buffer::empty() });
    }

    fn write_segment(&mut self, segment: SegmentId) {
        let size = self.segment_size();
        for chunk in 0..size.0 / CHUNK.0 {
            let offset = Bytes(u64::from(segment.0) * size.0 + chunk * CHUNK.0);
            self.dirty_chunks += 1;
            self.ask(Own::WriteChunk, Operation::Write, offset, CHUNK);
        }
    }

    /// Does all that can be done now: packing, host writes that waited, requests that the device has a place for.
    fn advance(&mut self) {
        self.pack();
        while let Some((request, submitted)) = self.waiting.pop_front() {
            let most = DIRTY_SEGMENTS * (self.segment_size().0 / CHUNK.0) as u32;
            if self.dirty_chunks >= most || !self.placer.can_write() {
                self.waiting.push_front((request, submitted));
                break;
            }
            if let Some(sealed) = self.place((request.offset.0 / self.page.0) as u32) {
                self.write_segment(sealed);
            }
            self.answer(request, submitted);
            self.pack();
        }
        while self.in_flight < self.device.geometry().depth {
            let Some(request) = self.pending.pop_front() else { break };
            self.in_flight += 1;
            self.device.submit(request);
        }
    }

    fn answer(&mut self, request: Request, submitted: Nanos) {
        let completed = self.device.now();
        let Request { tag, buffer, .. } = request;
        self.answered.push_back(Completion { tag, submitted, completed, result: Ok(()), buffer });
    }

    /// Asks for the next pages of the segment that is being packed, and chooses one if a segment should be packed.
    fn pack(&mut self) {
        loop {
            let mut packing = match self.packing.take() {
                Some(packing) => packing,
                None if self.placer.should_pack() => {
                    let Some(segment) = self.placer.begin_packing() else { return };
                    Packing { segment, next_position: 0, reads_in_flight: 0 }
                }
                None => return,
            };
            let positions = self.placer.table().segment(packing.segment).written_pages;
            while packing.next_position < positions && packing.reads_in_flight < PACKING_READS {
                let from = Slot { segment: packing.segment, page: packing.next_position };
                packing.next_position += 1;
                let index = self.index(from);
                if self.map[self.pages[index as usize] as usize] == index {
                    packing.reads_in_flight += 1;
                    self.ask(Own::ReadPage(from), Operation::Read, self.page * u64::from(index), self.page);
                }
            }
            if packing.next_position < positions || packing.reads_in_flight > 0 {
                self.packing = Some(packing);
                return;
            }
            self.placer.end_packing(packing.segment);
        }
    }

    fn own_completed(&mut self, tag: u64) {
        match std::mem::replace(&mut self.own[(tag & !OWN) as usize], Own::WriteChunk) {
            Own::WriteChunk => self.dirty_chunks -= 1,
            Own::ReadPage(from) => {
                if let Some(packing) = &mut self.packing {
                    packing.reads_in_flight -= 1;
                }
                if let Some(sealed) = self.copy_if_live(from) {
                    self.write_segment(sealed);
                }
            }
        }
    }
}

impl Device for AppendLayer {
    fn geometry(&self) -> Geometry {
        let capacity = self.page * self.map.len() as u64;
        // A half of the device's queue is for the layer's own requests.
        let inner = self.device.geometry();
        Geometry { capacity, block: self.page, depth: inner.depth / 2, ..inner }
    }

    fn identity(&self) -> Identity {
        self.device.identity()
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn submit(&mut self, request: Request) {
        let submitted = self.device.now();
        if let Err(error) = Device::geometry(self).check(request.offset, request.size) {
            let Request { tag, buffer, .. } = request;
            let failed = Completion { tag, submitted, completed: submitted, result: Err(error), buffer };
            self.answered.push_back(failed);
            return;
        }
        match request.operation {
            Operation::Write => self.waiting.push_back((request, submitted)),
            Operation::Read => {
                let index = self.map[(request.offset.0 / self.page.0) as usize];
                let segment = self.slot(index).segment;
                if self.placer.table().segment(segment).state == SegmentState::Open {
                    self.answer(request, submitted);
                } else {
                    // Reads of the host do not queue behind the layer's own requests.
                    self.pending.push_front(Request { offset: self.page * u64::from(index), ..request });
                }
            }
            Operation::Flush | Operation::Discard => self.answer(request, submitted),
        }
        self.advance();
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        loop {
            if let Some(answered) = self.answered.pop_front() {
                return Some(answered);
            }
            let completion = self.device.wait(until)?;
            self.in_flight -= 1;
            if completion.tag & OWN == 0 {
                self.advance();
                return Some(completion);
            }
            self.own_completed(completion.tag);
            self.advance();
        }
    }
}
