//! A request to take another connection's place.

use crate::connection::state::Setup;
use crate::handshake::Accepted;

/// A client's request to carry a session on, for [`Connection::handle_resume`](crate::Connection::handle_resume).
#[derive(Debug)]
pub struct Resuming {
    pub(crate) accepted: Accepted,
    pub(crate) setup: Setup,
}
