//! The volume: a durable, crash-safe, log-structured device over any device.
//!
//! # Model
//! (Stoica et al., "Evaluating and Repairing Write Performance on Flash Devices", DaMoN 2009, section 3, made durable.)
//! Writes of pages are gathered in memory and appended to a log as records; the map says where the newest version of each
//! page lies. The [`Placer`] and its policy decide which log a page goes to and which segment is packed.
//!
//! # Method
//! - `writing`: pages and discards go into open records; full ones are written.
//! - `acknowledging`: acknowledges writes before they are done.
//! - `flushing`: writes the open records and flushes the device. Flushes that come together share one.
//! - `packing`: copies the live pages out of a segment, in steps of one record.
//! - `checkpointing`: makes the map durable and frees the packed segments.
//! - `reading`: reads pages and verifies each one.
//! - `resizing`: changes the size of a volume.
//! - `front`: the volume as a [`Device`].
//!
//! # Invariants
//! - What a flush has acknowledged survives. What is recovered is the state after some write, and not before the last flush.
//! - A segment that the last durable checkpoint needs is never written to: it is reused only after a later checkpoint is durable.
//! - Records that hold writes of the host are written in groups with one commit, so that several logs are as one.
//! - After a failed write or flush nothing is acknowledged any more.
//! - While more segments are free than the low mark, no write waits for more than the packing of one segment.

mod acknowledging;
mod checkpointing;
mod flushing;
mod front;
mod packing;
mod reading;
mod resizing;
mod writing;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Buffer, Completion, Device, Request};

use crate::counters::VolumeCounters;
use crate::device_io::DeviceIo;
use crate::error::RepairError;
use crate::format::VolumeUuid;
use crate::format::checkpoint::{Change, CheckpointName, LOGS_MAX};
use crate::format::page_checksum::PageChecksums;
use crate::format::superblock::Superblock;
use crate::header_cache::HeaderCache;
use crate::known_checksums::KnownChecksums;
use crate::layout::{LayoutOptions, VolumeLayout};
use crate::map::{Location, PageMap};
use crate::open_record::OpenRecord;
use crate::placer::{Placer, Watermarks};
use crate::policy::Policy;
use crate::recovery::{Recovered, recover};
use crate::ring::Ring;
use crate::seeded_bug::SeededBug;
use crate::segment_table::{SegmentId, SegmentTable, Slot};
use crate::superblock_io::{clear_end, read_superblock, write_superblock};

pub(crate) use flushing::FlushInFlight;
pub(crate) use reading::{PlannedRead, ReadStep};

/// How a volume is opened.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// The most memory that the map may take.
    pub memory_max: Option<Bytes>,
    /// The most bytes a second of free segments that are discarded on the device; zero: none are.
    pub discard_rate: Bytes,
    pub(crate) bug: Option<SeededBug>,
}

#[cfg(any(test, feature = "canary"))]
impl MountOptions {
    /// With a bug, which the crash harness has to find.
    pub fn with_seeded_bug(self, bug: Option<SeededBug>) -> MountOptions {
        MountOptions { bug, ..self }
    }
}

impl MountOptions {
    /// The default for the volume at this path. In a file nothing is discarded: a discard makes a hole, the next write there allocates it
    /// anew, and each flush of such a write writes the file system's metadata, too (2,900 flushed writes a second in place of 4,800,
    /// docs/repair.md).
    pub fn for_path(path: &Path) -> MountOptions {
        let default = MountOptions::default();
        if path.is_file() { MountOptions { discard_rate: Bytes::ZERO, ..default } } else { default }
    }
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions { memory_max: None, discard_rate: Bytes::mib(256), bug: None }
    }
}

/// A volume that is open.
pub struct Volume<D> {
    io: DeviceIo<D>,
    superblock: Superblock,
    /// Where every checksum begins.
    seed: u32,
    checksums: PageChecksums,
    map: PageMap,
    placer: Placer,
    /// The record that each log fills.
    open: Vec<Option<OpenRecord>>,
    headers: HeaderCache,
    /// Pages that are read without a header.
    known: KnownChecksums,
    /// The last record that was written.
    sequence: u64,
    /// The last record with writes of the host.
    host_sequence: u64,
    /// The last record that is durable.
    durable: u64,
    since_checkpoint: SinceCheckpoint,
    /// The last checkpoint, which is durable.
    checkpoint_name: CheckpointName,
    ring: Ring,
    image: Option<ImageInProgress>,
    packing: Option<PackingProgress>,
    /// Packed segments, free after the next checkpoint.
    packed: Vec<SegmentId>,
    /// Positions that packing is behind what the host wrote.
    packing_backlog: f64,
    /// Positions that may be packed while the volume is idle, until the host writes more.
    idle_allowance: f64,
    /// Positions that the host's pages and their records took since packing was last paced.
    written_positions: u32,
    /// The share of the last victim's positions that were live when its packing began.
    victim_live_share: f64,
    discards: DiscardBacklog,
    counters: VolumeCounters,
    /// Segments whose live pages packing could not read; they are not reused while the volume is open.
    damaged_segments: u32,
    scratch: Buffer,
    header_scratch: Buffer,
    answered: VecDeque<Completion>,
    /// Flushes that were submitted and not answered, with the time.
    flushes: Vec<(Request, Nanos)>,
    /// The write that was acknowledged and failed.
    lost: Option<LostWrite>,
    /// A flush of the device by another handle.
    flushing: Option<Arc<FlushInFlight>>,
    replayed: u64,
    bug: Option<SeededBug>,
}

/// What the next checkpoint has to hold.
#[derive(Default)]
struct SinceCheckpoint {
    changes: Vec<Change>,
    segments: BTreeSet<SegmentId>,
    written: u64,
    /// Segments that may be opened before it, and how many were opened when it was written.
    queue: u64,
    opened_count: u64,
}

/// An image of the map that is being written.
struct ImageInProgress {
    number: u64,
    next_chunk: u64,
    /// Of the chunks that were written.
    digest: u32,
    first_checkpoint: u64,
    first_position: u64,
}

/// A segment that is being packed.
struct PackingProgress {
    segment: SegmentId,
    /// The position in it of the next record.
    next: u32,
}

/// A write that was acknowledged and failed: the bytes of the volume from `start` to `end`.
struct LostWrite {
    start: u64,
    end: u64,
    error: RepairError,
}

/// Free segments that the device does not know to be free.
struct DiscardBacklog {
    /// With the checkpoint that freed each of them.
    segments: VecDeque<(SegmentId, u64)>,
    rate: Bytes,
    next: Nanos,
}

impl<D: Device> Volume<D> {
    /// Makes a volume: writes its superblocks. What the device held is lost.
    ///
    /// # Errors
    /// When the geometry is impossible on this device, or it fails.
    pub fn create(device: D, uuid: VolumeUuid, options: LayoutOptions) -> Result<VolumeLayout, RepairError> {
        let layout = VolumeLayout::new(options)?;
        let has = device.geometry().capacity;
        if has < options.capacity {
            return Err(RepairError::Truncated { volume: options.capacity, device: has });
        }
        let mut io = DeviceIo::new(device, Bytes::ZERO, 0);
        clear_end(&mut io, options.capacity)?;
        let mut superblock = Superblock {
            uuid,
            update: 0,
            epoch: 0,
            is_clean: true,
            layout: layout.clone(),
            image: 0,
            first_checkpoint: 1,
            first_position: 0,
            checkpoint: Some(CheckpointName::default()),
            image_digest: None,
        };
        // Both pairs, so that no superblock of an earlier volume is left.
        for update in 0..2 {
            superblock.update = update;
            write_superblock(&mut io, &superblock)?;
        }
        Ok(layout)
    }

    /// Opens a volume and recovers it.
    ///
    /// # Errors
    /// See [`RepairError`].
    pub fn open(
        device: D,
        options: MountOptions,
        policy: impl FnOnce(&VolumeLayout) -> Box<dyn Policy>,
    ) -> Result<Volume<D>, RepairError> {
        let mut first = DeviceIo::new(device, Bytes::ZERO, 0);
        let superblock = read_superblock(&mut first)?;
        let layout = &superblock.layout;
        if let Some(limit) = options.memory_max.filter(|limit| *limit < layout.memory()) {
            return Err(RepairError::Memory { needed: layout.memory(), limit });
        }
        let policy = policy(layout);
        let logs = usize::from(policy.log_count());
        let watermarks = layout.watermarks(policy.log_count())?;
        let record = Bytes(u64::from(layout.record_pages_max + 1) * layout.options.page.0);
        let mut io = DeviceIo::new(first.into_device(), record, logs);
        let recovered = recover(&mut io, superblock, options.bug)?;
        Volume::continued(io, recovered, options, policy, watermarks)
    }

    fn continued(
        io: DeviceIo<D>,
        recovered: Recovered,
        options: MountOptions,
        policy: Box<dyn Policy>,
        watermarks: Watermarks,
    ) -> Result<Volume<D>, RepairError> {
        let logs = policy.log_count();
        let mut superblock = recovered.superblock;
        let positions = superblock.layout.pages_per_segment();
        let known = KnownChecksums::new(superblock.layout.segment_count, positions);
        let mut table = SegmentTable::restore(recovered.segments, positions, logs);
        // More than any segment that the life before may have opened: the number of a segment's use is never given twice.
        let opened_count = recovered.opened_count + recovered.checkpoint.queue.len() as u64 + LOGS_MAX as u64;
        table.opened_at_least(opened_count);
        if !SeededBug::is(options.bug, SeededBug::EpochStays) {
            superblock.epoch = superblock.epoch.max(recovered.checkpoint.epoch) + 1;
        }
        superblock.is_clean = false;
        let mut volume = Volume {
            io,
            seed: superblock.uuid.seed(),
            checksums: PageChecksums::new(superblock.uuid.seed(), superblock.layout.options.page),
            superblock,
            map: recovered.map,
            placer: Placer::recovered(table, policy, watermarks, recovered.now),
            open: (0..logs).map(|_| None).collect(),
            headers: HeaderCache::new(),
            known,
            sequence: recovered.sequence,
            host_sequence: recovered.sequence,
            durable: recovered.sequence,
            since_checkpoint: SinceCheckpoint {
                changes: recovered.changes,
                segments: recovered.touched.into_iter().collect(),
                ..SinceCheckpoint::default()
            },
            checkpoint_name: recovered.checkpoint.name(),
            ring: recovered.ring,
            image: None,
            packing: None,
            packed: Vec::new(),
            packing_backlog: 0.0,
            idle_allowance: 0.0,
            written_positions: 0,
            victim_live_share: 0.5,
            discards: DiscardBacklog {
                segments: VecDeque::new(),
                rate: options.discard_rate,
                next: Nanos::ZERO,
            },
            counters: VolumeCounters::from_array(recovered.checkpoint.counters),
            damaged_segments: 0,
            scratch: Buffer::empty(),
            header_scratch: Buffer::empty(),
            answered: VecDeque::new(),
            flushes: Vec::new(),
            lost: None,
            flushing: None,
            replayed: recovered.replayed,
            bug: options.bug,
        };
        // The superblock names a checkpoint of this mount before the first record of this mount is written.
        volume.write_checkpoint()?;
        volume.update_superblock()?;
        volume.allow_idle_packing_for_missing_segments();
        Ok(volume)
    }

    /// Closes the volume in order: everything is durable, and the next mount has nothing to recover.
    ///
    /// # Errors
    /// When the device fails, or did before.
    pub fn close(mut self) -> Result<D, RepairError> {
        self.finish()?;
        Ok(self.io.into_device())
    }

    /// As [`Volume::close`], for whoever cannot give the volume away. Reads still work.
    ///
    /// # Errors
    /// As [`Volume::close`].
    pub fn finish(&mut self) -> Result<(), RepairError> {
        self.write_checkpoint()?;
        self.superblock.is_clean = true;
        self.update_superblock()?;
        self.io.fail(RepairError::Closed);
        Ok(())
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&mut self) -> bool {
        self.idle_step() || self.discard_step()
    }

    /// The device beneath. Whatever is not flushed is lost, as when the power fails.
    pub fn abandon(self) -> D {
        self.io.into_device()
    }

    /// The bytes that the volume offers.
    pub fn size(&self) -> Bytes {
        Bytes(self.map.pages() * self.page_size() as u64)
    }

    /// Where everything lies.
    pub fn layout(&self) -> &VolumeLayout {
        &self.superblock.layout
    }

    /// Handles on the device for other threads. Empty: it has none, or cannot open them.
    pub(crate) fn lanes(&mut self, count: u32) -> Vec<Box<dyn Device + Send>> {
        let parallel = self.io.device_mut().parallel();
        parallel.and_then(|parallel| parallel.lanes(count).ok()).unwrap_or_default()
    }

    /// The device beneath.
    pub fn device(&self) -> &D {
        self.io.device()
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The books of segments and logs.
    pub fn placer(&self) -> &Placer {
        &self.placer
    }

    /// What the volume did over its life.
    pub fn counters(&self) -> VolumeCounters {
        self.counters
    }

    /// Pages that hold data.
    pub fn mapped_pages(&self) -> u64 {
        self.map.mapped()
    }

    /// Whether a page holds data.
    pub(crate) fn is_written(&self, page: u64) -> bool {
        self.map.get(page).is_some()
    }

    /// Records that the mount replayed.
    pub fn replayed_records(&self) -> u64 {
        self.replayed
    }

    /// Free segments that are still to be discarded on the device.
    pub fn discard_backlog(&self) -> Bytes {
        Bytes(self.discards.segments.len() as u64 * self.layout().options.segment.0)
    }

    /// Segments that cannot be reclaimed, because packing could not read a live page.
    pub fn damaged_segments(&self) -> u32 {
        self.damaged_segments
    }

    /// Why nothing is written any more. `None`: it is.
    pub fn poison(&self) -> Option<&RepairError> {
        self.io.failure()
    }

    /// Nothing is written any more: a thread failed while it used the volume, and what it left half done is not to become durable.
    pub(crate) fn distrust(&mut self) {
        self.io.fail(RepairError::Panicked);
    }

    fn page_size(&self) -> usize {
        self.superblock.layout.options.page.0 as usize
    }

    fn slot(&self, location: Location) -> Slot {
        let positions = self.superblock.layout.pages_per_segment();
        Slot { segment: SegmentId(location.position / positions), page: location.position % positions }
    }

    #[inline]
    pub(crate) fn has_bug(&self, bug: SeededBug) -> bool {
        SeededBug::is(self.bug, bug)
    }

    /// Fails if an earlier write failed.
    fn check_poison(&self) -> Result<(), RepairError> {
        match self.poison() {
            Some(error) => Err(RepairError::Poisoned(error.to_string())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
