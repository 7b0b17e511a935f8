//! Any simulated device.

use flashlab_base::{Identity, Nanos};
use flashlab_device::{Completion, Conditioning, Device, Geometry, Health, Request, Telemetry, VirtualTime};

use crate::disk::HardDisk;
use crate::flash_device::FlashDevice;
use crate::illegal::Illegal;
use crate::profile::{Profile, ProfileError};
use crate::response_tree::ResponseTreeDevice;
use crate::throughput::ThroughputDevice;

/// The device that a profile describes.
#[derive(Debug)]
pub enum SimulatedDevice {
    /// A throughput model alone.
    Throughput(Box<ThroughputDevice>),
    /// Response times that were measured.
    ResponseTree(Box<ResponseTreeDevice>),
    /// An array of flash with its controller.
    Flash(Box<FlashDevice>),
    /// A hard disk.
    Disk(Box<HardDisk>),
}

/// Calls a method of whichever device it is.
macro_rules! each {
    ($device:expr, $inner:ident => $call:expr) => {
        match $device {
            SimulatedDevice::Throughput($inner) => $call,
            SimulatedDevice::ResponseTree($inner) => $call,
            SimulatedDevice::Flash($inner) => $call,
            SimulatedDevice::Disk($inner) => $call,
        }
    };
}

impl Profile {
    /// Builds the device.
    ///
    /// # Errors
    /// When the profile's parts do not fit together.
    pub fn device(&self) -> Result<SimulatedDevice, ProfileError> {
        SimulatedDevice::new(self)
            .map_err(|illegal| ProfileError::value(&format!("sim:{}", self.name), illegal))
    }
}

impl SimulatedDevice {
    fn new(profile: &Profile) -> Result<SimulatedDevice, Illegal> {
        match (&profile.throughput, &profile.disk) {
            (Some(model), _) => Ok(match &profile.response_tree {
                Some(tree) => {
                    SimulatedDevice::ResponseTree(Box::new(ResponseTreeDevice::new(profile, *model, tree)))
                }
                None => SimulatedDevice::Throughput(Box::new(ThroughputDevice::new(profile, *model))),
            }),
            (None, Some(disk)) => Ok(SimulatedDevice::Disk(Box::new(HardDisk::new(profile, disk)))),
            (None, None) => FlashDevice::new(profile).map(|device| SimulatedDevice::Flash(Box::new(device))),
        }
    }
}

impl SimulatedDevice {
    /// The flash device, if it is one.
    pub fn as_flash(&self) -> Option<&FlashDevice> {
        match self {
            SimulatedDevice::Flash(device) => Some(device),
            _ => None,
        }
    }
}

impl Device for SimulatedDevice {
    fn geometry(&self) -> Geometry {
        each!(self, device => device.geometry())
    }

    fn identity(&self) -> Identity {
        each!(self, device => device.identity())
    }

    fn now(&mut self) -> Nanos {
        each!(self, device => device.now())
    }

    #[inline]
    fn submit(&mut self, request: Request) {
        each!(self, device => device.submit(request));
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        each!(self, device => device.wait(until))
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        each!(self, device => device.virtual_time())
    }

    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        each!(self, device => device.conditioning())
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        each!(self, device => device.health())
    }

    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        each!(self, device => device.telemetry())
    }
}
