//! A connection of this proxy to a target, as a flow uses it.

use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::net::TcpStream;

use super::socket::Socket;
use crate::flow::{Broken, Channel, Program};

/// A connection to the target.
#[derive(Debug)]
pub(crate) struct Direct(Socket);

impl From<TcpStream> for Direct {
    fn from(tcp: TcpStream) -> Self {
        Self(Socket::new(tcp))
    }
}

impl Direct {
    /// See [`Socket::resumed`].
    pub(super) fn resumed(tcp: TcpStream, is_finished: bool) -> Self {
        Self(Socket::resumed(tcp, is_finished))
    }

    pub(super) fn into_inner(self) -> Option<TcpStream> {
        self.0.into_inner()
    }
}

impl Channel for Direct {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        self.0.poll_read(cx).map_ok(|read| {
            let more = read.is_some();
            bytes.extend(read);
            more
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        let mut list = vec![std::mem::take(bytes)];
        let written = self.0.poll_write(cx, &mut list);
        *bytes = list.pop().unwrap_or_default();
        written
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<Broken> {
        // TCP has no word for that: a write fails instead.
        Poll::Pending
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn reset(&mut self, _: u64) {
        self.0.reset();
    }
}
