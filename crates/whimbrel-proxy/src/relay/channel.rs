//! A byte stream of a session, as a flow sees it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use whimbrel::{Mocket, PathState, PathStats, Stream, StreamIoError, StreamReader, StreamWriter};

use crate::flow::{Broken, Channel};
use crate::protocol::codes;

/// The most bytes and pieces gathered for one write to the program.
const MOST: usize = 256 * 1024;
const PIECES: usize = 64;

/// A byte stream of a session.
#[derive(Debug)]
pub(crate) struct StreamChannel {
    mocket: Mocket,
    reader: StreamReader,
    writer: StreamWriter,
}

impl StreamChannel {
    /// A stream of this session.
    pub(crate) fn new(mocket: Mocket, stream: Stream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { mocket, reader, writer }
    }
}

fn broken(error: &StreamIoError) -> Broken {
    match error {
        StreamIoError::Reset(code) | StreamIoError::Stopped(code) => Broken::Reset(code.0),
        StreamIoError::Ended => Broken::Reset(codes::RESET),
        _ => Broken::Lost,
    }
}

impl Channel for StreamChannel {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        let mut gathered = 0;
        while gathered < MOST && bytes.len() < PIECES {
            match self.reader.poll_bytes(cx, MOST - gathered) {
                Poll::Ready(Ok(Some(piece))) => {
                    gathered += piece.len();
                    bytes.push(piece);
                }
                // What came before goes first. The end is read again.
                Poll::Ready(_) | Poll::Pending if !bytes.is_empty() => break,
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(false)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(&error))),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(true))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        let taken = ready!(self.writer.poll_bytes(cx, bytes)).map_err(|error| broken(&error));
        Poll::Ready(taken.map(|taken| bytes.advance(taken)))
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        match ready!(self.writer.poll_stopped(cx)) {
            Ok(Some(code)) => Poll::Ready(Broken::Reset(code.0)),
            // Everything was delivered.
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(broken(&error)),
        }
    }

    fn is_reachable(&self) -> bool {
        let works = |path: &PathStats| matches!(path.state, PathState::Active | PathState::Standby);
        self.mocket.paths().iter().any(works)
    }

    fn finish(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        // It never waits. If the peer has stopped the stream, the flow hears of that elsewhere.
        drop(Pin::new(&mut self.writer).poll_shutdown(&mut cx));
    }

    fn reset(&mut self, code: u64) {
        self.writer.reset(code);
        self.reader.stop(code);
    }
}
