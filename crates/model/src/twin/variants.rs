//! Structures that the inference leaves open: each variant is a change of a profile that is tried.

use flashlab_base::Nanos;
use flashlab_sim::flash_device::FlushPolicy;
use flashlab_sim::layer::{LogOrder, PageMapOptions, Replacement, Striping, VictimPolicy};
use flashlab_sim::profile::{BackgroundSection, FlashSection, PerPage};
use flashlab_sim::{Profile, Translation};

use super::cost::Cost;

const READ: &[Cost] = &[Cost::Read(0), Cost::ReadCommand];

/// A change; `None` where it changes nothing or does not apply.
pub(super) struct Variant {
    /// What it changes, for people.
    pub name: &'static str,
    pub change: fn(&Profile) -> Option<Profile>,
    /// The costs that have to be fitted anew with it.
    pub costs: &'static [Cost],
}

/// What reads show.
pub(super) const OF_READS: &[Variant] = &[
    Variant { name: "two kinds of pages to read", change: |p| reads(p, 2), costs: READ },
    Variant { name: "three kinds of pages to read", change: |p| reads(p, 3), costs: READ },
    Variant { name: "four kinds of pages to read", change: |p| reads(p, 4), costs: READ },
    Variant {
        name: "cache mode",
        change: |p| flash(p, |flash| flash.cache_mode = !flash.cache_mode),
        costs: &[Cost::Transfer, Cost::Read(0)],
    },
    Variant { name: "twice as many dies", change: twice_the_dies, costs: READ },
    Variant { name: "half as many dies", change: half_the_dies, costs: READ },
    Variant { name: "one channel more", change: |p| channels(p, true), costs: READ },
    Variant { name: "fewer channels", change: |p| channels(p, false), costs: READ },
    Variant { name: "smaller stripes", change: |p| stripe(p, 0.5), costs: &[] },
    Variant { name: "larger stripes", change: |p| stripe(p, 2.0), costs: &[] },
    Variant { name: "jumps of reads", change: |p| read_jump(p), costs: &[Cost::ReadJump, Cost::ReadCommand] },
    Variant { name: "pages in write order or static", change: |p| page_map(p, toggle_striping), costs: &[] },
    Variant { name: "a quarter of the map in memory", change: |p| cached_entries(p, 0.25), costs: &[] },
    Variant { name: "half of the map in memory", change: |p| cached_entries(p, 0.5), costs: &[] },
    Variant { name: "less of the map in memory", change: |p| cached_entries(p, 0.8), costs: &[] },
    Variant { name: "more of the map in memory", change: |p| cached_entries(p, 1.25), costs: &[] },
    Variant { name: "twice of the map in memory", change: |p| cached_entries(p, 2.0), costs: &[] },
    Variant { name: "four times of the map in memory", change: |p| cached_entries(p, 4.0), costs: &[] },
];

/// What writes show.
pub(super) const OF_WRITES: &[Variant] = &[
    Variant {
        name: "background work",
        change: |p| background(p, Some(4)),
        costs: &[Cost::Slice, Cost::IdleAfter],
    },
    Variant {
        name: "more background work",
        change: |p| background(p, Some(16)),
        costs: &[Cost::Slice, Cost::IdleAfter],
    },
    Variant {
        name: "no background work",
        change: |p| background(p, None),
        costs: &[Cost::Slice, Cost::IdleAfter],
    },
    Variant {
        name: "background work while idle or not",
        change: toggle_idle,
        costs: &[Cost::Slice, Cost::IdleAfter],
    },
    Variant {
        name: "gathering multi-plane pages",
        change: toggle_gathering,
        costs: &[Cost::Program(0), Cost::WriteCommand],
    },
    Variant {
        name: "two kinds of pages to program",
        change: |p| programs(p, 2),
        costs: &[Cost::Program(0), Cost::WriteCommand],
    },
    Variant {
        name: "copy-back",
        change: |p| flash(p, |flash| flash.copy_back = !flash.copy_back),
        costs: &[],
    },
    Variant { name: "less over-provisioning", change: |p| over_provisioning(p, 0.8), costs: &[] },
    Variant { name: "more over-provisioning", change: |p| over_provisioning(p, 1.25), costs: &[] },
    Variant { name: "greedy collection", change: |p| policy(p, VictimPolicy::Greedy), costs: &[] },
    Variant { name: "collection first in, first out", change: |p| policy(p, VictimPolicy::Fifo), costs: &[] },
    Variant {
        name: "collection by cost and benefit",
        change: |p| policy(p, VictimPolicy::CostBenefit),
        costs: &[],
    },
    Variant {
        name: "collection of the best of four",
        change: |p| policy(p, VictimPolicy::Choices(4)),
        costs: &[],
    },
    Variant {
        name: "collection apart",
        change: |p| page_map(p, |map| map.collect_apart = !map.collect_apart),
        costs: &[],
    },
    Variant {
        name: "logs that take pages in any order",
        change: |p| log_order(p, LogOrder::Any),
        costs: &[],
    },
    Variant { name: "logs that take later pages", change: |p| log_order(p, LogOrder::Forward), costs: &[] },
    Variant { name: "logs that take the next page", change: |p| log_order(p, LogOrder::Next), costs: &[] },
    Variant { name: "fewer logs", change: |p| logs(p, 0.7), costs: &[] },
    Variant { name: "more logs", change: |p| logs(p, 1.5), costs: &[] },
    Variant { name: "merging the log used least recently", change: toggle_replacement, costs: &[] },
    Variant { name: "switch merges", change: toggle_switch_merges, costs: &[] },
    Variant { name: "a write buffer flushed when full", change: toggle_flush, costs: &[] },
    Variant { name: "a smaller write buffer", change: |p| write_buffer(p, 0.5), costs: &[] },
    Variant { name: "a larger write buffer", change: |p| write_buffer(p, 2.0), costs: &[] },
    Variant {
        name: "jumps of writes",
        change: |p| write_jump(p),
        costs: &[Cost::WriteJump, Cost::WriteCommand],
    },
    Variant { name: "less over-provisioning", change: |p| over_provisioning(p, 0.93), costs: &[] },
    Variant { name: "more over-provisioning", change: |p| over_provisioning(p, 1.07), costs: &[] },
];

fn flash(profile: &Profile, change: impl FnOnce(&mut FlashSection)) -> Option<Profile> {
    let mut changed = profile.clone();
    change(changed.flash.as_mut()?);
    Some(changed)
}

fn alternating(times: &PerPage, count: u64, step: f64) -> PerPage {
    let first = times.longest().0 as f64 * 0.85;
    let each = (0..count).map(|index| Nanos((first * (1.0 + step * index as f64)) as u64));
    PerPage::Alternating(each.collect())
}

fn reads(profile: &Profile, count: u64) -> Option<Profile> {
    let times = &profile.flash.as_ref()?.read;
    (times.count() as u64 != count)
        .then(|| flash(profile, |flash| flash.read = alternating(&flash.read, count, 0.15)))
        .flatten()
}

fn programs(profile: &Profile, count: u64) -> Option<Profile> {
    let times = &profile.flash.as_ref()?.program;
    (times.count() as u64 != count)
        .then(|| flash(profile, |flash| flash.program = alternating(&flash.program, count, 1.0)))
        .flatten()
}

fn read_jump(profile: &Profile) -> Option<Profile> {
    let mut changed = profile.clone();
    let read = profile.flash.as_ref()?.read.longest();
    (profile.controller.read_jump < Nanos(read.0 / 50)).then(|| {
        changed.controller.read_jump = Nanos(read.0 / 10);
        changed
    })
}

fn write_jump(profile: &Profile) -> Option<Profile> {
    let mut changed = profile.clone();
    let command = profile.controller.write_command;
    (profile.controller.write_jump < Nanos(command.0 / 20)).then(|| {
        changed.controller.write_jump = Nanos(command.0 / 2);
        changed
    })
}

fn page_map(profile: &Profile, change: impl FnOnce(&mut PageMapOptions)) -> Option<Profile> {
    let mut changed = profile.clone();
    match &mut changed.translation {
        Translation::PageMap(map) => change(map),
        Translation::DemandMap(map) => change(&mut map.page_map),
        _ => return None,
    }
    Some(changed)
}

fn toggle_striping(map: &mut PageMapOptions) {
    map.striping = match map.striping {
        Striping::Static => Striping::WriteOrder,
        Striping::WriteOrder => Striping::Static,
    };
}

fn policy(profile: &Profile, policy: VictimPolicy) -> Option<Profile> {
    page_map(profile, |map| map.policy = policy).filter(|changed| changed != profile)
}

fn cached_entries(profile: &Profile, factor: f64) -> Option<Profile> {
    let pages = profile.capacity.0 / profile.flash.as_ref()?.page.0.max(1);
    let mut changed = profile.clone();
    let Translation::DemandMap(map) = &mut changed.translation else { return None };
    map.cached_entries = ((f64::from(map.cached_entries) * factor) as u64).clamp(16, pages.max(16)) as u32;
    (changed != *profile).then_some(changed)
}

fn over_provisioning(profile: &Profile, factor: f64) -> Option<Profile> {
    matches!(profile.translation, Translation::PageMap(_) | Translation::DemandMap(_))
        .then(|| {
            flash(profile, |flash| {
                flash.over_provisioning = (flash.over_provisioning * factor).clamp(0.005, 10.0)
            })
        })
        .flatten()
}

fn background(profile: &Profile, max_backlog: Option<u32>) -> Option<Profile> {
    if matches!(profile.translation, Translation::PageMap(_) | Translation::DemandMap(_)) {
        let has_cache = profile.flash.as_ref()?.slc_cache.is_some();
        if !has_cache || max_backlog != Some(4) {
            return None;
        }
    }
    let mut changed = profile.clone();
    let max_backlog = max_backlog
        .map(|most| if profile.flash.as_ref().is_some_and(|f| f.slc_cache.is_some()) { 0 } else { most });
    changed.controller.background = max_backlog.map(|max_backlog| {
        let known = profile.controller.background;
        BackgroundSection {
            idle_after: known.map_or(Nanos::from_millis(10), |known| known.idle_after),
            slice: known.map_or(Nanos::from_micros(500), |known| known.slice),
            read_slice: None,
            while_idle: known.is_none_or(|known| known.while_idle),
            max_backlog,
        }
    });
    (changed != *profile).then_some(changed)
}

fn toggle_idle(profile: &Profile) -> Option<Profile> {
    let mut changed = profile.clone();
    let background = changed.controller.background.as_mut()?;
    background.while_idle = !background.while_idle;
    Some(changed)
}

fn toggle_gathering(profile: &Profile) -> Option<Profile> {
    (profile.flash.as_ref()?.planes > 1)
        .then(|| flash(profile, |flash| flash.gathers_multi_plane_pages = !flash.gathers_multi_plane_pages))
        .flatten()
}

fn log_order(profile: &Profile, order: LogOrder) -> Option<Profile> {
    let mut changed = profile.clone();
    let Translation::LogBlocks(options) = &mut changed.translation else { return None };
    options.order = order;
    (changed != *profile).then_some(changed)
}

fn logs(profile: &Profile, factor: f64) -> Option<Profile> {
    let mut changed = profile.clone();
    let scaled = |logs: u32| (f64::from(logs) * factor).round().max(1.0) as u32;
    match &mut changed.translation {
        Translation::LogBlocks(options) => options.logs = scaled(options.logs),
        Translation::SharedLogs(options) => options.logs = scaled(options.logs),
        _ => return None,
    }
    (changed != *profile).then_some(changed)
}

fn stripe(profile: &Profile, factor: f64) -> Option<Profile> {
    let most = profile.flash.as_ref()?.pages_per_block.saturating_mul(profile.flash.as_ref()?.planes);
    if profile.flash.as_ref()?.dies == 1 {
        return None;
    }
    let mut changed = profile.clone();
    let scaled = |pages: u32| ((f64::from(pages) * factor) as u32).clamp(1, most);
    match &mut changed.translation {
        Translation::LogBlocks(options) => options.stripe_pages = scaled(options.stripe_pages),
        Translation::SharedLogs(options) => options.stripe_pages = scaled(options.stripe_pages),
        _ => return None,
    }
    (changed != *profile).then_some(changed)
}

/// The erase blocks of all dies together stay as large.
fn twice_the_dies(profile: &Profile) -> Option<Profile> {
    let pages = profile.flash.as_ref()?.pages_per_block;
    pages
        .is_multiple_of(2)
        .then(|| flash(profile, |flash| (flash.dies, flash.pages_per_block) = (flash.dies * 2, pages / 2)))?
}

fn half_the_dies(profile: &Profile) -> Option<Profile> {
    let section = profile.flash.as_ref()?;
    let fits = section.dies.is_multiple_of(2) && section.pages_per_block * section.planes < 1 << 15;
    fits.then(|| {
        flash(profile, |flash| {
            (flash.dies, flash.pages_per_block) = (flash.dies / 2, flash.pages_per_block * 2);
            flash.channels = flash.channels.min(flash.dies);
        })
    })?
}

fn channels(profile: &Profile, more: bool) -> Option<Profile> {
    let section = profile.flash.as_ref()?;
    let divides = |channels: &u32| section.dies.is_multiple_of(*channels);
    let next = match more {
        true => (section.channels + 1..=section.dies).find(divides),
        false => (1..section.channels).rev().find(divides),
    }?;
    flash(profile, |flash| flash.channels = next)
}

fn toggle_replacement(profile: &Profile) -> Option<Profile> {
    let mut changed = profile.clone();
    let Translation::LogBlocks(options) = &mut changed.translation else { return None };
    options.replacement = match options.replacement {
        Replacement::RoundRobin => Replacement::LeastRecentlyUsed,
        Replacement::LeastRecentlyUsed => Replacement::RoundRobin,
    };
    Some(changed)
}

fn toggle_switch_merges(profile: &Profile) -> Option<Profile> {
    let mut changed = profile.clone();
    let Translation::LogBlocks(options) = &mut changed.translation else { return None };
    options.switch_merges = !options.switch_merges;
    Some(changed)
}

fn toggle_flush(profile: &Profile) -> Option<Profile> {
    let page = profile.flash.as_ref()?.page;
    let mut changed = profile.clone();
    let buffer = changed.controller.write_buffer.as_mut()?;
    buffer.flush = match buffer.flush {
        FlushPolicy::Immediately => FlushPolicy::WhenFull,
        FlushPolicy::WhenFull => FlushPolicy::Immediately,
    };
    buffer.size = buffer.size.max(page * 2);
    Some(changed)
}

fn write_buffer(profile: &Profile, factor: f64) -> Option<Profile> {
    let page = profile.flash.as_ref()?.page;
    let mut changed = profile.clone();
    let buffer = changed.controller.write_buffer.as_mut()?;
    buffer.size = flashlab_base::Bytes((buffer.size.0 as f64 * factor) as u64).round_up(page).max(page * 2);
    (changed != *profile).then_some(changed)
}
