//! Standard output that may be closed at any time: if its reader is gone, that is neither an error nor a panic.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};

use whimbrel::PeerText;

/// The reader of standard output is gone: there is nothing more to do, and nothing to report.
#[derive(Debug)]
pub struct OutputClosed;

impl Display for OutputClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for OutputClosed {}

/// Converts an error of standard output; a closed one becomes [`OutputClosed`].
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

/// Prints lines for people on standard error, and ignores failures. Characters that could steer the terminal are
/// escaped, because parts may come from the peer.
pub fn note(line: impl Display) {
    let text = line.to_string();
    let mut lines = text.split('\n').map(PeerText::show);
    drop(lines.try_for_each(|line| writeln!(io::stderr(), "{line}")));
}
