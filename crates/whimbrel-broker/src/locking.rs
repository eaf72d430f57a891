//! Locking a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a panic elsewhere poisoned it: no lock here is held over a change that can panic half-way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
