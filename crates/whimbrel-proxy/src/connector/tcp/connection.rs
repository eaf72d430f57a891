//! The TCP connection of a link, before keys are proven.

use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

/// How long the handshake may take.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(5);
/// The bytes that the system holds and has not sent. More would only make what comes next wait longer.
const UNSENT: u32 = 64 * 1024;

/// Sets what a connection of a link has. What a system does not know, it does without.
pub(super) fn prepare(stream: &TcpStream) {
    stream.set_nodelay(true).ok();
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_notsent_lowat(UNSENT).ok();
        socket.set_tcp_user_timeout(Some(super::link::GONE)).ok();
    }
    socket.set_keepalive(true).ok();
}
