//! The one clock that all processes of a trial share.

/// Nanoseconds of `CLOCK_MONOTONIC`: the same in all processes and namespaces of one machine.
pub(crate) fn now() -> u64 {
    crate::testbed::monotonic()
}
