//! A device with every capability, for tests of wrappers.

use std::io;

use flashlab_base::{Bytes, Operation};

use crate::device::{Conditioning, Device, DisturbanceCounters, Health, Parallel, Telemetry, VirtualTime};
use crate::io::IoError;
use crate::memory::MemoryDevice;

/// A [`MemoryDevice`] with every capability. Each answers with a constant that a test recognises.
pub struct CompleteDevice {
    memory: MemoryDevice,
}

impl CompleteDevice {
    /// What [`Health::loss`] returns.
    pub const LOSS: &str = "was removed";
    /// What [`Health::refusal`] returns.
    pub const REFUSAL: &str = "is worn out";
    /// What [`Telemetry::media_written`] returns.
    pub const MEDIA_WRITTEN: Bytes = Bytes(11);
    /// The traffic in [`Telemetry::disturbance`].
    pub const DEVICE_TRAFFIC: Bytes = Bytes(7);

    /// `memory` with every capability.
    pub fn new(memory: MemoryDevice) -> CompleteDevice {
        CompleteDevice { memory }
    }

    /// The names of the capabilities that `device` has, in the order of [`Device`]'s accessors.
    pub fn capabilities(device: &mut dyn Device) -> Vec<&'static str> {
        let all = [
            ("virtual_time", device.virtual_time().is_some()),
            ("conditioning", device.conditioning().is_some()),
            ("parallel", device.parallel().is_some()),
            ("health", device.health().is_some()),
            ("telemetry", device.telemetry().is_some()),
        ];
        all.into_iter().filter(|&(_, has)| has).map(|(name, _)| name).collect()
    }
}

impl crate::Wrapper for CompleteDevice {
    type Inner = MemoryDevice;

    fn inner(&self) -> &MemoryDevice {
        &self.memory
    }

    fn inner_mut(&mut self) -> &mut MemoryDevice {
        &mut self.memory
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        self.memory.virtual_time()
    }

    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        Some(self)
    }

    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        Some(self)
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        Some(self)
    }

    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        Some(self)
    }
}

impl Conditioning for CompleteDevice {
    fn condition(&mut self, ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>) -> Result<(), IoError> {
        let geometry = self.geometry();
        for (_, offset, size) in ios {
            geometry.check(offset, size)?;
        }
        Ok(())
    }
}

impl Parallel for CompleteDevice {
    fn lanes(&mut self, count: u32) -> io::Result<Vec<Box<dyn Device + Send>>> {
        let capacity = self.geometry().capacity;
        let lane = |_| {
            let memory = MemoryDevice::new(capacity, flashlab_base::Nanos(1));
            Box::new(memory) as Box<dyn Device + Send>
        };
        Ok((0..count).map(lane).collect())
    }
}

impl Health for CompleteDevice {
    fn loss(&mut self) -> Option<String> {
        Some(CompleteDevice::LOSS.to_owned())
    }

    fn refusal(&mut self) -> Option<String> {
        Some(CompleteDevice::REFUSAL.to_owned())
    }
}

impl Telemetry for CompleteDevice {
    fn media_written(&mut self) -> Option<Bytes> {
        Some(CompleteDevice::MEDIA_WRITTEN)
    }

    fn disturbance(&mut self) -> DisturbanceCounters {
        DisturbanceCounters {
            device_traffic: Some(CompleteDevice::DEVICE_TRAFFIC),
            ..DisturbanceCounters::default()
        }
    }
}
