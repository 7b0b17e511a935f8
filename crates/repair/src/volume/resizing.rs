//! Resizing: the volume offers more or fewer pages, and uses what its device has grown by.
//!
//! # Method
//! 1. A checkpoint makes everything durable; a second one, which has no changes, is what the next image begins with.
//! 2. The map and the table of segments take their new size in memory.
//! 3. The whole map is written to the image that is not in use.
//! 4. A superblock names the new sizes and that image, in one write: the volume has the old size before it and the new one
//!    behind it.

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::Volume;
use crate::error::RepairError;
use crate::layout::{LayoutOptions, VolumeLayout};

impl<D: Device> Volume<D> {
    /// Changes the size, rounded down to whole pages, and closes the volume: reads still work. If the device is larger than
    /// before, its new part becomes free segments.
    ///
    /// # Errors
    /// [`RepairError::Options`]: the slack or the device does not allow it, or pages behind the new end hold data; the volume
    /// stays open as it was. When the device fails, the volume has the old size or the new one at the next mount.
    pub fn resize(&mut self, size: Bytes) -> Result<(), RepairError> {
        self.check_poison()?;
        let layout = self.resized_layout(size)?;
        self.write_checkpoint()?;
        self.write_checkpoint()?;
        self.map.resize(layout.options.logical_pages);
        self.placer.grow(layout.segment_count);
        self.superblock.layout = layout;
        // One that was begun has the old size; its place is not in use.
        self.image = None;
        self.begin_image(self.checkpoint_name.number);
        self.write_chunks(u64::MAX)?;
        self.complete_image()?;
        self.finish()
    }

    fn resized_layout(&self, size: Bytes) -> Result<VolumeLayout, RepairError> {
        let now = self.layout();
        let capacity = self.io.device().geometry().capacity.max(now.options.capacity);
        let logical_pages = size.0 / now.options.page.0;
        let options = LayoutOptions { capacity, logical_pages, ..now.options };
        let layout = VolumeLayout::resized(options, now.made_on)?.never_full()?;
        layout.watermarks(self.placer.policy().log_count())?;
        let beyond = (logical_pages..self.map.pages()).filter(|&page| self.map.get(page).is_some()).count();
        if beyond > 0 {
            return Err(RepairError::Options(format!(
                "{} of data lie behind byte {}: shrink the file system first; what is not needed is discarded with \
                 --drop-beyond",
                Bytes(beyond as u64 * now.options.page.0),
                logical_pages * now.options.page.0
            )));
        }
        Ok(layout)
    }
}
