//! From what was inferred to a profile: pages, dies, blocks, logs and buffers. Costs are left to the fit.
//!
//! What was not inferred gets the value that changes least: one plane, one die, no buffer.

use flashlab_analysis::inference::{Family, Inference, Parameter, Value, Verdict};
use flashlab_base::{Bytes, Nanos};
use flashlab_sim::flash_device::FlushPolicy;
use flashlab_sim::layer::{DemandMapOptions, LogBlocksOptions, LogOrder, PageMapOptions, SharedLogsOptions};
use flashlab_sim::profile::{
    ControllerSection, FlashSection, PerPage, ReadBufferSection, SegmentGroups, SlcCacheSection,
    WriteBufferSection,
};
use flashlab_sim::{Profile, Translation};

use super::cost::Cost;
use super::measured::MeasuredRuns;
use super::typical::Typical;

/// IOs that may be in flight: a host queues what the device does not take yet.
const DEPTH: u32 = 1024;

/// A profile with the structure that was inferred, and first guesses of its costs; `None` where no translation layer was found.
pub(super) fn inferred_profile(
    measured: &MeasuredRuns,
    inference: &Inference,
    typical: &Typical,
) -> Option<Profile> {
    let known = Known(inference);
    let family = known.family()?;
    let block = measured.space.block;
    let page = known.size(Parameter::ReadPageSize).or(known.size(Parameter::WritePageSize));
    let page = Bytes(page.map_or(4096, |page| page.0.next_power_of_two()).clamp(block.0.max(512), 1 << 20));
    let planes = known.count(Parameter::PlanesReadAtOnce).unwrap_or(1).clamp(1, 64);
    let dies = known.count(Parameter::ParallelUnits).unwrap_or(1).clamp(1, 4096);
    let channels = known.count(Parameter::Channels).unwrap_or(1).clamp(1, dies);
    let multi_plane_page = page.0 * u64::from(planes);
    let unit =
        known.size(Parameter::EraseBlockSize).unwrap_or(Bytes(multi_plane_page * u64::from(dies) * 64));
    let pages_per_block =
        (unit.0 as f64 / (multi_plane_page * u64::from(dies)) as f64).round().max(1.0) as u32;
    let pages_per_block = pages_per_block.clamp(1, (1 << 16) / planes);
    let flash = FlashSection {
        page,
        pages_per_block,
        planes,
        dies,
        channels,
        over_provisioning: known.over_provisioning(measured.capacity, unit),
        gathers_multi_plane_pages: false,
        ..FlashSection::default()
    };
    let flash = FlashSection { slc_cache: known.slc_cache(page), ..flash };
    let controller = ControllerSection {
        depth: DEPTH,
        write_buffer: known.write_buffer(page),
        read_buffer: known.read_buffer(page),
        segment_groups: known.segment_groups(typical),
        ..ControllerSection::default()
    };
    let stripe = known.size(Parameter::ChunkSize).map_or(planes, |chunk| (chunk.0 / page.0).max(1) as u32);
    let logs = known.count(Parameter::OpenBlocks).unwrap_or(4).clamp(1, 1 << 16);
    let pages = (measured.capacity.0 / page.0).max(1) as f64;
    let translation = match family {
        Family::Page => Translation::PageMap(PageMapOptions::default()),
        Family::DemandCachedPage => Translation::DemandMap(DemandMapOptions {
            cached_entries: (pages * 0.1).max(1.0) as u32,
            ..DemandMapOptions::default()
        }),
        Family::Block | Family::LogBlock => Translation::LogBlocks(LogBlocksOptions {
            stripe_pages: stripe,
            logs,
            order: if family == Family::Block { LogOrder::Next } else { LogOrder::Any },
            ..LogBlocksOptions::default()
        }),
        Family::SharedLogBlock => Translation::SharedLogs(SharedLogsOptions {
            stripe_pages: stripe,
            logs,
            ..SharedLogsOptions::default()
        }),
    };
    let mut profile = Profile {
        flash: Some(flash),
        controller,
        translation,
        ..Profile::new("twin", measured.capacity, block)
    };
    guess_costs(&mut profile, typical);
    Some(profile)
}

/// Shares of the time of the smallest read and of the smallest write.
fn guess_costs(profile: &mut Profile, typical: &Typical) {
    let (read, write) = (typical.read_ns, typical.write_ns);
    let page = profile.flash.as_ref().map_or(4096.0, |flash| flash.page.0 as f64);
    let per_page = |ns_per_byte: f64| ns_per_byte * page;
    for (cost, ns) in [
        (Cost::ReadCommand, read * 0.3),
        (Cost::Read(0), read * 0.4),
        (Cost::Transfer, read * 0.15),
        (Cost::ReadLink, per_page(typical.read_ns_per_byte).min(read * 0.3)),
        (Cost::WriteCommand, read * 0.3),
        (Cost::WriteLink, per_page(typical.read_ns_per_byte).min(read * 0.3)),
        (Cost::Program(0), write.max(read) * 0.6),
        (Cost::Erase, 2e6),
        (Cost::SlcRead, read * 0.3),
        (Cost::SlcProgram, write * 0.3),
    ] {
        cost.set(profile, ns);
    }
}

struct Known<'a>(&'a Inference);

impl Known<'_> {
    fn value(&self, parameter: Parameter) -> Option<&Value> {
        let finding = self.0.get(parameter)?;
        finding.value.as_ref().filter(|_| finding.verdict == Verdict::Found)
    }

    fn number(&self, parameter: Parameter) -> Option<f64> {
        match self.value(parameter)? {
            Value::Number(number) if number.is_finite() && *number >= 0.0 => Some(*number),
            _ => None,
        }
    }

    fn size(&self, parameter: Parameter) -> Option<Bytes> {
        self.number(parameter).map(|bytes| Bytes(bytes as u64)).filter(|size| *size > Bytes::ZERO)
    }

    fn count(&self, parameter: Parameter) -> Option<u32> {
        self.number(parameter).map(|count| count as u32).filter(|&count| count > 0)
    }

    fn family(&self) -> Option<Family> {
        match self.value(Parameter::TranslationFamily)? {
            Value::Word(name) => Family::named(name),
            _ => None,
        }
    }

    /// What was inferred is what can be written before collection begins; a block of each die is kept free.
    fn over_provisioning(&self, capacity: Bytes, unit: Bytes) -> f64 {
        let kept = unit.0 as f64 / capacity.0.max(1) as f64;
        self.number(Parameter::OverProvisioning).map_or(0.15, |share| share + kept).clamp(0.0, 10.0)
    }

    fn write_buffer(&self, page: Bytes) -> Option<WriteBufferSection> {
        let size = self.size(Parameter::WriteBufferSize)?.round_up(page);
        let is_when_full =
            matches!(self.value(Parameter::WriteBufferFlush), Some(Value::Word(word)) if word == "when-full");
        let flush = if is_when_full { FlushPolicy::WhenFull } else { FlushPolicy::Immediately };
        let size = if is_when_full { size.max(page * 2) } else { size };
        Some(WriteBufferSection { size, flush, flush_group: None, in_flight: None })
    }

    fn read_buffer(&self, page: Bytes) -> Option<ReadBufferSection> {
        let size = self.size(Parameter::ReadBufferSize)?.round_up(page);
        let read_ahead = self.size(Parameter::ReadAheadSize).unwrap_or_default().round_down(page);
        Some(ReadBufferSection { size, read_ahead })
    }

    fn segment_groups(&self, typical: &Typical) -> Option<SegmentGroups> {
        let count = self.count(Parameter::SegmentGroups).filter(|&count| count > 1)?;
        let span = self.size(Parameter::SegmentGroupSpan)?;
        let switch = Nanos((typical.read_ns * 0.3) as u64);
        Some(SegmentGroups { count, span, switch, write_switch: Some(switch) })
    }

    fn slc_cache(&self, page: Bytes) -> Option<SlcCacheSection> {
        let size = self.size(Parameter::SlcCacheSize)?.round_up(page);
        let refill = self.size(Parameter::SlcCacheRefill).filter(|refill| *refill < size);
        let time = PerPage::All(Nanos::from_micros(100));
        Some(SlcCacheSection {
            size,
            read: time.clone(),
            program: time,
            erase: Nanos::from_millis(2),
            bypass_from: None,
            idle_reclaim: refill,
        })
    }
}
