//! Standard output that may be closed at any time: a reader that went away is no fault and no panic.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};

use whimbrel::PeerText;

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

/// Lines for people on standard error; if nobody reads them, so be it. What could steer the terminal is escaped: some of it may be the
/// peer's.
pub fn note(line: impl Display) {
    let text = line.to_string();
    let mut lines = text.split('\n').map(PeerText::show);
    drop(lines.try_for_each(|line| writeln!(io::stderr(), "{line}")));
}
