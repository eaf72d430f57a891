//! The two ends of a stream over TCP that a flow holds.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};

use super::link::TcpLink;
use crate::connector::failure::Failure;

/// A stream. See [`whimbrel::Stream`], whose manners it has.
#[derive(Debug)]
pub(crate) struct TcpStreamEnds {
    opening: Bytes,
    reader: TcpReader,
    writer: TcpWriter,
}

/// The direction from the peer. Dropping it before its end was read tells the peer.
#[derive(Debug)]
pub(crate) struct TcpReader {
    link: TcpLink,
    id: u64,
}

/// The direction to the peer. Dropping it before it was finished resets it.
#[derive(Debug)]
pub(crate) struct TcpWriter {
    link: TcpLink,
    id: u64,
}

impl TcpStreamEnds {
    pub(super) fn new(link: TcpLink, id: u64, opening: Bytes) -> Self {
        Self { opening, reader: TcpReader { link: link.clone(), id }, writer: TcpWriter { link, id } }
    }

    /// The content of the peer's opening.
    pub(crate) fn opening(&self) -> &Bytes {
        &self.opening
    }

    pub(crate) fn reader(&mut self) -> &mut TcpReader {
        &mut self.reader
    }

    pub(crate) fn writer(&mut self) -> &mut TcpWriter {
        &mut self.writer
    }

    pub(crate) fn into_split(self) -> (TcpReader, TcpWriter) {
        (self.reader, self.writer)
    }
}

impl TcpReader {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Reads the next bytes, at most so many. `None`: the end.
    pub(crate) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        let read = self.link.shared().mux().poll_read(self.id, most, cx);
        read.map_ok(|bytes| Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// Asks the peer to write no more.
    pub(crate) fn stop(&mut self, code: u64) {
        self.link.shared().mux().stop(self.id, code);
    }
}

impl TcpWriter {
    /// Writes as many bytes as there is room for, at least one.
    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>, bytes: &Bytes) -> Poll<Result<usize, Failure>> {
        self.link.shared().mux().poll_write(self.id, bytes, cx)
    }

    /// Writes all bytes.
    pub(crate) async fn write_bytes(&mut self, mut bytes: Bytes) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let taken = poll_fn(|cx| self.poll_bytes(cx, &bytes)).await?;
            bytes.advance(taken);
        }
        Ok(())
    }

    /// Waits until the peer reads no more, and returns its code. That it has read everything is not known here.
    pub(crate) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Failure>> {
        self.link.shared().mux().poll_stopped(self.id, cx)
    }

    /// Ends the direction. What was written goes first.
    pub(crate) fn finish(&mut self) {
        self.link.shared().mux().finish(self.id);
    }

    /// Ends it early.
    pub(crate) fn reset(&mut self, code: u64) {
        self.link.shared().mux().reset(self.id, code);
    }
}

impl Drop for TcpReader {
    fn drop(&mut self) {
        self.link.shared().mux().drop_reader(self.id);
    }
}

impl Drop for TcpWriter {
    fn drop(&mut self) {
        self.link.shared().mux().drop_writer(self.id);
    }
}
