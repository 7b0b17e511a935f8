//! Random writes over the whole device, as the probes of the start-up phase and of lingering effects do them.

use flashlab_analysis::findings::Phases;
use flashlab_analysis::inference::Family;
use flashlab_analysis::phases;
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

/// Whether every page may lie anywhere.
pub(crate) fn is_page_map(session: &Session<'_, '_>) -> bool {
    session.known().family().is_some_and(Family::maps_pages)
}

pub(crate) fn phases_of(run: &[f64]) -> Phases {
    phases(&run.iter().map(|&cost| cost as u64).collect::<Vec<_>>())
}
