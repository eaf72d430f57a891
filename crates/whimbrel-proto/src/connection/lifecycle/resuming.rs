//! A connection that wants to take another one's place.

use crate::connection::state::Setup;
use crate::handshake::Accepted;

/// A client that wants a session to go on: for [`Connection::handle_resume`](crate::Connection::handle_resume).
pub struct Resuming {
    pub(crate) accepted: Accepted,
    pub(crate) setup: Setup,
}
