//! Standard output that may be closed at any time: a reader that went away is no fault and no panic.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};

/// The reader of standard output went away: there is nothing more to do, and nothing to complain about.
#[derive(Debug)]
pub struct OutputClosed;

impl Display for OutputClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for OutputClosed {}

/// An error of standard output, with [`OutputClosed`] told apart.
pub fn output_error(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("cannot write to standard output"),
    }
}

/// Writes a line and flushes it.
///
/// # Errors
/// Standard output cannot be written; [`OutputClosed`] if it is closed.
pub fn print_line(line: Arguments<'_>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(output_error)
}

/// A line for people on standard error; if nobody reads it, so be it.
pub fn note(line: impl Display) {
    drop(writeln!(io::stderr(), "{line}"));
}
