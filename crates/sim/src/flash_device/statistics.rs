//! The statistics of a flash device.

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use super::controller::Controller;
use crate::flash::{CAUSES, Cause, Counts, Flash, Resources};
use crate::profile::Energy;

/// The statistics of a flash device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The operations on the flash by their cause.
    pub operations: Vec<Operations>,
    /// Pages programmed for each page that the host wrote; absent while it wrote none.
    pub write_amplification: Option<f64>,
    /// Retries of reads.
    pub read_retries: u64,
    /// Merges of log blocks without a copy.
    pub switch_merges: u64,
    /// Merges of log blocks that copied the missing pages of a block.
    pub partial_merges: u64,
    /// Merges of log blocks that copied all pages of a block.
    pub full_merges: u64,
    /// The fewest erases of a block, since the device was made.
    pub block_erases_min: u32,
    /// The mean erases of a block, since the device was made.
    pub block_erases_mean: f64,
    /// The most erases of a block, since the device was made.
    pub block_erases_max: u32,
    /// The share of the time that the controller was busy with commands.
    pub controller_utilisation: f64,
    /// The share of the time that the link to the host carried data.
    pub link_utilisation: f64,
    /// The share of the time that each die was busy.
    pub die_utilisation: Vec<f64>,
    /// The share of the time that each channel was busy.
    pub channel_utilisation: Vec<f64>,
    /// The energy taken, in joules.
    pub energy_j: f64,
}

/// The operations for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// The cause.
    pub cause: Cause,
    /// Pages read.
    pub pages_read: u64,
    /// Pages programmed.
    pub pages_programmed: u64,
    /// Blocks erased.
    pub blocks_erased: u64,
}

impl Statistics {
    /// The statistics since the counts were `earlier`, with utilisations of the time until `now`.
    pub(super) fn of(
        flash: &Flash<Resources>,
        controller: &Controller,
        energy: &Energy,
        now: Nanos,
        earlier: &Counts,
    ) -> Statistics {
        let counts = &flash.counts().since(earlier);
        let operations = CAUSES
            .map(|cause| Operations {
                cause,
                pages_read: counts.pages_read(cause),
                pages_programmed: counts.pages_programmed(cause),
                blocks_erased: counts.blocks_erased(cause),
            })
            .to_vec();
        let erases = || flash.blocks().iter().map(|block| block.erases);
        let total: u64 = erases().map(u64::from).sum();
        let share = |worked: Nanos| if now.0 == 0 { 0.0 } else { worked.0 as f64 / now.0 as f64 };
        Statistics {
            operations,
            write_amplification: counts.write_amplification(),
            read_retries: counts.read_retries,
            switch_merges: counts.switch_merges,
            partial_merges: counts.partial_merges,
            full_merges: counts.full_merges,
            block_erases_min: erases().min().unwrap_or(0),
            block_erases_mean: total as f64 / flash.blocks().len().max(1) as f64,
            block_erases_max: erases().max().unwrap_or(0),
            controller_utilisation: share(controller.busy()),
            link_utilisation: share(controller.link_busy()),
            die_utilisation: flash.timing().dies_worked().map(share).collect(),
            channel_utilisation: flash.timing().channels_worked().map(share).collect(),
            energy_j: joules(counts, energy, now),
        }
    }
}

fn joules(counts: &Counts, energy: &Energy, now: Nanos) -> f64 {
    let operations = counts.reads() as f64 * energy.read_uj
        + counts.programs() as f64 * energy.program_uj
        + counts.erases() as f64 * energy.erase_uj;
    operations * 1e-6 + now.as_secs_f64() * energy.idle_mw * 1e-3
}
