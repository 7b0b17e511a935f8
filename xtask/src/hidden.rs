//! A wrapper that shows only the capacity, block, depth, clock and completions of a device.

use flashlab_base::{Bytes, Identity};
use flashlab_device::{
    Conditioning, DataHandling, Device, Geometry, Health, Operation, Parallel, Request, Telemetry,
    VirtualTime,
};

/// A wrapper that hides a device's identity and all of its capabilities.
pub struct Hidden<D> {
    device: D,
    /// How much was written to the device.
    written: Bytes,
    /// How the device handles data; any disk may claim that data affects its response times.
    data: DataHandling,
}

impl<D: Device> Hidden<D> {
    /// Hides a device, but not whether data affects its response times. That saves generating data without an
    /// effect.
    pub fn new(device: D) -> Hidden<D> {
        let used = device.geometry().data.is_used();
        let data = if used { DataHandling::AffectsTiming } else { DataHandling::Ignored };
        Hidden { device, written: Bytes::ZERO, data }
    }

    /// How much was written to the device.
    pub fn written(&self) -> Bytes {
        self.written
    }

    /// Hides that as well.
    #[cfg(test)]
    pub fn completely(device: D) -> Hidden<D> {
        Hidden { device, written: Bytes::ZERO, data: DataHandling::AffectsTiming }
    }
}

impl<D: Device> flashlab_device::Wrapper for Hidden<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.device
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.device
    }

    fn geometry(&self) -> Geometry {
        Geometry { data: self.data, ..self.device.geometry() }
    }

    fn identity(&self) -> Identity {
        let capacity = self.device.geometry().capacity;
        Identity { target: "hidden".to_owned(), kind: "hidden".to_owned(), capacity, ..Identity::default() }
    }

    fn submit(&mut self, request: Request) {
        if request.operation == Operation::Write {
            self.written += request.size;
        }
        self.device.submit(request);
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        None
    }

    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        None
    }

    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        None
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        None
    }

    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use flashlab_analysis::inference::Finding;
    use flashlab_base::{Nanos, Seed};
    use flashlab_device::{CompleteDevice, MemoryDevice};
    use flashlab_infer::{InferenceSettings, infer, nothing_known};

    use super::*;
    use crate::population;

    fn findings(device: &mut dyn Device) -> Vec<Finding> {
        let settings = InferenceSettings {
            seed: Seed(7),
            write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
            reading_time: Some(Nanos::from_secs(60)),
            writing_time: Nanos::from_secs(3600),
            interrupt: &AtomicBool::new(false),
        };
        let mut known = nothing_known(device, "hidden");
        infer(device, &settings, &mut known, &mut ());
        known.document.findings
    }

    #[test]
    fn no_capability_and_no_name_is_seen() {
        let memory = MemoryDevice::new(Bytes::kib(64), Nanos(100));
        let mut device = Hidden::new(CompleteDevice::new(memory));
        assert!(CompleteDevice::capabilities(&mut device).is_empty());
        assert_eq!(device.identity().target, "hidden");
        let Geometry { capacity, data, .. } = device.geometry();
        assert_eq!((capacity, data), (Bytes::kib(64), DataHandling::AffectsTiming));
    }

    #[test]
    fn answers_come_from_completions_alone() {
        for seed in 0..5 {
            let profile = population::profile(seed);
            let open = findings(&mut profile.device().unwrap());
            let hidden = findings(&mut Hidden::completely(profile.device().unwrap()));
            assert!(!open.is_empty());
            assert_eq!(open, hidden, "seed {seed}");
        }
    }
}
