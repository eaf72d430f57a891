//! Which command the other end runs: all commands speak one transport, and each a protocol of its own.

use whimbrel::Message;

/// Code of the abort where the two ends run different commands.
pub(crate) const OTHER_COMMAND: u64 = 5;
/// The words of it, for both ends.
pub(crate) const SENTENCE: &str =
    "one end runs `whimbrel cat` and the other `whimbrel perf`: run the same command at both ends";

/// `whimbrel perf run` begins with this message.
pub(crate) fn is_perf(message: &Message) -> bool {
    message.ppid == Some(1) && message.payload.starts_with(b"{\"start\":")
}

/// `whimbrel cat` marks what is not its input by empty messages, which `whimbrel perf` never sends.
pub(crate) fn is_cat(message: &Message) -> bool {
    matches!(message.ppid, Some(1..=3)) && message.payload.is_empty()
}
