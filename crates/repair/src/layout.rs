//! Where everything lies on the device. The layout follows from six numbers alone, and is computed by the same function
//! when a volume is made and when it is opened. The ring and the images have space for the map of every page of the device
//! that the volume was made on, so that they stay where they are when the volume is resized.
//!
//! ```text
//! superblocks | checkpoint ring | map image 0 | map image 1 | segments ... | superblocks
//! ```

use flashlab_base::Bytes;

use crate::error::RepairError;
use crate::format::checkpoint::LOGS_MAX;
use crate::format::{BLOCK, checkpoint, image, record};
use crate::placer::Watermarks;

/// Space at each end of the device for superblocks.
const ENDS: Bytes = Bytes::kib(128);
/// The largest checkpoint interval: it bounds the work of a mount after a crash.
pub(crate) const INTERVAL_MAX: Bytes = Bytes::mib(64);
/// The largest record: enough for sequential speed on every device of the zoo, and two of them fit into a CPU's cache.
const RECORD_MAX: Bytes = Bytes::mib(1);
/// A segment number and a page's position in it fit into 32 bits.
const POSITIONS_MAX: u64 = u32::MAX as u64;
/// Segments that packing needs: open ones and the reserve, for the policy with the most logs that a small volume can have, which has two.
const KEPT: u32 = 8;

/// What a layout follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutOptions {
    /// Bytes of the device that the volume takes.
    pub capacity: Bytes,
    /// The page: the unit of the map.
    pub page: Bytes,
    /// The segment: a multiple of the erase block.
    pub segment: Bytes,
    /// Pages that the volume offers.
    pub logical_pages: u64,
    /// At most this much is written between two checkpoints.
    pub checkpoint_interval: Bytes,
}

/// Where everything lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLayout {
    /// What it follows from.
    pub options: LayoutOptions,
    /// The device that the ring and the images have space for: the one that the volume was made on.
    pub made_on: Bytes,
    /// Where the ring of checkpoints begins.
    pub ring: Bytes,
    /// Its length.
    pub ring_length: Bytes,
    /// The longest checkpoint.
    pub checkpoint_max: Bytes,
    /// Where the two images of the map begin.
    pub images: [Bytes; 2],
    /// Where the segments begin.
    pub segments: Bytes,
    /// The number of segments.
    pub segment_count: u32,
    /// The most pages of a record, which has one more with its header.
    pub record_pages_max: u32,
}

impl VolumeLayout {
    /// The layout of a volume.
    ///
    /// # Errors
    /// [`RepairError::Options`]: what is impossible and what would be possible.
    pub fn new(options: LayoutOptions) -> Result<VolumeLayout, RepairError> {
        VolumeLayout::resized(options, options.capacity)?.never_full()
    }

    /// Itself, if packing by one log always frees something.
    pub(crate) fn never_full(self) -> Result<VolumeLayout, RepairError> {
        match self.suits(1) {
            true => Ok(self),
            false => Err(self.too_much_data(self.logical_pages_packed(1))),
        }
    }

    /// The layout of a volume that was made on a device of this capacity, or smaller than now.
    ///
    /// # Errors
    /// As [`VolumeLayout::new`].
    pub(crate) fn resized(options: LayoutOptions, made_on: Bytes) -> Result<VolumeLayout, RepairError> {
        let LayoutOptions { capacity, page, segment, logical_pages, checkpoint_interval } = options;
        let wrong = |text: String| Err(RepairError::Options(text));
        if !page.0.is_power_of_two() || !(Bytes::kib(4)..=Bytes::kib(64)).contains(&page) {
            return wrong(format!("the page is {} bytes: it has to be 4, 8, 16, 32 or 64 KiB", page.0));
        }
        if segment.0 < 4 * page.0 || !segment.is_multiple_of(page) || segment > INTERVAL_MAX {
            return wrong(format!(
                "the segment is {segment}: it has to be a multiple of the page, at least {} and at most {INTERVAL_MAX}",
                Bytes(4 * page.0)
            ));
        }
        if checkpoint_interval > INTERVAL_MAX || checkpoint_interval < segment {
            return wrong(format!(
                "the checkpoint interval is {checkpoint_interval}: it has to be at least a segment ({segment}) and at \
                 most {INTERVAL_MAX}"
            ));
        }
        if capacity.0 / page.0 > POSITIONS_MAX {
            return wrong(format!(
                "the device has {capacity}: with pages of {page} a volume takes at most {}; give larger pages",
                Bytes(POSITIONS_MAX * page.0)
            ));
        }
        let pages_per_segment = segment.0 / page.0;
        let record_pages_max =
            record::entries_max(page).min(RECORD_MAX.0 / page.0 - 1).min(pages_per_segment - 1);
        // The tables are sized for as many segments as the whole device has.
        if made_on > capacity {
            return wrong(format!("the volume was made on a device of {made_on}, and now has {capacity}"));
        }
        let segments_bound = made_on.0 / segment.0;
        let checkpoint_max = checkpoint::length_max(
            // The changes of all open records may come on top, once while a checkpoint becomes due and once in it.
            checkpoint_interval.0 / page.0 + 2 * LOGS_MAX as u64 * entries_max(record_pages_max, page),
            touched_segments_max(segments_bound, &options),
        );
        let image_length = image::length(segments_bound * pages_per_segment, segments_bound);
        let ring_length = Bytes(image_length.0.max(8 * checkpoint_max.0));
        let ring = ENDS;
        let images = [ring + ring_length, ring + ring_length + image_length];
        let segments = (images[1] + image_length).round_up(segment);
        let end = capacity.round_down(BLOCK).0.saturating_sub(ENDS.0);
        let segment_count = end.saturating_sub(segments.0) / segment.0;
        let layout = VolumeLayout {
            options,
            made_on,
            ring,
            ring_length,
            checkpoint_max,
            images,
            segments,
            segment_count: segment_count as u32,
            record_pages_max: record_pages_max as u32,
        };
        let possible = layout.logical_pages_max();
        if logical_pages == 0 || logical_pages > possible {
            return Err(layout.too_much_data(possible));
        }
        if image::length(logical_pages, segment_count) > image_length {
            return wrong(format!(
                "the map of {} of data on {capacity} needs more space than the volume has for it, because it was made on \
                 {made_on}: give a smaller size, or make a new volume",
                Bytes(logical_pages.saturating_mul(page.0))
            ));
        }
        Ok(layout)
    }

    /// The most pages that the volume could offer: packing needs free segments and slack.
    fn logical_pages_max(&self) -> u64 {
        /// Above this share of the segments, packing copies over 20 pages for each one that it frees.
        const FILL_MAX: f64 = 0.95;
        let per_segment = u64::from(self.data_pages_per_segment());
        let all = u64::from(self.segment_count) * per_segment;
        let kept = u64::from(self.segment_count.saturating_sub(KEPT)) * per_segment;
        kept.min((all as f64 * FILL_MAX) as u64)
    }

    fn too_much_data(&self, possible: u64) -> RepairError {
        let LayoutOptions { capacity, page, segment, logical_pages, .. } = self.options;
        RepairError::Options(format!(
            "{} of data do not fit: with {} segments of {segment} on {capacity} the volume can offer at most {}; give a \
             lower fill, {} or a larger device",
            Bytes(logical_pages.saturating_mul(page.0)),
            self.segment_count,
            Bytes(possible * page.0),
            if possible < self.logical_pages_max() { "segments of more pages" } else { "smaller segments" },
        ))
    }

    /// Whether a policy with this number of logs always finds something to pack. If not, the volume may become full while the host only
    /// overwrites.
    pub fn suits(&self, logs: u8) -> bool {
        self.options.logical_pages <= self.logical_pages_packed(logs)
    }

    /// The pages with which packing always frees something, by a policy with this number of logs. A checkpoint ends the record of each
    /// log behind each packed segment. So packing gains nothing from a segment that has one more header for each log: it is as full
    /// as its copies.
    fn logical_pages_packed(&self, logs: u8) -> u64 {
        let per_segment = self.data_pages_per_segment().saturating_sub(logs.into());
        // The free ones of the reserve, the open ones, and the one that is packed.
        let kept = KEPT.max(2 * u32::from(logs) + 2);
        u64::from(self.segment_count.saturating_sub(kept)) * u64::from(per_segment)
    }

    /// Segments that are not needed for the logical pages: the slack.
    pub fn spare_segments(&self) -> u32 {
        let needed = self.options.logical_pages.div_ceil(self.data_pages_per_segment().into());
        self.segment_count.saturating_sub(needed as u32)
    }

    /// The number of packed segments that wait for a checkpoint, which costs two flushes. They are slack that is not used: 1/32 of
    /// it at most. More of them would not make flushes noticeably rarer. None on a small volume, whose slack is more valuable.
    pub(crate) fn packed_batch(&self) -> u32 {
        (self.spare_segments() / 32).min(16)
    }

    /// The watermarks for a policy with this number of logs.
    ///
    /// # Errors
    /// [`RepairError::Options`]: the volume has too little slack for it.
    pub fn watermarks(&self, logs: u8) -> Result<Watermarks, RepairError> {
        let reserve = u32::from(logs) + 1;
        let spare = self.spare_segments();
        let low = reserve + 1 + self.packed_batch();
        let high = low + (spare / 8).clamp(1, 8);
        if usize::from(logs) > LOGS_MAX || spare < high + u32::from(logs) {
            return Err(RepairError::Options(format!(
                "a policy with {logs} logs needs {} segments of slack, and the volume has {spare}: take one with fewer logs",
                high + u32::from(logs)
            )));
        }
        Ok(Watermarks { reserve, low, high })
    }

    /// Positions in a segment: pages and record headers.
    pub fn pages_per_segment(&self) -> u32 {
        (self.options.segment.0 / self.options.page.0) as u32
    }

    /// Pages in a segment of full records.
    pub fn data_pages_per_segment(&self) -> u32 {
        let positions = self.pages_per_segment();
        positions - positions.div_ceil(self.record_pages_max + 1)
    }

    /// Where a position lies on the device.
    pub(crate) fn offset(&self, position: u32) -> u64 {
        self.segments.0 + u64::from(position) * self.options.page.0
    }

    /// The most segments whose entry a checkpoint may have to hold.
    pub(crate) fn touched_segments_max(&self) -> u64 {
        touched_segments_max(self.made_on.0 / self.options.segment.0, &self.options)
    }

    /// The most entries of a record: its pages, and discards.
    pub(crate) fn record_entries_max(&self) -> usize {
        entries_max(self.record_pages_max.into(), self.options.page) as usize
    }

    /// What the map and the table of segments take in memory.
    pub fn memory(&self) -> Bytes {
        const SEGMENT: u64 = 128;
        let page = (crate::map::BYTES_PER_PAGE as u64).saturating_mul(self.options.logical_pages);
        Bytes(page.saturating_add(SEGMENT * u64::from(self.segment_count)))
    }
}

/// Twice as many entries as pages leave space for discards, and bound what a checkpoint has to hold.
fn entries_max(record_pages_max: u64, page: Bytes) -> u64 {
    record::entries_max(page).min(2 * record_pages_max + 2)
}

/// A checkpoint is due before more segments than this were opened or sealed.
fn touched_segments_max(segments: u64, options: &LayoutOptions) -> u64 {
    (options.checkpoint_interval.0 / options.segment.0 + 4 * LOGS_MAX as u64).min(segments)
}
