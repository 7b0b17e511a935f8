//! A device without noise beside the one that is inferred.

use flashlab_analysis::inference::Parameter;
use flashlab_sim::Profile;

use super::{Truth, structure};
use crate::population::{self, Family};

/// A device without noise.
pub struct Twin {
    profile: Profile,
}

impl Twin {
    /// The twin of a device.
    ///
    /// # Errors
    /// When the profile makes no device.
    pub fn new(profile: &Profile) -> anyhow::Result<Twin> {
        let profile = population::quiet(profile);
        profile.device()?;
        Ok(Twin { profile })
    }

    /// What is true of a parameter.
    pub fn truth(&self, family: Family, parameter: Parameter) -> Truth {
        structure::truth(&self.profile, family, parameter)
    }
}
