//! Turns Ctrl-C, SIGTERM and SIGHUP into a flag, which long work checks.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// Makes a write beyond `ulimit -f` fail with an error, which is reported as any other. Without this handler,
/// the kernel would end the program without a message.
pub fn report_file_limit() -> Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot listen to signals")?;
    Ok(())
}

/// A flag that the first signal sets. The second signal ends the program at once, in case a device does not
/// answer any more. Signals are caught from the first call on.
pub fn interrupt() -> Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = FLAG.get_or_init(Arc::default);
    for signal in ending_signals() {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .context("cannot listen to signals")?;
    }
    Ok(Arc::clone(flag))
}

/// The signals that ask the program to end.
pub fn ending_signals() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM].into_iter().chain(hangup())
}

/// The signal of a closed terminal, unless the program outlives it.
pub fn hangup() -> Option<i32> {
    (!is_hangup_ignored()).then_some(SIGHUP)
}

/// Whether the program was started with `nohup`, so that it outlives its terminal.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (SIGHUP - 1)) != 0
}
