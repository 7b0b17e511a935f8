//! Locks a mutex even if a thread panicked while it held the lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also if a thread panicked while it held it. No mutex of this crate protects data that a
/// panic could leave inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
