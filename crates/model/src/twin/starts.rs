//! Where the fit begins: a grid over what the inference leaves open and a search for costs would not leave again.

use flashlab_base::Nanos;
use flashlab_sim::layer::Striping;
use flashlab_sim::profile::{BackgroundSection, PerPage};
use flashlab_sim::{Profile, Translation};

use super::cost::Cost;
use super::typical::Typical;

/// Shares of the map that a device may keep in memory.
const MAP_SHARES: [f64; 6] = [0.02, 0.04, 0.08, 0.15, 0.28, 0.5];
/// Times of programming a page, from one bit a cell to four.
const PROGRAMS: [u64; 4] = [250, 600, 1200, 2400];
/// Over-provisioning, where it was not inferred.
const OVER_PROVISIONING: [f64; 3] = [0.09, 0.16, 0.28];
/// Merges that are deferred.
const BACKLOG: u32 = 10;

/// With pages in write order or static, and shares of the map in memory.
pub(super) fn of_reads(profile: &Profile) -> Vec<Profile> {
    let mut starts = vec![profile.clone()];
    let striped = |profile: &Profile, striping: Striping| {
        let mut changed = profile.clone();
        match &mut changed.translation {
            Translation::PageMap(map) => map.striping = striping,
            Translation::DemandMap(map) => map.page_map.striping = striping,
            _ => {}
        }
        changed
    };
    if matches!(profile.translation, Translation::PageMap(_) | Translation::DemandMap(_)) {
        starts = vec![striped(profile, Striping::WriteOrder), striped(profile, Striping::Static)];
    }
    if matches!(profile.translation, Translation::DemandMap(_)) {
        let pages =
            profile.flash.as_ref().map_or(1.0, |flash| profile.capacity.0 as f64 / flash.page.0 as f64);
        let with_share = |profile: &Profile, share: f64| {
            let mut changed = profile.clone();
            if let Translation::DemandMap(map) = &mut changed.translation {
                map.cached_entries = (pages * share).max(16.0) as u32;
            }
            changed
        };
        starts = starts.iter().flat_map(|start| MAP_SHARES.map(|share| with_share(start, share))).collect();
    }
    starts
}

/// With times of programming, over-provisioning, deferred merges, and multi-plane pages gathered or not.
pub(super) fn of_writes(profile: &Profile, typical: &Typical) -> Vec<Profile> {
    let mut base = profile.clone();
    let command = Cost::ReadCommand.get(&base);
    Cost::WriteCommand.set(&mut base, command);
    let link = Cost::ReadLink.get(&base);
    Cost::WriteLink.set(&mut base, link);
    Cost::SlcProgram.set(&mut base, typical.read_ns.max(1e5));
    let mut starts: Vec<Profile> = PROGRAMS
        .iter()
        .map(|&us| {
            let mut start = base.clone();
            if let Some(flash) = &mut start.flash {
                flash.program = PerPage::All(Nanos::from_micros(us));
            }
            start
        })
        .collect();
    if profile.flash.as_ref().is_some_and(|flash| flash.planes > 1) {
        starts = doubled(starts, |start| {
            if let Some(flash) = &mut start.flash {
                flash.gathers_multi_plane_pages = true;
            }
        });
    }
    if matches!(profile.translation, Translation::PageMap(_) | Translation::DemandMap(_)) {
        let known = profile.flash.as_ref().map_or(0.15, |flash| flash.over_provisioning);
        let with = |start: &Profile, share: f64| {
            let mut changed = start.clone();
            if let Some(flash) = &mut changed.flash {
                flash.over_provisioning = share;
            }
            changed
        };
        let shares: Vec<f64> = OVER_PROVISIONING.into_iter().chain([known]).collect();
        // Those of one structure follow each other: its state is made once.
        starts = shares
            .iter()
            .flat_map(|&share| starts.iter().map(|start| with(start, share)).collect::<Vec<_>>())
            .collect();
    } else {
        starts = doubled(starts, |start| {
            start.controller.background = Some(BackgroundSection {
                idle_after: Nanos::from_millis(10),
                slice: Nanos::from_micros(500),
                read_slice: None,
                while_idle: true,
                max_backlog: BACKLOG,
            });
        });
    }
    starts
}

fn doubled(starts: Vec<Profile>, change: impl Fn(&mut Profile)) -> Vec<Profile> {
    let changed: Vec<Profile> = starts
        .iter()
        .map(|start| {
            let mut start = start.clone();
            change(&mut start);
            start
        })
        .collect();
    starts.into_iter().chain(changed).collect()
}
