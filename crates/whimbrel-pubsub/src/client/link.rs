//! The link to a broker, as the parts of a client see it.

use super::error::ClientError;
use super::session::Session;

/// Whether the client is connected.
#[derive(Clone, Debug, Default)]
pub(super) enum Link {
    /// It is looking for a broker. The reason is that of the last failure.
    #[default]
    Searching,
    /// It is connected.
    Up(Session),
    /// It has given up.
    Failed(ClientError),
}
