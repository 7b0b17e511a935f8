//! Checkpoints: the map becomes durable, packed segments become free, and recovery has less to read.
//!
//! # Method
//! 1. Write all open records and flush: what the checkpoint says exists.
//! 2. Append the changes to the ring, and some chunks of the map's next image, and flush.
//! 3. If the image is complete, update the superblock: the checkpoints before it are not needed any more.
//!    The superblock names the newest checkpoint, which is durable, and the image by the digest of its chunks.
//! 4. Free the packed segments, and those without a live page, which need no packing.

use flashlab_device::Device;

use super::{ImageInProgress, Volume};
use crate::counters::VolumeCounters;
use crate::error::RepairError;
use crate::format::BLOCK;
use crate::format::checkpoint::{Checkpoint, CheckpointName, QUEUE_MAX};
use crate::format::image::{self, ChunkContent};
use crate::ring::Placed;
use crate::seeded_bug::SeededBug;
use crate::segment_table::{LogId, SegmentId};
use crate::superblock_io::write_superblock;

/// A new image is begun when this part of the ring is in use, and complete when twice of it is.
const RING_PART: u64 = 4;
/// Chunks of the image that are written at once.
const CHUNKS_AT_ONCE: u64 = 256;

impl<D: Device> Volume<D> {
    pub(super) fn update_superblock(&mut self) -> Result<(), RepairError> {
        self.superblock.update += 1;
        self.superblock.checkpoint = Some(self.checkpoint_name);
        self.counters.metadata_bytes += 2 * BLOCK.0;
        write_superblock(&mut self.io, &self.superblock)
    }

    /// Writes a checkpoint if as much was written as recovery may have to read.
    #[inline]
    pub(super) fn checkpoint_if_due(&mut self) -> Result<(), RepairError> {
        let interval = self.superblock.layout.options.checkpoint_interval.0;
        let since = &self.since_checkpoint;
        let is_due = since.written >= interval
            || since.changes.len() as u64 >= interval / self.page_size() as u64
            || since.segments.len() as u64 + 2 * self.open.len() as u64
                >= self.superblock.layout.touched_segments_max().max(2 * self.open.len() as u64 + 1);
        if is_due { self.write_checkpoint() } else { Ok(()) }
    }

    pub(super) fn write_checkpoint(&mut self) -> Result<(), RepairError> {
        self.check_poison()?;
        self.join_flush()?;
        self.write_all_records()?;
        self.flush_device()?;
        while let Some(segment) = self.placer.take_dead_segment() {
            self.packed.push(segment);
            self.counters.packed_segments += 1;
        }
        let checkpoint = self.next_checkpoint();
        let length = checkpoint.length();
        if self.ring.place(length).is_none() {
            self.begin_image(self.checkpoint_name.number);
            self.write_chunks(u64::MAX)?;
            self.complete_image()?;
        }
        let position = self.ring.place(length).ok_or_else(|| RepairError::Damaged {
            what: "the ring of checkpoints",
            offset: self.layout().ring.0,
            why: format!("{length} have no space in it"),
        })?;
        let mut bytes = vec![0; length.0 as usize];
        let checksum = checkpoint.encode(self.superblock.uuid, &mut bytes);
        self.io.write_bytes(self.layout().ring.0 + position, &bytes)?;
        self.counters.metadata_bytes += length.0;
        self.ring.add(Placed { number: checkpoint.number, position, length });
        let part = self.ring.length().0 / RING_PART;
        if self.ring.used().0 >= part {
            self.begin_image(checkpoint.number);
        }
        // As large a part of the image as the checkpoint is of the ring's part.
        let chunks = self.chunk_count();
        self.write_chunks((chunks * length.0).div_ceil(part).max(1))?;
        self.io.flush()?;
        self.checkpoint_name = CheckpointName { number: checkpoint.number, checksum };
        if self.image.as_ref().is_some_and(|image| image.next_chunk >= chunks) {
            self.complete_image()?;
        }
        let queue = checkpoint.queue.len() as u64;
        self.since_checkpoint.changes.clear();
        self.since_checkpoint.segments.clear();
        self.since_checkpoint.written = 0;
        self.since_checkpoint.queue = queue;
        self.since_checkpoint.opened_count = checkpoint.opened_count;
        for segment in std::mem::take(&mut self.packed) {
            self.placer.end_packing(segment);
            if self.discards.rate.0 > 0 {
                self.discards.segments.push_back((segment, self.checkpoint_name.number));
            }
        }
        Ok(())
    }

    /// Writes the open records of all logs, those of the host as one group.
    fn write_all_records(&mut self) -> Result<(), RepairError> {
        let is_host = self.open.iter().flatten().any(|record| record.has_host);
        for log in 0..self.open.len() {
            if self.open[log].as_ref().is_some_and(|record| !record.has_host) {
                self.write_open_record(LogId(log as u8), true)?;
            }
        }
        let hosts: Vec<usize> = (0..self.open.len()).filter(|&log| self.open[log].is_some()).collect();
        for (at, &log) in hosts.iter().enumerate() {
            self.write_open_record(LogId(log as u8), at + 1 == hosts.len())?;
        }
        if is_host {
            self.host_sequence = self.sequence;
        }
        Ok(())
    }

    fn next_checkpoint(&self) -> Checkpoint {
        let table = self.placer.table();
        let logs = (0..self.open.len()).map(|log| LogId(log as u8));
        let open = logs.filter_map(|log| self.placer.open_segment(log));
        let free = table.free_segments().chain(self.packed.iter().copied());
        let counters: VolumeCounters = self.counters;
        Checkpoint {
            number: self.checkpoint_name.number + 1,
            checksum: 0,
            previous: Some(self.checkpoint_name.checksum),
            epoch: self.superblock.epoch,
            sequence: self.sequence,
            now: self.placer.now(),
            opened_count: table.opened_count(),
            counters: counters.to_array(),
            changes: self.since_checkpoint.changes.clone(),
            segments: self.since_checkpoint.segments.iter().map(|&id| (id, *table.segment(id))).collect(),
            queue: free.take(QUEUE_MAX as usize).collect(),
            open: open.map(|id| (id, table.segment(id).written_pages)).collect(),
        }
    }

    fn chunk_count(&self) -> u64 {
        image::length(self.map.pages(), self.layout().segment_count.into()).0 / BLOCK.0
    }

    /// Begins an image, unless one is being written. Recovery will apply the checkpoints from this one on, which is the
    /// last in the ring.
    pub(super) fn begin_image(&mut self, checkpoint: u64) {
        if self.image.is_none()
            && let Some(last) = self.ring.last().filter(|last| last.number == checkpoint)
        {
            self.image = Some(ImageInProgress {
                number: self.superblock.image + 1,
                next_chunk: 0,
                digest: 0,
                first_checkpoint: checkpoint,
                first_position: last.position,
            });
        }
    }

    /// Writes the next chunks of the image, if one is being written.
    pub(super) fn write_chunks(&mut self, most: u64) -> Result<(), RepairError> {
        let Some(image) = &self.image else { return Ok(()) };
        let (number, first, mut digest) = (image.number, image.next_chunk, image.digest);
        let end = first.saturating_add(most).min(self.chunk_count());
        let start = self.layout().images[(number % 2) as usize].0;
        let mut chunk = first;
        while chunk < end {
            let count = (end - chunk).min(CHUNKS_AT_ONCE);
            let mut bytes = vec![0; (count * BLOCK.0) as usize];
            for (chunk, block) in (chunk..).zip(bytes.chunks_exact_mut(BLOCK.0 as usize)) {
                self.encode_chunk((number, chunk), block);
                digest = image::digest(digest, block);
            }
            self.io.write_bytes(start + chunk * BLOCK.0, &bytes)?;
            self.counters.metadata_bytes += bytes.len() as u64;
            chunk += count;
        }
        if let Some(image) = &mut self.image {
            image.next_chunk = end;
            image.digest = digest;
        }
        Ok(())
    }

    fn encode_chunk(&self, id: (u64, u64), block: &mut [u8]) {
        let table = self.placer.table();
        match image::content(id.1, self.map.pages(), table.segment_count().into()) {
            Some(ChunkContent::Pages(pages)) => {
                image::encode_pages(self.superblock.uuid, id, self.map.bytes(pages), block);
            }
            Some(ChunkContent::Segments(segments)) => {
                let segments = segments.map(|at| table.segment(SegmentId(at as u32)));
                image::encode_segments(self.superblock.uuid, id, segments, block);
            }
            None => {}
        }
    }

    /// Makes the complete image the one that recovery begins with.
    pub(super) fn complete_image(&mut self) -> Result<(), RepairError> {
        let Some(image) = self.image.take() else { return Ok(()) };
        if !self.has_bug(SeededBug::EarlyImage) {
            self.io.flush()?;
        }
        self.superblock.image = image.number;
        self.superblock.image_digest = Some(image.digest);
        self.superblock.first_checkpoint = image.first_checkpoint;
        self.superblock.first_position = image.first_position;
        self.update_superblock()?;
        self.ring.forget_before(image.first_checkpoint);
        Ok(())
    }
}
