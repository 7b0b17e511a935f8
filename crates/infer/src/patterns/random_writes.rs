//! Random writes over the whole device, as the probes of the start-up phase and of lingering effects do them.

use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Location, Pattern};

use crate::patterns::ios;
use crate::session::Session;

/// The size of the writes.
pub(crate) const IO_SIZE: Bytes = Bytes::kib(4);

/// Random writes on the whole device.
pub(crate) fn random_writes(session: &Session<'_, '_>, count: u64) -> Pattern {
    ios(Mode::Write, Location::Random, IO_SIZE.max(session.block()), count)
}
