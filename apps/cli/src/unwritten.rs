//! Warns of space that was never written: reads of it do not reach the flash, and the first writes to it find
//! free blocks.

use anyhow::Result;
use flashlab_base::{Bytes, Seed, Target};
use flashlab_bench::State;
use flashlab_host::NeverWritten;

use crate::target::{OpenDevice, Opened};

/// What to do about it if plans are measured in this state; `None` if the state leaves no such space.
pub fn remedy(state: State) -> Option<&'static str> {
    match state {
        State::Steady | State::Sequential => None,
        // Random writes of one capacity leave out a share of about 1/e.
        State::Random => Some(
            "random writes of one capacity leave out about a third of it; --state steady writes all of it",
        ),
        State::None => Some("--state sequential or --state steady writes all of it first"),
    }
}

/// Adds the warning to those of the target and prints it, if a measurement of the first `size` bytes would
/// use such space. `remedy` says what to do about it, as a sentence without a full stop.
pub fn warn(opened: &mut Opened, target: &Target, size: Bytes, seed: Seed, remedy: &str) -> Result<()> {
    let found = match (target, &opened.device) {
        (Target::Simulated(simulated), OpenDevice::Simulated(device)) => {
            let is_new = simulated.state.is_none() && device.as_flash().is_some();
            is_new.then(|| "nothing was ever written to the simulated flash".to_owned())
        }
        (Target::Path(path), _) => match flashlab_host::never_written(path.as_ref(), size, seed)? {
            found if !found.is_any() => None,
            NeverWritten::Holes(bytes) => {
                Some(format!("{bytes} of {size} of {target} were holes that were never written"))
            }
            NeverWritten::Zeroes { zero, read } => Some(format!(
                "{zero} of {read} blocks of {target} that were looked at held only zeroes, as space does that was never \
                 written or was trimmed"
            )),
        },
        _ => None,
    };
    if let Some(found) = found {
        let message = format!(
            "before this run {found}: reads of such space do not reach the flash, and writes to it find free blocks; {remedy}"
        );
        tell!("{message}");
        opened.warnings.push(("never_written".to_owned(), message));
    }
    Ok(())
}
