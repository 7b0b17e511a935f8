//! What the flash of a device did, between two readings of its counters.

use flashlab_device::Device;

/// Counters of the flash since the device was made, or their difference. `None`: the device does not count it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MediaCounters {
    /// Bytes programmed.
    pub programmed: Option<u64>,
    /// The size of the blocks that were erased.
    pub erased: Option<u64>,
}

impl MediaCounters {
    /// Reads the counters.
    pub fn of(device: &mut dyn Device) -> MediaCounters {
        let Some(telemetry) = device.telemetry() else { return MediaCounters::default() };
        MediaCounters {
            programmed: telemetry.programmed().map(|bytes| bytes.0),
            erased: telemetry.erased().map(|bytes| bytes.0),
        }
    }

    /// What happened since an earlier reading.
    pub fn since(self, earlier: MediaCounters) -> MediaCounters {
        let since = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).map(|(now, before)| now.saturating_sub(before))
        };
        MediaCounters {
            programmed: since(self.programmed, earlier.programmed),
            erased: since(self.erased, earlier.erased),
        }
    }
}
