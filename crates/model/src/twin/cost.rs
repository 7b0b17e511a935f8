//! The costs of a profile: the times that a fit may change, each read and written in nanoseconds.

use flashlab_base::{Bytes, Nanos};
use flashlab_sim::Profile;
use flashlab_sim::profile::{Bandwidth, FlashSection, PerPage};

/// A time of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    ReadCommand,
    WriteCommand,
    ReadJump,
    WriteJump,
    /// Switching between segment groups.
    ReadSwitch,
    WriteSwitch,
    /// A page over the link.
    ReadLink,
    WriteLink,
    /// A page over a channel.
    Transfer,
    /// A multi-plane page, by its number among those that alternate.
    Read(usize),
    Program(usize),
    Erase,
    SlcRead,
    SlcProgram,
    /// Deferred work before each operation.
    Slice,
    IdleAfter,
}

/// The least bandwidth that a profile may have, and one at which nothing takes time.
const BANDWIDTHS: [f64; 2] = [1e3, 1e12];

impl Cost {
    /// The same for every kind of page.
    pub fn kind(self) -> Cost {
        match self {
            Cost::Read(_) => Cost::Read(0),
            Cost::Program(_) => Cost::Program(0),
            other => other,
        }
    }

    /// The time in nanoseconds; 0 where the profile has no such thing.
    pub fn get(self, profile: &Profile) -> f64 {
        let controller = &profile.controller;
        let Some(flash) = &profile.flash else { return 0.0 };
        let link =
            |link: Option<Bandwidth>| link.map_or(0.0, |link| link.ns_per_byte() * flash.page.0 as f64);
        let groups = controller.segment_groups;
        match self {
            Cost::ReadCommand => controller.read_command.0 as f64,
            Cost::WriteCommand => controller.write_command.0 as f64,
            Cost::ReadJump => controller.read_jump.0 as f64,
            Cost::WriteJump => controller.write_jump.0 as f64,
            Cost::ReadSwitch => groups.map_or(0.0, |groups| groups.switch.0 as f64),
            Cost::WriteSwitch => {
                groups.map_or(0.0, |groups| groups.write_switch.unwrap_or(groups.switch).0 as f64)
            }
            Cost::ReadLink => link(controller.read_bandwidth),
            Cost::WriteLink => link(controller.write_bandwidth),
            Cost::Transfer => flash.channel_bandwidth.ns_per_byte() * flash.page.0 as f64,
            Cost::Read(index) => time_of(&flash.read, index),
            Cost::Program(index) => time_of(&flash.program, index),
            Cost::Erase => flash.erase.0 as f64,
            Cost::SlcRead => flash.slc_cache.as_ref().map_or(0.0, |slc| time_of(&slc.read, 0)),
            Cost::SlcProgram => flash.slc_cache.as_ref().map_or(0.0, |slc| time_of(&slc.program, 0)),
            Cost::Slice => controller.background.map_or(0.0, |background| background.slice.0 as f64),
            Cost::IdleAfter => controller.background.map_or(0.0, |background| background.idle_after.0 as f64),
        }
    }

    /// Sets the time, in nanoseconds; nothing where the profile has no such thing.
    pub fn set(self, profile: &mut Profile, ns: f64) {
        let ns = ns.max(0.0);
        let nanos = Nanos(ns.round() as u64);
        let Some(flash) = &mut profile.flash else { return };
        let controller = &mut profile.controller;
        let bandwidth = |ns: f64, flash: &FlashSection| {
            let rate = flash.page.0 as f64 * 1e9 / ns.max(1e-3);
            Bandwidth(Bytes(rate.clamp(BANDWIDTHS[0], BANDWIDTHS[1]) as u64))
        };
        match self {
            Cost::ReadCommand => controller.read_command = nanos,
            Cost::WriteCommand => controller.write_command = nanos,
            Cost::ReadJump => controller.read_jump = nanos,
            Cost::WriteJump => controller.write_jump = nanos,
            Cost::ReadSwitch => {
                if let Some(groups) = &mut controller.segment_groups {
                    groups.write_switch.get_or_insert(groups.switch);
                    groups.switch = nanos;
                }
            }
            Cost::WriteSwitch => {
                if let Some(groups) = &mut controller.segment_groups {
                    groups.write_switch = Some(nanos);
                }
            }
            Cost::ReadLink => controller.read_bandwidth = Some(bandwidth(ns, flash)),
            Cost::WriteLink => controller.write_bandwidth = Some(bandwidth(ns, flash)),
            Cost::Transfer => flash.channel_bandwidth = bandwidth(ns, flash),
            Cost::Read(index) => set_time(&mut flash.read, index, nanos),
            Cost::Program(index) => set_time(&mut flash.program, index, nanos),
            Cost::Erase => flash.erase = nanos,
            Cost::SlcRead => {
                if let Some(slc) = &mut flash.slc_cache {
                    slc.read = PerPage::All(nanos);
                }
            }
            Cost::SlcProgram => {
                if let Some(slc) = &mut flash.slc_cache {
                    slc.program = PerPage::All(nanos);
                }
            }
            Cost::Slice => {
                if let Some(background) = &mut controller.background {
                    background.slice = nanos;
                }
            }
            Cost::IdleAfter => {
                if let Some(background) = &mut controller.background {
                    background.idle_after = nanos;
                }
            }
        }
    }
}

/// The costs of each multi-plane page's read, or program.
pub(super) fn each_page(times: &PerPage, cost: fn(usize) -> Cost) -> impl Iterator<Item = Cost> + use<> {
    (0..times.count()).map(cost)
}

fn time_of(times: &PerPage, index: usize) -> f64 {
    match times {
        PerPage::All(time) => time.0 as f64,
        PerPage::Alternating(times) => times.get(index).map_or(0.0, |time| time.0 as f64),
    }
}

fn set_time(times: &mut PerPage, index: usize, time: Nanos) {
    match times {
        PerPage::All(only) => *only = time,
        PerPage::Alternating(times) => {
            if let Some(one) = times.get_mut(index) {
                *one = time;
            }
        }
    }
}
