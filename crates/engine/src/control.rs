//! What the caller of a run decides, and can change while it goes on.

use std::sync::atomic::AtomicBool;

use flashlab_base::Nanos;

/// How long a run waits before it checks [`Control::interrupt`] again, on the device's clock. It bounds the
/// reaction time to Ctrl-C; a person does not notice 50 ms.
pub const INTERRUPT_CHECK: Nanos = Nanos::from_millis(50);

/// The caller's limits on a run.
pub struct Control<'a> {
    /// Ends the run when the caller sets it. The run still waits for IOs in flight.
    pub interrupt: &'a AtomicBool,
    /// The longest time that the run may take on the device's clock, in addition to the pattern's own duration.
    pub time_limit: Option<Nanos>,
    /// How many IOs, of all processes together, may fail before the run ends.
    pub failures_allowed: u64,
}
