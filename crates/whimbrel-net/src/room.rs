//! Waiting for room in the send buffer of a socket.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

/// A second descriptor of a socket, by which its senders wait for room.
///
/// The system reports room each time that a datagram has left. If a socket were always watched for room, each datagram sent
/// would end somebody's wait for datagrams. So the socket itself is watched for datagrams only, and this descriptor while a
/// sender waits.
#[derive(Debug)]
pub(crate) struct Room {
    socket: UdpSocket,
    /// A descriptor can be watched once at a time, so senders wait in turn.
    turn: Mutex<()>,
}

impl Room {
    /// The room of this socket.
    pub(crate) fn of(socket: &UdpSocket) -> io::Result<Self> {
        Ok(Self { socket: socket.try_clone()?, turn: Mutex::new(()) })
    }

    /// Waits until there may be room. Cancel-safe.
    pub(crate) async fn wait(&self) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        #[allow(unsafe_code, reason = "the runtime cannot know whether a descriptor stays open")]
        // SAFETY: the descriptor is this socket's, which outlives the borrow.
        let watched = unsafe { AsyncFd::register_with_interest(self.socket.as_fd(), Interest::WRITABLE) }?;
        watched.writable().await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    /// A UDP socket on loopback is never full. A local one waits for its reader, and is watched in the same way.
    #[tokio::test]
    async fn all_who_wait_are_told_of_room_each_time() {
        let (full, reader) = UnixDatagram::pair().unwrap();
        full.set_nonblocking(true).unwrap();
        reader.set_nonblocking(true).unwrap();
        let room = Arc::new(Room::of(&OwnedFd::from(full.try_clone().unwrap()).into()).unwrap());
        for _ in 0..3 {
            while full.send(&[0; 1_000]).is_ok() {}
            let wait = |room: &Arc<Room>| {
                let room = Arc::clone(room);
                tokio::spawn(async move { room.wait().await })
            };
            let (gives_up, first, second) = (wait(&room), wait(&room), wait(&room));
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert!(!first.is_finished() && !second.is_finished(), "there is no room");
            gives_up.abort();
            while reader.recv(&mut [0; 1_000]).is_ok() {}
            first.await.unwrap().unwrap();
            second.await.unwrap().unwrap();
        }
    }
}
