//! Errors, an enum an operation; each says what happened and what to do.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use whimbrel_proto::{CloseReason, OpenPathError, UrlError};

use crate::stream_code::StreamCode;

/// Binding an endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Not `address:port`.
    #[error("{0:?} is no address to bind: write it as 0.0.0.0:4433 or [::]:4433")]
    Address(String),
    /// The system refuses.
    #[error(
        "cannot bind {0}: {1}; choose an address of this host and a port that is free, or port 0 for any"
    )]
    System(SocketAddr, io::Error),
    /// The socket that was handed in cannot be used.
    #[error("cannot use this socket: {0}; hand in a UDP socket that is bound")]
    Socket(io::Error),
    /// The folder of recordings cannot be made.
    #[error(
        "cannot make the folder {path:?} for recordings: {error}; name another in WHIMBREL_QLOG_DIR, or unset it"
    )]
    QlogDir {
        /// Which folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The key log cannot be opened.
    #[error(
        "cannot write the key log {path:?}: {error}; name another file in WHIMBREL_KEYLOGFILE, or unset it"
    )]
    KeyLog {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Importing tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no exported tickets: delete the file, the next connection starts a new one")]
pub struct TicketsError;

/// Connecting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL does not parse.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL names no key and nothing else says whom to trust.
    #[error("the URL names no key: write whimbrel://KEY@host:port, or trust on first use")]
    KeyMissing,
    /// The host name has no address.
    #[error("cannot find the address of {host}: {error}")]
    Resolve {
        /// As in the URL.
        host: String,
        /// What the resolver says.
        error: io::Error,
    },
    /// None of the addresses that `paths` names can begin the connection.
    #[error(
        "none of the addresses in `paths` is this host's now and of the family of {0}: name others, or leave it to Auto"
    )]
    NoPath(SocketAddr),
    /// [`crate::Endpoint::close`] was called.
    #[error("the endpoint was closed: bind another")]
    EndpointClosed,
    /// The handshake ended without a connection.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// Sending a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is full: wait with `send`, or drop something.
    #[error(
        "the send queue is full: await send, cancel something, or raise send_queue_bytes or send_queue_messages"
    )]
    QueueFull,
    /// The time for entering the queue passed while it was full.
    #[error(
        "the send queue stayed full for the whole enqueue limit: send less, cancel something, or raise the limit"
    )]
    EnqueueTimedOut,
    /// Longer than the peer takes.
    #[error("the message is longer than the {limit} bytes the peer takes: split it or use a byte stream")]
    TooLarge {
        /// Bytes.
        limit: u64,
    },
    /// The mocket is closed.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
    /// The mocket, or this stream, takes no more messages.
    #[error("this stream takes no messages: it was not opened for them, or has ended")]
    NoStream,
    /// Tags are numbers below 2^62.
    #[error("the tag is too large: use one below 2^62")]
    TagTooLarge,
    /// More tags than the session keeps.
    #[error("too many tags are in use: reuse them, or raise max_tags")]
    TooManyTags,
}

/// Opening a path, or choosing addresses for paths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// No address of this host.
    #[error("{0} is no address of this host now: `ip address` lists them")]
    NotLocal(IpAddr),
    /// The system gives no socket there.
    #[error("cannot open a socket on {0}: {1}")]
    System(IpAddr, io::Error),
    /// Not now, or not by this end.
    #[error(transparent)]
    Refused(#[from] OpenPathError),
}

/// Receiving: the mocket is closed and everything that came before was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mocket is closed: {0}")]
pub struct Closed(pub CloseReason);

/// Receiving on a stream of messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamRecvError {
    /// The peer has dropped its end, and everything that came before was read.
    #[error("the stream has ended: the peer sends no more on it")]
    Ended,
    /// The mocket is closed and everything that came before was read.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
}

/// Setting a stream's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamOptionsError {
    /// No message stream of this number, or none any more.
    #[error("no message stream has this number: it was not opened for messages, or the mocket is closed")]
    NoStream,
    /// A stream that keeps the latest only needs a reader of its own.
    #[error(
        "this stream's messages go to the mocket's inbox: open or accept it as a MessageStream to keep the latest only"
    )]
    SharedInbox,
}

/// Reading or writing a byte stream: what the [`io::Error`] of `tokio::io` holds, and [`StreamIoError::of`] gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamIoError {
    /// Reading, [`io::ErrorKind::ConnectionReset`]: the peer gave up writing, with this code; 0 if it dropped the stream without `shutdown`.
    #[error("the peer reset the stream with code {0}: what it wrote may not be whole")]
    Reset(StreamCode),
    /// Writing, [`io::ErrorKind::BrokenPipe`]: the peer reads no more, and gave this code; 0 if it dropped the stream.
    #[error("the peer stopped the stream with code {0}: it reads no more")]
    Stopped(StreamCode),
    /// [`io::ErrorKind::BrokenPipe`]: this end has ended the direction itself.
    #[error("this end has ended this direction of the stream")]
    Ended,
    /// [`io::ErrorKind::ConnectionAborted`]: the mocket is closed, and everything that came before was read. With
    /// [`CloseReason::Suspended`] what was not read is in the suspended session.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
}

impl StreamIoError {
    /// Why a stream failed, where `tokio::io` says that it did.
    ///
    /// ```
    /// # fn example(error: std::io::Error) {
    /// use whimbrel::{StreamCode, StreamIoError};
    ///
    /// match StreamIoError::of(&error) {
    ///     Some(StreamIoError::Reset(StreamCode::DROPPED)) => println!("the peer's program dropped the stream"),
    ///     Some(StreamIoError::Reset(code)) => println!("the peer gave up: {code}"),
    ///     _ => println!("{error}"),
    /// }
    /// # }
    /// ```
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<StreamIoError> for io::Error {
    fn from(error: StreamIoError) -> Self {
        let kind = match error {
            StreamIoError::Reset(_) => io::ErrorKind::ConnectionReset,
            StreamIoError::Stopped(_) | StreamIoError::Ended => io::ErrorKind::BrokenPipe,
            StreamIoError::Closed(_) => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, error)
    }
}

/// Opening a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamOpenError {
    /// The mocket is closed.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
    /// The session is closing.
    #[error("the mocket is closing and opens no more streams: connect anew")]
    Closing,
    /// The opening is longer than [`crate::MAX_OPENING`] bytes.
    #[error("the opening is longer than 1,024 bytes: write the rest on the stream")]
    OpeningTooLong,
    /// The peer's version of the protocol has no openings.
    #[error("the peer takes no openings, being of an older version: open the stream without, or update it")]
    NoOpenings,
}
