//! The connection that carries the session next, and who may ask for it.

use super::attachment::Attachment;
use super::redial::Redial;
use super::suspended::Suspended;
use crate::Time;
use crate::connection::state::Connection;
use crate::crypto::PublicKey;

/// The state of suspending, resuming and reattaching.
#[derive(Default)]
pub(in crate::connection) struct Succession {
    pub(in crate::connection) attachment: Attachment,
    /// The heir that our SUSPEND named.
    pub(in crate::connection) own_heir: Option<Box<PublicKey>>,
    /// Whether RESUME was sent and is not answered yet.
    pub(in crate::connection) resuming: bool,
    /// Whether this pending connection only serves to refuse a RESUME.
    pub(in crate::connection) refusal: bool,
    /// Connections that may take this one's place.
    pub(in crate::connection) pending: Vec<Connection>,
    /// The handshake of the connection that is to carry the session next.
    pub(in crate::connection) dial: Option<Box<Redial>>,
    /// The suspended session, and when it was suspended.
    pub(in crate::connection) suspended: Option<Box<(Time, Suspended)>>,
}
