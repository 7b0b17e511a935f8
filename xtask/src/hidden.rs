//! A device of which nothing is left but its size, its smallest IO, its depth, its clock and its completions.

use flashlab_base::{Bytes, Identity, Nanos};
use flashlab_device::{Completion, Device, Geometry, Operation, Request};

/// Hides what a device says of itself: it has no name, keeps no state, and cannot be conditioned or foreseen.
pub struct Hidden<D> {
    device: D,
    /// What was written to it.
    written: Bytes,
    /// Whether it claims that content makes a difference, which any disk may.
    sees_content: bool,
}

impl<D: Device> Hidden<D> {
    /// Hides a device that says by itself whether content makes a difference, so that content that makes none is not
    /// made.
    pub fn new(device: D) -> Hidden<D> {
        let sees_content = device.sees_content();
        Hidden { device, written: Bytes::ZERO, sees_content }
    }

    /// What was written to it.
    pub fn written(&self) -> Bytes {
        self.written
    }

    /// Hides that as well.
    #[cfg(test)]
    pub fn completely(device: D) -> Hidden<D> {
        Hidden { device, written: Bytes::ZERO, sees_content: true }
    }
}

impl<D: Device> Device for Hidden<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn identity(&self) -> Identity {
        Identity { target: "hidden".to_owned(), kind: "hidden".to_owned(), ..Identity::default() }
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn submit(&mut self, request: Request) {
        if request.operation == Operation::Write {
            self.written += request.size;
        }
        self.device.submit(request);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.device.wait(until)
    }

    fn keeps_data(&self) -> bool {
        false
    }

    fn sees_content(&self) -> bool {
        self.sees_content
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use flashlab_analysis::inference::Finding;
    use flashlab_base::{Nanos, Seed};
    use flashlab_infer::{Settings, infer, nothing_known};

    use super::*;
    use crate::population;

    fn findings(device: &mut dyn Device) -> Vec<Finding> {
        let settings = Settings {
            seed: Seed(7),
            write_budget: Some(Settings::usual_budget(device.geometry().capacity)),
            reading_time: Some(Nanos::from_secs(60)),
            writing_time: Nanos::from_secs(3600),
            interrupt: &AtomicBool::new(false),
        };
        let mut known = nothing_known(device, "hidden");
        infer(device, &settings, &mut known, &mut ());
        known.findings
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
