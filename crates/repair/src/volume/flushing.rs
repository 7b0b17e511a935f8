//! Flushes: everything acknowledged before is durable when they succeed.

use flashlab_device::Device;

use super::Volume;
use crate::error::RepairError;
use crate::seeded_bug::SeededBug;

impl<D: Device> Volume<D> {
    /// Makes all writes and discards so far durable. If nothing was written since the last flush, the device is not asked.
    ///
    /// # Errors
    /// When the device fails. The volume is poisoned then: what is durable is not known, and every later write and flush
    /// fails.
    pub fn flush(&mut self) -> Result<(), RepairError> {
        self.check_poison()?;
        self.counters.flushes += 1;
        let open = self.open.iter().flatten().filter(|record| record.has_host);
        self.counters.flush_header_pages += open.count() as u64;
        self.write_group()?;
        if self.host_sequence <= self.durable {
            self.counters.shared_flushes += 1;
            return Ok(());
        }
        self.flush_device()?;
        self.after_host_io()
    }

    /// Flushes the device: all records that were written are durable.
    pub(super) fn flush_device(&mut self) -> Result<(), RepairError> {
        if self.has_bug(SeededBug::FlushDoesNothing) {
            self.durable = self.sequence;
            return Ok(());
        }
        let flushed = self.io.flush();
        self.or_poison(flushed)?;
        self.durable = self.sequence;
        Ok(())
    }
}
