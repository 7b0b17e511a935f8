//! The state of a flash device as bytes: mapping, wear, buffers, but no times.
//!
//! # Format
//! `FLASHSIM`, then little-endian: the format's version (u32), the profile's fingerprint (u64), the payload's
//! length (u64) and CRC-32 (u32), then the payload in the postcard encoding: which state it is and how that is known, if it was
//! made by conditioning, and the state itself. A saved device has served all its requests, and is idle.
//!
//! # Invariants
//! - bytes that are no state of this profile and version are an error and never a panic.

use flashlab_base::SavedState;
use serde::{Deserialize, Serialize};

use super::FlashDevice;
use super::controller::Controller;
use crate::flash::FlashState;
use crate::layer::{FrontLayer, Layer};
use crate::noise::NoiseSource;
use crate::profile::{Profile, translation};

const MAGIC: &[u8; 8] = b"FLASHSIM";
/// The version of the format.
const VERSION: u32 = 7;
const HEADER: usize = 8 + 4 + 8 + 8 + 4;

#[derive(Serialize)]
struct StateToSave<'a> {
    described: Option<&'a SavedState>,
    controller: &'a Controller,
    layer: &'a FrontLayer,
    flash: FlashState,
    noise: &'a NoiseSource,
}

#[derive(Deserialize)]
struct StateFile {
    described: Option<SavedState>,
    controller: Controller,
    layer: FrontLayer,
    flash: FlashState,
    noise: NoiseSource,
}

impl FlashDevice {
    /// The state as bytes. Nothing may be in flight.
    ///
    /// # Panics
    /// When something is.
    pub fn save(&self) -> Vec<u8> {
        self.save_described(None)
    }

    /// The state as bytes, with what a measurement in it should say of it.
    ///
    /// # Panics
    /// When something is in flight.
    pub fn save_described(&self, described: Option<&SavedState>) -> Vec<u8> {
        assert!(self.queue.is_empty(), "a device was saved with requests in flight");
        let mut controller = self.controller.clone();
        controller.restart();
        let saved = StateToSave {
            described,
            controller: &controller,
            layer: &self.layer,
            flash: self.flash.state(),
            noise: &self.noise,
        };
        let bytes = vec![0; HEADER];
        let mut bytes = postcard::to_extend(&saved, bytes).expect("a state is made of numbers and lists");
        let (header, payload) = bytes.split_at_mut(HEADER);
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..20].copy_from_slice(&self.fingerprint.to_le_bytes());
        header[20..28].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[28..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        bytes
    }

    /// The device that `profile` describes, in a saved state, at time zero.
    ///
    /// # Errors
    /// When the bytes are damaged, of another version, or of another profile.
    pub fn restore(profile: &Profile, bytes: &[u8]) -> Result<FlashDevice, StateError> {
        let payload = payload(bytes, profile.fingerprint())?;
        let saved: StateFile = postcard::from_bytes(payload).map_err(|_| StateError::Damaged)?;
        let StateFile { described, mut controller, layer, flash, noise } = saved;
        let mut device =
            FlashDevice::with_layer(profile, |_, _| Ok(layer)).map_err(|_| StateError::OtherProfile)?;
        let wrong = |what: &str| StateError::Inconsistent(what.to_owned());
        if !device.flash.set_state(flash) {
            return Err(wrong("the array of flash is another one, or its counts do not agree"));
        }
        device.complete_layer(profile)?;
        if !controller.complete(&device.controller, device.layer.pages()) {
            return Err(wrong("the controller's buffers are others, or hold pages that do not exist"));
        }
        if !noise.is_like(&device.noise) {
            return Err(wrong("the noise is another one"));
        }
        (device.controller, device.noise) = (controller, noise);
        device.identity.saved_state = described;
        Ok(device)
    }

    /// Checks the saved layers against the profile and the flash.
    fn complete_layer(&mut self, profile: &Profile) -> Result<(), StateError> {
        let section = profile.flash.clone().unwrap_or_default();
        let options = translation::for_array(&profile.translation, &section, profile.capacity)
            .map_err(|_| StateError::OtherProfile)?;
        let cache = section.slc_cache_options(self.flash.geometry());
        self.layer.complete(&options, cache.as_ref(), &self.flash).map_err(StateError::Inconsistent)
    }

    /// The device that `profile` describes, in this device's state, at rest and at time zero. The profile may have other times,
    /// because no state depends on them. `None` where its structure is another one. Nothing may be in flight.
    pub fn with_times_of(&self, profile: &Profile) -> Option<FlashDevice> {
        let layer = self.layer.clone();
        let mut device = FlashDevice::with_layer(profile, |_, _| Ok(layer)).ok()?;
        let mut controller = self.controller.clone();
        let fits = device.flash.set_state(self.flash.state())
            && device.complete_layer(profile).is_ok()
            && controller.complete(&device.controller, device.layer.pages());
        fits.then(|| {
            device.controller = controller;
            device
        })
    }
}

fn payload(bytes: &[u8], fingerprint: u64) -> Result<&[u8], StateError> {
    let field = |from: usize, length: usize| bytes.get(from..from + length).ok_or(StateError::NoState);
    if field(0, 8)? != MAGIC {
        return Err(StateError::NoState);
    }
    let version = u32::from_le_bytes(field(8, 4)?.try_into().expect("four bytes"));
    if version != VERSION {
        return Err(StateError::Version(version));
    }
    let number =
        |from| field(from, 8).map(|eight| u64::from_le_bytes(eight.try_into().expect("eight bytes")));
    if number(12)? != fingerprint {
        return Err(StateError::OtherProfile);
    }
    let checksum = u32::from_le_bytes(field(28, 4)?.try_into().expect("four bytes"));
    let payload = &bytes[HEADER..];
    if number(20)? != payload.len() as u64 || crc32fast::hash(payload) != checksum {
        return Err(StateError::Damaged);
    }
    Ok(payload)
}

/// Why bytes are no state of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// They do not begin as a state does.
    #[error("this is no state of a simulated device")]
    NoState,
    /// They were written in another version of the format.
    #[error(
        "the state has version {0} of the format, and this program reads {VERSION}: save it again with `flashlab sim precondition`"
    )]
    Version(u32),
    /// They belong to another profile, or to one that was changed since.
    #[error("the state belongs to another profile, or the profile was changed since it was saved")]
    OtherProfile,
    /// They were changed or cut off.
    #[error("the state is damaged: its checksum or its contents do not agree")]
    Damaged,
    /// What they say cannot be all true: this is not.
    #[error("the state contradicts itself: {0}")]
    Inconsistent(String),
}
