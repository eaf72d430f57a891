//! Which connection carries the session next, and who may ask for it.

use super::attachment::Attachment;
use super::redial::Redial;
use super::suspended::Suspended;
use crate::Time;
use crate::connection::state::Connection;
use crate::crypto::PublicKey;

/// See the module.
#[derive(Default)]
pub(in crate::connection) struct Succession {
    pub(in crate::connection) attachment: Attachment,
    /// Named by our SUSPEND.
    pub(in crate::connection) own_heir: Option<Box<PublicKey>>,
    /// RESUME is asked and not answered.
    pub(in crate::connection) resuming: bool,
    /// Pending, and only to say no.
    pub(in crate::connection) refusal: bool,
    /// Connections that may take this one's place.
    pub(in crate::connection) pending: Vec<Connection>,
    /// The connection that is to carry the session next.
    pub(in crate::connection) dial: Option<Box<Redial>>,
    /// The session that left, and when.
    pub(in crate::connection) suspended: Option<Box<(Time, Suspended)>>,
}
