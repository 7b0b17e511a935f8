//! Work without the GIL that ends when Python receives a signal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::FailedError;

/// How often Python's signals are looked at. Ctrl-C has to end work within 0.2 s.
const LOOK: Duration = Duration::from_millis(50);

/// Does `work` on a thread of its own, and sets its flag when Python's handler of a signal raises.
///
/// # Errors
/// What the handler raised, as `KeyboardInterrupt`.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let interrupt = AtomicBool::new(false);
    let caller = thread::current();
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("flashlab".to_owned()).spawn_scoped(scope, || {
            /// Wakes the caller at the end, also at a panic.
            struct Wake(thread::Thread);
            impl Drop for Wake {
                fn drop(&mut self) {
                    self.0.unpark();
                }
            }
            let _wake = Wake(caller);
            work(&interrupt)
        });
        let worker =
            worker.map_err(|error| FailedError::new_err(format!("no thread can be started: {error}")))?;
        let mut raised = Ok(());
        while !worker.is_finished() {
            py.detach(|| thread::park_timeout(LOOK));
            if raised.is_ok() {
                raised = py.check_signals();
                interrupt.fetch_or(raised.is_err(), Ordering::Relaxed);
            }
        }
        let result = py.detach(|| worker.join());
        raised?;
        Ok(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
