//! `[translation]`: checks that the flash of a profile is enough for its translation layer.

use flashlab_base::Bytes;

use super::flash::FlashSection;
use crate::flash::FlashGeometry;
use crate::illegal::Illegal;
use crate::layer::{FrontLayer, OptionsError, Surroundings, Translation};

/// The key to change if the flash is not enough for the capacity.
const OVER_PROVISIONING: &str = "flash.over_provisioning";
/// The search for the least over-provisioning goes up to 2^16 blocks more on each die.
const MOST_DOUBLINGS: u32 = 16;

/// Whether the layer can be built over the array; builds nothing.
pub(super) fn check(
    translation: &Translation,
    flash: &FlashSection,
    capacity: Bytes,
    surroundings: &Surroundings,
) -> Result<(), Illegal> {
    translation.check_profile(surroundings)?;
    fits(translation, flash, capacity).map_err(|illegal| {
        if illegal.key != OVER_PROVISIONING {
            return illegal;
        }
        let least = least_over_provisioning(translation, flash, capacity);
        illegal.at_least(least.map_or("more".to_owned(), |share| format!("at least {share}")))
    })
}

/// The options of the layer for the array that `flash` describes.
pub(crate) fn for_array(
    translation: &Translation,
    flash: &FlashSection,
    capacity: Bytes,
) -> Result<Translation, Illegal> {
    Ok(translation.for_array(flash.logical_pages(capacity)?, flash.reliability))
}

/// The layers over erased flash.
pub(crate) fn build(
    translation: &Translation,
    flash: &FlashSection,
    capacity: Bytes,
    geometry: &FlashGeometry,
) -> Result<FrontLayer, Illegal> {
    let layer = for_array(translation, flash, capacity)?
        .build(geometry)
        .map_err(|error| in_section(translation, flash, error))?;
    let cache = flash.slc_cache_options(geometry);
    FrontLayer::new(layer, cache.as_ref(), geometry).map_err(|error| {
        let size = flash.slc_cache.as_ref().map_or(Bytes::ZERO, |cache| cache.size);
        Illegal::new(
            "flash.slc_cache.size",
            size,
            format!("more: {} blocks are {}", error.value, error.legal),
        )
    })
}

/// Whether there is enough flash for the layer.
fn fits(translation: &Translation, flash: &FlashSection, capacity: Bytes) -> Result<(), Illegal> {
    let geometry = &flash.geometry(capacity, translation.extra_blocks())?;
    for_array(translation, flash, capacity)?
        .check(geometry)
        .map_err(|error| in_section(translation, flash, error))
}

/// The least `over_provisioning` with which the layer has enough flash; `None` when something else is wrong.
fn least_over_provisioning(translation: &Translation, flash: &FlashSection, capacity: Bytes) -> Option<f64> {
    let blocks_of_all_dies = flash.page.0 as f64 * f64::from(flash.block_pages()) * f64::from(flash.dies);
    // The share with `blocks` more blocks on each die, rounded up to four decimals.
    let share = |blocks: u32| {
        let more = flash.over_provisioning + f64::from(blocks) * blocks_of_all_dies / capacity.0 as f64;
        (more * 1e4).ceil() / 1e4
    };
    let is_enough = |blocks: u32| {
        let over_provisioning = share(blocks);
        let more = FlashSection { over_provisioning, ..flash.clone() };
        over_provisioning <= 100.0 && fits(translation, &more, capacity).is_ok()
    };
    let mut enough = (0..=MOST_DOUBLINGS).map(|power| 1 << power).find(|&blocks| is_enough(blocks))?;
    let mut short = enough / 2;
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        *(if is_enough(middle) { &mut enough } else { &mut short }) = middle;
    }
    Some(share(enough))
}

/// What is wrong with a layer's option, as a key of the profile.
fn in_section(translation: &Translation, flash: &FlashSection, error: OptionsError) -> Illegal {
    match error.key {
        // A profile does not have this key: its capacity is too much for its flash.
        "logical_pages" => {
            let legal = format!("the capacity has {} pages, and there may be {}", error.value, error.legal);
            Illegal::number(OVER_PROVISIONING, flash.over_provisioning, legal)
        }
        key => Illegal::new(format!("translation.{}.{key}", translation.section()), error.value, error.legal),
    }
}
