//! A twin of the inferred device without noise, and the source of each truth.

use std::cell::OnceCell;

use flashlab_analysis::inference::Parameter;
use flashlab_base::Bytes;
use flashlab_device::Operation;
use flashlab_sim::Profile;

use super::lab::WrittenContent;
use super::{Truth, curves, recovery, states, structure};
use crate::population;

/// A device without noise. A measurement that gives several truths is done only once.
pub struct Twin {
    profile: Profile,
    noisy: Profile,
    page: Bytes,
    reads: OnceCell<(Truth, Truth)>,
    writes: OnceCell<(Truth, Truth)>,
    phases: OnceCell<(Truth, Truth)>,
    recovery: OnceCell<recovery::Truths>,
}

/// The noise of the twin differs from that of the device.
const NOISE_OF_TWIN: u64 = 1 << 32;
const CACHE_FILL: &str = "it depends on how full the SLC cache is";

impl Twin {
    /// The twin of a device.
    pub fn new(profile: &Profile) -> Twin {
        let page = profile.flash.as_ref().map_or(profile.block, |flash| flash.page);
        Twin {
            profile: population::quiet(profile),
            noisy: population::with_noise(profile, NOISE_OF_TWIN),
            page,
            reads: OnceCell::new(),
            writes: OnceCell::new(),
            phases: OnceCell::new(),
            recovery: OnceCell::new(),
        }
    }

    /// What is true of a parameter.
    pub fn truth(&self, parameter: Parameter) -> Truth {
        let profile = &self.profile;
        let fast = profile.flash.as_ref().is_some_and(|flash| flash.slc_cache.is_some());
        match parameter {
            Parameter::ReadCostPerIo => self.reads().0.clone(),
            Parameter::ReadSaturationSize => self.reads().1.clone(),
            Parameter::UsefulQueueDepth => curves::useful_depth(profile, &self.noisy, self.page),
            Parameter::WriteCostPerIo
            | Parameter::WriteSaturationSize
            | Parameter::ZerosProgramShare
            | Parameter::OnesProgramShare
            | Parameter::MisalignmentPenalty
                if fast =>
            {
                Truth::unjudged(CACHE_FILL)
            }
            Parameter::WriteCostPerIo => self.writes().0.clone(),
            Parameter::WriteSaturationSize => self.writes().1.clone(),
            Parameter::ZerosProgramShare => {
                curves::content_share(profile, &self.noisy, self.page, self.settle(), WrittenContent::Zeros)
            }
            Parameter::OnesProgramShare => {
                curves::content_share(profile, &self.noisy, self.page, self.settle(), WrittenContent::Ones)
            }
            Parameter::MisalignmentPenalty => curves::misalignment(profile, &self.noisy, self.page),
            Parameter::StartupIos => self.phases().0.clone(),
            Parameter::PeriodIos => self.phases().1.clone(),
            Parameter::LingeringTime => states::lingering_time(profile, &self.noisy),
            Parameter::PauseBenefit => states::pause_benefit(profile, &self.noisy),
            Parameter::PhysicalCapacity => states::physical_capacity(profile),
            Parameter::OverProvisioning => states::over_provisioning(profile),
            Parameter::RecoveryTime => self.recovery().time.clone(),
            Parameter::RecoveryEnds => self.recovery().ends.clone(),
            Parameter::RewriteCures => self.recovery().cures.clone(),
            _ => structure::truth(profile, parameter),
        }
    }

    /// The bytes to write before a device that was idle is in its lasting state.
    fn settle(&self) -> Bytes {
        let buffer = self.profile.controller.write_buffer.map_or(Bytes::ZERO, |buffer| buffer.size);
        buffer * 2 + Bytes::kib(64)
    }

    fn reads(&self) -> &(Truth, Truth) {
        self.reads
            .get_or_init(|| curves::sequential(&self.profile, &self.noisy, Operation::Read, Bytes::kib(256)))
    }

    fn writes(&self) -> &(Truth, Truth) {
        self.writes
            .get_or_init(|| curves::sequential(&self.profile, &self.noisy, Operation::Write, self.settle()))
    }

    fn phases(&self) -> &(Truth, Truth) {
        self.phases.get_or_init(|| states::start_up_and_period(&self.profile))
    }

    fn recovery(&self) -> &recovery::Truths {
        let unit = structure::unit(&self.profile);
        self.recovery.get_or_init(|| recovery::truths(&self.profile, unit))
    }
}
