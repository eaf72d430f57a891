//! The seam to topics: a topic is checked here, and a message keeps it as text.

use super::MessageError;

/// The longest topic, bytes.
const LONGEST: usize = 65_535;

/// Checks that a message may be published under `topic`: not empty, at most 65,535 bytes, without wildcards and NUL (MQTT 5, 4.7).
///
/// # Errors
/// [`MessageError::Topic`] says what is wrong.
pub fn check_topic(topic: &str) -> Result<(), MessageError> {
    match topic.find(['+', '#', '\0']) {
        _ if topic.is_empty() => Err(MessageError::Topic("it is empty")),
        _ if topic.len() > LONGEST => Err(MessageError::Topic("it is longer than 65,535 bytes")),
        Some(_) => Err(MessageError::Topic("it has a wildcard or a NUL in it")),
        None => Ok(()),
    }
}
