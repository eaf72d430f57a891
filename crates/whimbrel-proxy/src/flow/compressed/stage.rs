//! A byte stream between the proxies whose bytes are compressed in both directions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use super::pack::Packer;
use super::paused::Paused;
use super::restart::Restart;
use super::unpack::{Position, Unpacker};
use crate::compress::{Dictionary, Method, Share};
use crate::flow::ends::{Broken, Channel};
use crate::protocol::Cap;

/// How often pieces without bytes for the program are read in one poll before others have a turn.
const TURNS: usize = 16;

/// The bytes of a flow on the link.
#[derive(Debug, Default)]
pub struct LinkBytes {
    to_peer: AtomicU64,
    from_peer: AtomicU64,
}

impl LinkBytes {
    /// Returns the bytes that went to the peer, and that came from it.
    pub fn both(&self) -> (u64, u64) {
        (self.to_peer.load(Ordering::Relaxed), self.from_peer.load(Ordering::Relaxed))
    }
}

/// A byte stream whose bytes are compressed in both directions, in pieces.
///
/// Each write can be read at once at the other end. It holds what it has compressed of one write, and what it has read and
/// not yet undone; it decompresses only as much at a time as it hands on.
#[derive(Debug)]
pub struct Compressed<C> {
    inner: C,
    packer: Packer,
    unpacker: Unpacker,
    /// Pieces that are being written, and the program's bytes in them.
    pieces: VecDeque<Bytes>,
    taken: usize,
    /// The bytes that were read and are not decompressed.
    input: VecDeque<Bytes>,
    link: Arc<LinkBytes>,
    restart: Arc<Restart>,
    /// Whether the direction to the peer has ended.
    is_finished: bool,
    /// Whether the direction from the peer has ended.
    is_ended: bool,
    _share: Option<Share>,
}

impl<C: Channel> Compressed<C> {
    /// Compresses what goes over this channel. `plain` bytes of the peer come in front of its first piece. `share` is
    /// given back at the end.
    pub fn new(
        inner: C,
        method: Method,
        dictionary: Option<Dictionary>,
        plain: usize,
        share: Option<Share>,
    ) -> Self {
        Self {
            inner,
            packer: Packer::new(method, dictionary.clone()),
            unpacker: Unpacker::new(method, dictionary, plain),
            pieces: VecDeque::new(),
            taken: 0,
            input: VecDeque::new(),
            link: Arc::default(),
            restart: Arc::default(),
            is_finished: false,
            is_ended: false,
            _share: share,
        }
    }

    /// Goes on where [`Compressed::pause`] was.
    pub fn resume(inner: C, paused: Paused, dictionary: Option<Dictionary>, share: Option<Share>) -> Self {
        let Paused { method, position, is_finished, link, input, pieces, .. } = paused;
        Self {
            unpacker: Unpacker::at(method, dictionary.clone(), position),
            pieces: Some(pieces).into_iter().filter(|bytes| !bytes.is_empty()).collect(),
            input: [input].into(),
            is_finished,
            link: Arc::new(LinkBytes { to_peer: link.0.into(), from_peer: link.1.into() }),
            ..Self::new(inner, method, dictionary, 0, share)
        }
    }

    /// Returns what goes on elsewhere, and how many bytes of those that are being written it has taken already. `None`
    /// if the receiver needs its context: see [`Channel::settle`].
    pub fn pause(&self) -> Option<(Paused, usize)> {
        let all = |parts: &VecDeque<Bytes>| parts.iter().flatten().copied().collect::<Bytes>();
        let position = self.unpacker.position().or_else(|| self.is_ended.then(Position::default))?;
        let paused = Paused {
            method: self.packer.method(),
            dictionary: self.packer.dictionary().map(Dictionary::id),
            position,
            is_finished: self.is_finished,
            link: self.link.both(),
            input: all(&self.input),
            pieces: all(&self.pieces),
        };
        Some((paused, self.taken))
    }

    /// Returns the handle that begins a new context when the peer wishes one.
    pub fn restart(&self) -> &Arc<Restart> {
        &self.restart
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        while let Some(piece) = self.pieces.front_mut() {
            let before = piece.len();
            ready!(self.inner.poll_write(cx, piece))?;
            self.link.to_peer.fetch_add((before - piece.len()) as u64, Ordering::Relaxed);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The channel that it is around.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// Its bytes on the link.
    pub fn link(&self) -> &Arc<LinkBytes> {
        &self.link
    }
}

impl<C: Channel> Channel for Compressed<C> {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        let before = bytes.len();
        for _ in 0..TURNS {
            if self.unpacker.unpack(&mut self.input, bytes).is_err() {
                return Poll::Ready(Err(Broken::Malformed));
            }
            if bytes.len() > before {
                return Poll::Ready(Ok(true));
            }
            if self.unpacker.is_settled() {
                break;
            }
            if !self.input.is_empty() {
                // It has begun enough pieces for one turn.
                continue;
            }
            let mut came = Vec::new();
            match ready!(self.inner.poll_read(cx, &mut came)) {
                Ok(true) => {
                    let length: usize = came.iter().map(Bytes::len).sum();
                    self.link.from_peer.fetch_add(length as u64, Ordering::Relaxed);
                    self.input.extend(came);
                }
                Ok(false) if self.unpacker.is_whole() => {
                    self.is_ended = true;
                    return Poll::Ready(Ok(false));
                }
                Ok(false) => return Poll::Ready(Err(Broken::Malformed)),
                Err(broken) => return Poll::Ready(Err(broken)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Bytes are removed once their piece is written, so that the caller comes again until it is. A context has taken
    /// them in by then, so they must be the same.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        if self.taken == 0 && !bytes.is_empty() {
            let (taken, pieces) = self.packer.pack(bytes);
            self.taken = taken;
            self.pieces.extend(pieces);
        }
        ready!(self.poll_flush(cx))?;
        bytes.advance(std::mem::take(&mut self.taken));
        Poll::Ready(Ok(()))
    }

    fn gathers(&self) -> usize {
        self.inner.gathers()
    }

    fn poll_gathered(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.poll_gathered(cx)
    }

    fn poll_upkeep(&mut self, cx: &mut Context<'_>) {
        if self.restart.take(cx) && !self.is_finished {
            let end = self.packer.end_context();
            // A peer that reads nothing may wish again and again. One end of a context that waits answers all of that.
            if self.pieces.back() != Some(&end) {
                self.pieces.push_back(end);
            }
        }
        if let Poll::Ready(Err(_)) = self.poll_flush(cx) {
            // The flow hears of that elsewhere.
            self.pieces.clear();
        }
    }

    fn settle(&mut self) {
        self.unpacker.settle();
    }

    fn is_settled(&self) -> bool {
        self.unpacker.is_settled()
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        self.inner.poll_stopped(cx)
    }

    fn is_reachable(&self) -> bool {
        self.inner.is_reachable()
    }

    fn set_priority(&mut self, priority: Option<u8>) {
        self.inner.set_priority(priority);
    }

    fn set_cap(&mut self, cap: Option<Cap>) {
        self.inner.set_cap(cap);
    }

    fn finish(&mut self) {
        debug_assert!(self.taken == 0, "everything was written before");
        // What is left says only that a context has ended, which the end of the direction says, too.
        self.pieces.clear();
        self.is_finished = true;
        self.inner.finish();
    }

    fn reset(&mut self, code: u64) {
        self.inner.reset(code);
    }
}
