//! A test that cannot do its work here must not read as one that passed.

use std::io::Write;

/// Says so past the runner, which hides what tests print: `skipped: TEST: WHY`. `cargo xtask test` counts them.
pub fn skipped(why: &str) {
    let test = std::thread::current();
    let line = format!("skipped: {}: {why}\n", test.name().unwrap_or_default());
    // There is nobody else to tell.
    drop(std::io::stdout().write_all(line.as_bytes()));
}
