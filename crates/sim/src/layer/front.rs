//! The layers of a device: a translation layer, with an SLC cache in front of it or without.

use flashlab_base::Nanos;
use flashlab_device::IoError;
use serde::{Deserialize, Serialize};

use super::contract::{Exhausted, Layer, Pages};
use super::options::OptionsError;
use super::registry::dispatch_layer;
use super::slc_cache::{SlcCache, SlcCacheOptions};
use super::{AnyLayer, Translation};
use crate::flash::{Flash, FlashGeometry, LogicalPage, Timing};

/// A translation layer, with an SLC cache in front of it or without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum FrontLayer {
    Plain(AnyLayer),
    Cached(SlcCache<AnyLayer>),
}

impl FrontLayer {
    /// `layer` over erased flash, behind a cache if `cache` is given.
    pub(crate) fn new(
        layer: AnyLayer,
        cache: Option<&SlcCacheOptions>,
        geometry: &FlashGeometry,
    ) -> Result<FrontLayer, OptionsError> {
        match cache {
            None => Ok(FrontLayer::Plain(layer)),
            Some(options) => SlcCache::new(geometry, layer, options).map(FrontLayer::Cached),
        }
    }

    /// Checks layers that were read from outside bytes against their options and `flash`, and restores what a saved state
    /// does not have.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub(crate) fn complete<T: Timing>(
        &mut self,
        translation: &Translation,
        cache: Option<&SlcCacheOptions>,
        flash: &Flash<T>,
    ) -> Result<(), String> {
        match (self, cache) {
            (FrontLayer::Plain(layer), None) => translation.complete(layer, flash),
            (FrontLayer::Cached(region), Some(options)) => {
                region.complete(options, flash, |layer| translation.complete(layer, flash))
            }
            _ => Err("one has an SLC cache and the other has none".to_owned()),
        }
    }
}

dispatch_layer!(FrontLayer: Plain, Cached);
