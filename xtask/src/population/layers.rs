//! The translation layer of a random device.

use flashlab_base::{Bytes, Seed};
use flashlab_sim::Translation;
use flashlab_sim::layer::{
    DemandMapOptions, LogBlocksOptions, LogOrder, PageMapOptions, Replacement, SharedLogsOptions, Striping,
    VictimPolicy,
};
use flashlab_sim::profile::FlashSection;

use super::DeviceFamily;
use super::draw::Draw;

pub fn translation(
    draw: &mut Draw,
    family: DeviceFamily,
    flash: &FlashSection,
    capacity: Bytes,
) -> Translation {
    match family {
        DeviceFamily::Page => Translation::PageMap(page_map(draw)),
        DeviceFamily::Demand => {
            // Between 2 % and a half of the map is in memory.
            let pages = capacity.0 as f64 / flash.page.0 as f64;
            Translation::DemandMap(DemandMapOptions {
                page_map: page_map(draw),
                cached_entries: (pages * draw.logarithmic(0.02, 0.5)) as u32,
                entry_bytes: draw.of(&[4, 4, 8]),
            })
        }
        DeviceFamily::Block => {
            let order = draw.weighted(&[(2, LogOrder::Next), (1, LogOrder::Forward)]);
            Translation::LogBlocks(log_blocks(draw, flash, order))
        }
        DeviceFamily::Log => Translation::LogBlocks(log_blocks(draw, flash, LogOrder::Any)),
        DeviceFamily::Shared => Translation::SharedLogs(SharedLogsOptions {
            stripe_pages: stripe(draw, flash),
            logs: draw.between(1, 16) as u32,
            ..SharedLogsOptions::default()
        }),
    }
}

fn page_map(draw: &mut Draw) -> PageMapOptions {
    PageMapOptions {
        policy: draw.weighted(&[
            (6, VictimPolicy::Greedy),
            (1, VictimPolicy::Fifo),
            (1, VictimPolicy::CostBenefit),
            (2, VictimPolicy::Choices(4)),
        ]),
        striping: draw.weighted(&[(2, Striping::WriteOrder), (1, Striping::Static)]),
        collect_apart: draw.chance(0.3),
        seed: Seed(draw.between(0, 1 << 32)),
        ..PageMapOptions::default()
    }
}

fn log_blocks(draw: &mut Draw, flash: &FlashSection, order: LogOrder) -> LogBlocksOptions {
    LogBlocksOptions {
        stripe_pages: stripe(draw, flash),
        logs: draw.between(1, 16) as u32,
        order,
        replacement: draw.of(&[Replacement::RoundRobin, Replacement::LeastRecentlyUsed]),
        switch_merges: draw.chance(0.85),
        ..LogBlocksOptions::default()
    }
}

/// Whole multi-plane pages, and a divisor of a block.
fn stripe(draw: &mut Draw, flash: &FlashSection) -> u32 {
    let rows: Vec<u32> =
        [1, 2, 4, 8].into_iter().filter(|&rows| flash.pages_per_block.is_multiple_of(rows)).collect();
    draw.of(&rows) * flash.planes
}
