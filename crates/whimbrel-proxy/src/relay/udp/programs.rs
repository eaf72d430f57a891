//! UDP programs at this end, to which a peer's datagrams are handed. Each peer has its own, so that no peer reaches a
//! program that uses another.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::protocol::Target;

/// Datagrams that wait for a program. Further ones are lost, as in a socket's buffer.
const WAITING: usize = 512;

/// A datagram for a program.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The peer that it came over.
    pub(crate) peer: Arc<str>,
    /// Where it comes from, as the peer says.
    pub(crate) from: Target,
    pub(crate) payload: Bytes,
    /// The bytes that compression has saved.
    pub(crate) saved: usize,
}

/// The UDP programs that use a peer.
#[derive(Debug)]
pub struct Programs {
    peer: Arc<str>,
    all: Mutex<HashMap<SocketAddr, mpsc::Sender<Reply>>>,
    /// The queue for everything that belongs to ICMP echo, of all programs.
    echoes: Mutex<Option<mpsc::Sender<EchoReply>>>,
}

/// A reply to an ICMP echo request, with the program that asked.
pub(crate) type EchoReply = (SocketAddr, Reply);

/// A UDP program that uses a peer. Dropping it takes it out.
#[derive(Debug)]
pub struct ProgramGuard {
    programs: Arc<Programs>,
    address: SocketAddr,
    replies: mpsc::Sender<Reply>,
}

/// A queue for the replies to a program.
pub(crate) fn replies() -> (mpsc::Sender<Reply>, mpsc::Receiver<Reply>) {
    mpsc::channel(WAITING)
}

impl Programs {
    /// Those that use this peer: so far none.
    pub(crate) fn new(peer: &Arc<str>) -> Self {
        Self { peer: Arc::clone(peer), all: Mutex::default(), echoes: Mutex::default() }
    }

    /// Adds a program, by the address it sends from. One that was there under this address gets nothing more.
    pub(crate) fn add(self: &Arc<Self>, address: SocketAddr, replies: mpsc::Sender<Reply>) -> ProgramGuard {
        self.lock().insert(address, replies.clone());
        ProgramGuard { programs: Arc::clone(self), address, replies }
    }

    /// Returns a queue into which everything goes from now on that belongs to ICMP echo.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only TPROXY carries ICMP echo"))]
    pub(crate) fn echoes(&self) -> mpsc::Receiver<EchoReply> {
        let (sender, receiver) = mpsc::channel(WAITING);
        *self.echoes.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    /// Hands on what belongs to a program's ICMP echo.
    pub(super) fn hand_over_echo(&self, program: SocketAddr, from: Target, payload: Bytes) {
        let echoes = self.echoes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(echoes) = echoes {
            // A full queue loses it.
            let reply = Reply { peer: Arc::clone(&self.peer), from, payload, saved: 0 };
            echoes.try_send((program, reply)).ok();
        }
    }

    /// Hands a datagram to a program, if there is one.
    pub(super) fn hand_over(&self, program: SocketAddr, from: Target, payload: Bytes, saved: usize) {
        let replies = self.lock().get(&program).cloned();
        if let Some(replies) = replies {
            // A full queue loses the datagram.
            replies.try_send(Reply { peer: Arc::clone(&self.peer), from, payload, saved }).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, mpsc::Sender<Reply>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProgramGuard {
    fn drop(&mut self) {
        let mut programs = self.programs.lock();
        // It may be another's by now.
        if programs.get(&self.address).is_some_and(|replies| replies.same_channel(&self.replies)) {
            programs.remove(&self.address);
        }
    }
}
