//! UDP programs at this end, to which replies are handed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::protocol::Target;

/// Datagrams that wait for a program. Further ones are lost, as in a socket's buffer.
const WAITING: usize = 512;

/// The UDP programs at this end.
#[derive(Debug, Default)]
pub struct Programs(Mutex<HashMap<SocketAddr, mpsc::Sender<(Target, Bytes)>>>);

/// A UDP program at this end. Dropping it takes it out.
#[derive(Debug)]
pub struct Program {
    programs: Arc<Programs>,
    address: SocketAddr,
    replies: mpsc::Receiver<(Target, Bytes)>,
}

impl Programs {
    /// Adds a program, by the address it sends from. One that was there under this address gets nothing more.
    pub fn add(self: &Arc<Self>, address: SocketAddr) -> Program {
        let (send, replies) = mpsc::channel(WAITING);
        self.lock().insert(address, send);
        Program { programs: Arc::clone(self), address, replies }
    }

    /// Hands a datagram to a program. False: there is no such program.
    pub(super) fn hand_over(&self, program: SocketAddr, from: Target, payload: Bytes) -> bool {
        let send = self.lock().get(&program).cloned();
        // A full queue loses the datagram.
        send.is_some_and(|send| {
            !matches!(send.try_send((from, payload)), Err(mpsc::error::TrySendError::Closed(_)))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SocketAddr, mpsc::Sender<(Target, Bytes)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program {
    /// Returns the address that the program sends from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a reply: where it comes from, and its payload. `None`: another has taken the address. Cancel-safe.
    pub async fn reply(&mut self) -> Option<(Target, Bytes)> {
        self.replies.recv().await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.replies.close();
        let mut programs = self.programs.lock();
        // It may be another's by now.
        if programs.get(&self.address).is_some_and(mpsc::Sender::is_closed) {
            programs.remove(&self.address);
        }
    }
}
