//! Random writes over the whole device, as the probes of the start-up phase and of lingering effects do them.

use flashlab_base::Mode;
use flashlab_plan::{Location, Pattern};

use crate::patterns::ios;
use crate::priors::SMALL_IO;
use crate::session::Session;

/// Random writes on the whole device.
pub(crate) fn random_writes(session: &Session<'_, '_>, count: u64) -> Pattern {
    ios(Mode::Write, Location::Random, SMALL_IO.max(session.block()), count)
}
