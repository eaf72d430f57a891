//! A program's connection as a flow sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::connection::Connection;
use super::machine::{Machine, Read};
use crate::flow::{Broken, Program};
use crate::relay::{Userspace, drop_front};

/// A program's connection. Unless it was finished, dropping it resets it.
#[derive(Debug)]
pub(super) struct UserspaceProgram {
    connection: Arc<Connection>,
    is_finished: bool,
}

impl UserspaceProgram {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, is_finished: false }
    }
}

impl Program for UserspaceProgram {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        self.connection.act(|machine| match machine.read() {
            Read::Bytes(bytes) => Poll::Ready(Ok(Some(bytes))),
            Read::End => Poll::Ready(Ok(None)),
            Read::Reset => Poll::Ready(Err(Broken::Reset(0))),
            Read::Nothing => {
                machine.wake_reader(cx.waker());
                Poll::Pending
            }
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<(), Broken>> {
        self.connection.act(|machine| {
            let mut all = 0;
            for part in &*bytes {
                let Some(written) = machine.write(part) else { return Poll::Ready(Err(Broken::Reset(0))) };
                all += written;
                if written < part.len() {
                    break;
                }
            }
            if all == 0 {
                machine.wake_writer(cx.waker());
                return Poll::Pending;
            }
            drop_front(bytes, all);
            Poll::Ready(Ok(()))
        })
    }

    fn finish(&mut self) {
        self.is_finished = true;
        self.connection.act(Machine::finish);
    }

    fn reset(&mut self) {
        self.is_finished = false;
        self.connection.abort();
    }
}

impl Userspace for UserspaceProgram {
    fn was_reset(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.connection.was_reset())
    }
}

impl Drop for UserspaceProgram {
    fn drop(&mut self) {
        self.connection.leave(self.is_finished);
    }
}
