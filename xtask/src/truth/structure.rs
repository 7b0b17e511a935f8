//! Truths that the profile contains.

use flashlab_analysis::inference::{Parameter, Value};
use flashlab_base::Bytes;
use flashlab_sim::flash_device::FlushPolicy;
use flashlab_sim::layer::{LayerStructure, Mapping};
use flashlab_sim::profile::{FlashSection, Profile};

use super::Truth;

const ONE_DIE: &str = "with one die there is no other to tell it from";
const ZONES: &str = "the host writes zones in order, so nothing is mapped";

/// The truth in the profile; `Unjudged` if the profile does not contain it.
pub fn truth(profile: &Profile, parameter: Parameter) -> Truth {
    let Some(flash) = &profile.flash else { return Truth::unjudged("it is no flash") };
    let device = Structure { profile, flash, layer: profile.translation.structure() };
    match parameter {
        // A read across a page boundary needs another sensing, die or channel. Every device shows that unless
        // its link hides the flash.
        Parameter::ReadPageSize => flash.page.into(),
        // One sensing reads the pages of a multi-plane page. The next multi-plane page needs another one, or
        // another die.
        Parameter::PlanesReadAtOnce => u64::from(flash.planes).into(),
        Parameter::RateLimit if profile.controller.limit.is_none() => "none".into(),
        Parameter::RateLimit => Truth::unjudged("a limit shows only where it saves time for bursts"),
        Parameter::SegmentGroups => device.groups().map_or(1.into(), |(counts, _)| counts),
        Parameter::SegmentGroupSpan => match device.groups() {
            Some((_, span)) => span.into(),
            None => Truth::NotIdentifiable("going anywhere costs the same"),
        },
        Parameter::ReadBufferSize => {
            profile.controller.read_buffer.map_or(Bytes::ZERO, |buffer| buffer.size).into()
        }
        Parameter::ReadAheadSize => {
            profile.controller.read_buffer.map_or(Bytes::ZERO, |buffer| buffer.read_ahead).into()
        }
        Parameter::ChunkSize if flash.dies == 1 => Truth::NotIdentifiable(ONE_DIE),
        Parameter::StripeSize if flash.dies == 1 => Truth::NotIdentifiable(ONE_DIE),
        Parameter::ChunkSize => device.chunk().into(),
        Parameter::StripeSize => (device.chunk() * u64::from(flash.dies)).into(),
        Parameter::ParallelUnits => u64::from(flash.dies).into(),
        // One die uses one channel. Dies that share a channel wait for each other's transfers.
        Parameter::Channels => u64::from(flash.channels).into(),
        // If the device's block is a page, smaller writes are impossible.
        Parameter::WritePageSize => flash.page.into(),
        Parameter::EraseBlockSize => device.unit().into(),
        Parameter::OpenBlocks => match device.layer.mapping {
            Mapping::OwnLogBlocks { logs, .. } | Mapping::SharedLogBlocks { logs } => u64::from(logs).into(),
            Mapping::Pages { .. } => Truth::NotIdentifiable("a page map writes everywhere at the same cost"),
            Mapping::Zones => Truth::unjudged(ZONES),
        },
        Parameter::MappingGranularity => match device.layer.mapping {
            Mapping::Pages { .. } => flash.page.into(),
            Mapping::OwnLogBlocks { .. } | Mapping::SharedLogBlocks { .. } => device.unit().into(),
            Mapping::Zones => Truth::unjudged(ZONES),
        },
        Parameter::TranslationFamily => device.family_word().map_or(Truth::unjudged(ZONES), Truth::from),
        Parameter::WriteBufferSize => device.write_buffer(),
        Parameter::WriteBufferFlush => match profile.controller.write_buffer.map(|buffer| buffer.flush) {
            None => Truth::NotIdentifiable("there is no write buffer"),
            Some(FlushPolicy::Immediately) => "immediately".into(),
            Some(FlushPolicy::WhenFull) => "when-full".into(),
        },
        Parameter::SlcCacheSize => device.slc_cache_size().into(),
        Parameter::SlcCacheRefill => match &flash.slc_cache {
            None => Truth::NotIdentifiable("there is no SLC cache"),
            // The cache is folded by whole blocks. When folding stops, some dies may have one block more than
            // others. The cache is full when the first die has no free block.
            Some(fast) => match fast.idle_reclaim {
                None => device.slc_cache_size().into(),
                Some(refill) => {
                    let (region, unit) = (device.slc_cache_size(), device.unit());
                    let [least, most] =
                        [refill.round_down(unit), refill.round_up(unit)].map(|size| size.min(region));
                    // The open block is never folded. If all others are free, the cache looks completely free
                    // from outside.
                    let all = (most + unit >= region).then_some(region);
                    let mut sizes: Vec<Bytes> = [least, most].into_iter().chain(all).collect();
                    sizes.dedup();
                    Truth::OneOf(sizes.into_iter().map(Value::from).collect())
                }
            },
        },
        _ => Truth::unjudged("it has to be measured"),
    }
}

/// The bytes between two slow sequential writes.
pub fn unit(profile: &Profile) -> Bytes {
    let layer = profile.translation.structure();
    profile.flash.as_ref().map_or(profile.block, |flash| Structure { profile, flash, layer }.unit())
}

/// A profile, with values that follow from it.
struct Structure<'a> {
    profile: &'a Profile,
    flash: &'a FlashSection,
    layer: LayerStructure,
}

impl Structure<'_> {
    /// Consecutive bytes on one die.
    fn chunk(&self) -> Bytes {
        self.flash.page * u64::from(self.layer.stripe_pages.unwrap_or(self.flash.planes))
    }

    /// A block of one die.
    fn block(&self) -> Bytes {
        self.flash.page * u64::from(self.flash.planes) * u64::from(self.flash.pages_per_block)
    }

    /// The blocks of all dies to which consecutive addresses are dealt. They fill together, and are merged or
    /// erased together.
    fn unit(&self) -> Bytes {
        self.block() * u64::from(self.flash.dies)
    }

    /// The number of segment groups that the addresses reach, and their span, if there is more than one
    /// group. If the addresses end within the first span of the second round, that part of a span is the same
    /// as a separate group.
    fn groups(&self) -> Option<(Truth, Bytes)> {
        let groups = self.profile.controller.segment_groups?;
        let (spans, count) = (self.profile.capacity.0.div_ceil(groups.span.0), u64::from(groups.count));
        let reached = match spans {
            _ if spans <= count => spans.into(),
            _ if spans == count + 1 => Truth::OneOf(vec![count.into(), spans.into()]),
            _ => count.into(),
        };
        (spans.min(count) > 1).then_some((reached, groups.span))
    }

    fn family_word(&self) -> Option<Value> {
        let word = match (self.layer.mapping, self.layer.cached_map_entries) {
            (Mapping::Pages { .. }, None) => "page",
            (Mapping::Pages { .. }, Some(_)) => "demand-cached page",
            (Mapping::SharedLogBlocks { .. }, _) => "shared log-block",
            (Mapping::OwnLogBlocks { any_order: true, .. }, _) => "log-block",
            (Mapping::OwnLogBlocks { any_order: false, .. }, _) => "block",
            (Mapping::Zones, _) => return None,
        };
        Some(word.into())
    }

    /// A buffer that is flushed when it is full keeps a part of its space for data in flight. If writes leave
    /// one by one, only that part is empty afterwards; if they leave together, the whole buffer is.
    fn write_buffer(&self) -> Truth {
        let Some(buffer) = self.profile.controller.write_buffer else { return Bytes::ZERO.into() };
        match buffer.flush {
            FlushPolicy::Immediately => buffer.size.into(),
            FlushPolicy::WhenFull => {
                let half = Bytes(buffer.size.0 / 2).round_up(self.flash.page);
                let way = buffer.in_flight.unwrap_or(half);
                let parts =
                    [buffer.size, way, buffer.size - way].into_iter().filter(|&part| part > Bytes::ZERO);
                Truth::OneOf(parts.map(Value::from).collect())
            }
        }
    }

    /// Whole blocks, the same number on each die.
    fn slc_cache_size(&self) -> Bytes {
        let Some(fast) = &self.flash.slc_cache else { return Bytes::ZERO };
        let dies = u64::from(self.flash.dies);
        let blocks = fast.size.0.div_ceil(self.block().0).div_ceil(dies) * dies;
        self.block() * blocks
    }
}
