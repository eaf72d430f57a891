//! The one clock that all processes of a trial share.

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds. All processes and namespaces of one machine share it.
pub(crate) fn now() -> u64 {
    crate::testbed::monotonic()
}
