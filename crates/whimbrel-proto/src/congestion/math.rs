//! Integer rates and shares that neither overflow nor divide by zero.

use std::time::Duration;

/// 100 % in permille, the unit of gains.
pub(super) const ONE: u64 = 1000;

const NANOS: u64 = 1_000_000_000;

/// The duration in nanoseconds, saturating.
pub(super) fn nanos(duration: Duration) -> u64 {
    crate::time::nanos(duration)
}

/// The rate of `bytes` in `elapsed`, in bytes a second. A zero `elapsed` counts as a nanosecond.
pub(super) fn rate(bytes: u64, elapsed: Duration) -> u64 {
    part(bytes, NANOS, nanos(elapsed).max(1))
}

/// The bytes that `rate` carries in `span`.
pub(super) fn volume(rate: u64, span: Duration) -> u64 {
    part(rate, nanos(span), NANOS)
}

/// The time that `rate` takes for `bytes`; a rate of zero counts as 1.
pub(super) fn span(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(part(bytes, NANOS, rate.max(1)))
}

/// `value × permille / 1000`.
pub(super) fn scale(value: u64, permille: u64) -> u64 {
    part(value, permille, ONE)
}

/// `value × permille / 1000` for a duration.
pub(super) fn stretch(value: Duration, permille: u64) -> Duration {
    Duration::from_nanos(scale(nanos(value), permille))
}

/// `value × times / of`, saturating.
#[inline]
fn part(value: u64, times: u64, of: u64) -> u64 {
    match value.checked_mul(times) {
        // A 128-bit division takes ten times as long, and there are several for each packet.
        Some(product) => product / of,
        None => u64::try_from(u128::from(value) * u128::from(times) / u128::from(of)).unwrap_or(u64::MAX),
    }
}
