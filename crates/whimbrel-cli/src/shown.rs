//! Formats quantities for people.

/// Formats a rate in bits per second.
pub(crate) fn bits(per_second: f64) -> String {
    scaled(per_second, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    scaled(bytes as f64, ["B", "kB", "MB", "GB"])
}

/// Formats a number of messages per second.
pub(crate) fn count(value: f64) -> String {
    match value {
        ..100.0 => format!("{value:.1} msg"),
        _ => scaled(value, ["msg", "k msg", "M msg", "G msg"]),
    }
}

/// Formats a count of something, singular or plural.
pub(crate) fn plural(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Formats a duration given in microseconds.
pub(crate) fn delay(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{micros:.0} µs"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

fn scaled(value: f64, units: [&str; 4]) -> String {
    match value {
        ..1e3 => format!("{value:.0} {}", units[0]),
        ..1e6 => format!("{:.2} {}", value / 1e3, units[1]),
        ..1e9 => format!("{:.2} {}", value / 1e6, units[2]),
        _ => format!("{:.2} {}", value / 1e9, units[3]),
    }
}
