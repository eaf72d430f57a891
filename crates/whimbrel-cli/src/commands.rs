//! Detects which command the other end runs. All commands share one transport, but each has its own protocol.

use whimbrel::Message;

/// The code of the abort where the two ends run different commands.
pub(crate) const OTHER_COMMAND: u64 = 5;
/// The text of that abort, for both ends.
pub(crate) const SENTENCE: &str =
    "one end runs `whimbrel cat` and the other `whimbrel perf`: run the same command at both ends";

/// The application protocol that a connecting `whimbrel cat` names, so that the other end knows it before it says
/// anything. `whimbrel perf` names none.
pub(crate) const CAT: &str = "whimbrel-cat";

/// Returns whether this is the first message of `whimbrel perf run`.
pub(crate) fn is_perf(message: &Message) -> bool {
    message.ppid == Some(1) && message.payload.starts_with(b"{\"start\":")
}

/// Returns whether the message is from `whimbrel cat`, which marks control messages by being empty; `whimbrel perf`
/// sends no empty messages.
pub(crate) fn is_cat(message: &Message) -> bool {
    matches!(message.ppid, Some(1..=3)) && message.payload.is_empty()
}
