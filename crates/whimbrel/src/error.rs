//! Error types, one enum per operation. Each message says what happened and what to do.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use whimbrel_proto::{CloseReason, OpenPathError, UrlError};

use crate::stream_code::StreamCode;

/// An error from binding an endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// No tokio runtime is running here, which would drive the endpoint.
    #[error(
        "there is no tokio runtime here: bind within one, for example in a function under #[tokio::main]"
    )]
    NoRuntime,
    /// The text is not of the form `address:port`.
    #[error("{0:?} is not an address to bind: write it as 0.0.0.0:4433 or [::]:4433")]
    Address(String),
    /// The system refuses to bind this address.
    #[error(
        "cannot bind {0}: {1}; choose an address of this host and a port that is free, or port 0 for any"
    )]
    System(SocketAddr, io::Error),
    /// The socket that was passed in cannot be used.
    #[error("cannot use this socket: {0}; pass a bound UDP socket")]
    Socket(io::Error),
    /// The sockets cannot be marked.
    #[error("cannot mark packets: {0}; marks need Linux and CAP_NET_ADMIN: run with it, or set no mark")]
    Mark(io::Error),
    /// The sockets for several receive loops cannot be opened.
    #[error(
        "cannot open {loops} sockets on one address: {error}; set `receive_loops` to 1, or leave it unset"
    )]
    ReceiveLoops {
        /// The number of loops asked for.
        loops: usize,
        /// The system's error.
        error: io::Error,
    },
    /// The folder for qlog recordings cannot be created.
    #[error(
        "cannot make the folder {path:?} for recordings: {error}; name another in WHIMBREL_QLOG_DIR, or unset it"
    )]
    QlogDir {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The key log cannot be opened.
    #[error(
        "cannot write the key log {path:?}: {error}; name another file in WHIMBREL_KEYLOGFILE, or unset it"
    )]
    KeyLog {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// An error from importing tickets: the bytes are no exported tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not exported tickets: delete the file; the next connection starts a new one")]
pub struct TicketsError;

/// An error from connecting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL does not parse.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL names no key, and nothing else says which key to trust.
    #[error("the URL names no key: write whimbrel://KEY@host:port, or trust on first use")]
    KeyMissing,
    /// The host name does not resolve to an address.
    #[error("cannot find the address of {host}: {error}; check the name, or write an address")]
    Resolve {
        /// The host name as in the URL.
        host: String,
        /// The resolver's error.
        error: io::Error,
    },
    /// The endpoint is bound to an address of one family, and the peer has addresses of the other only.
    #[error(
        "{host} has no address in the family of {local}: bind to an address of its family, or to [::]:0 for both"
    )]
    Family {
        /// The host as in the URL.
        host: String,
        /// The address that the endpoint is bound to.
        local: SocketAddr,
    },
    /// None of the local addresses in `paths` can be used to reach this peer.
    #[error("no address in `paths` belongs to this host now and to the family of {0}: add one, or use Auto")]
    NoPath(SocketAddr),
    /// The endpoint was closed with [`Endpoint::close`](crate::Endpoint::close).
    #[error("the endpoint was closed: bind another")]
    EndpointClosed,
    /// The handshake ended without a connection.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// An error from sending a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send queue is full. Wait with `send`, or cancel something.
    #[error(
        "the send queue is full: await send, cancel something, or raise send_queue_bytes or send_queue_messages"
    )]
    QueueFull,
    /// The send queue stayed full for the whole enqueue limit.
    #[error(
        "the send queue stayed full for the whole enqueue limit: send less, cancel something, or raise the limit"
    )]
    EnqueueTimedOut,
    /// The message is longer than the peer accepts.
    #[error("the message is longer than the {limit} bytes the peer accepts: split it or use a byte stream")]
    TooLarge {
        /// The longest message that the peer accepts, bytes.
        limit: u64,
    },
    /// The mocket is closed.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
    /// The stream takes no messages: it was not opened for messages, or it has ended.
    #[error(
        "this stream carries no messages: it was not opened for them or has ended. Open another, or send on the mocket"
    )]
    NoStream,
    /// The tag is not below 2^62.
    #[error("the tag is too large: use one below 2^62")]
    TagTooLarge,
    /// More tags are in use than the session keeps (`max_tags`).
    #[error("too many tags are in use: reuse them, or raise max_tags")]
    TooManyTags,
}

/// An error from opening a path, or from choosing the addresses of paths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The address does not belong to this host.
    #[error("{0} is not an address of this host now: `ip address` lists them")]
    NotLocal(IpAddr),
    /// The system cannot open a socket on this address.
    #[error("cannot open a socket on {0}: {1}; try again, or name another address")]
    System(IpAddr, io::Error),
    /// The connection can open no path now, or this end may not open one.
    #[error(transparent)]
    Refused(#[from] OpenPathError),
}

/// The mocket is closed and everything received before was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mocket is closed: {0}")]
pub struct Closed(pub CloseReason);

/// An error from receiving on a message stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamRecvError {
    /// The peer has dropped its end, and everything received before was read.
    #[error("the stream has ended: the peer sends no more on it")]
    Ended,
    /// The mocket is closed, and everything received before was read.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
}

/// An error from setting a stream's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamOptionsError {
    /// There is no open message stream with this number.
    #[error("no message stream has this number: it was not opened for messages, or the mocket is closed")]
    NoStream,
    /// A stream that keeps only the latest messages needs a reader of its own.
    #[error(
        "this stream's messages go to the mocket's inbox: open or accept it as a MessageStream to keep the latest only"
    )]
    SharedInbox,
}

/// An error from reading or writing a byte stream. The [`io::Error`] of the `tokio::io` traits wraps it, and
/// [`StreamIoError::of`] returns it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamIoError {
    /// A read failed because the peer reset its writing direction with this code
    /// ([`io::ErrorKind::ConnectionReset`]). The code is 0 if the peer dropped the stream without `shutdown`.
    #[error("the peer reset the stream with code {0}: what it wrote may not be whole")]
    Reset(StreamCode),
    /// A write failed because the peer stopped reading, with this code ([`io::ErrorKind::BrokenPipe`]). The code is 0
    /// if the peer dropped the stream.
    #[error("the peer stopped the stream with code {0}: it reads no more")]
    Stopped(StreamCode),
    /// This end has ended the direction itself ([`io::ErrorKind::BrokenPipe`]).
    #[error("this end has ended this direction of the stream: open another stream to send more")]
    Ended,
    /// The mocket is closed, and everything received before was read ([`io::ErrorKind::ConnectionAborted`]). With
    /// [`CloseReason::Suspended`], unread data is in the suspended session.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
}

impl StreamIoError {
    /// Returns the stream error inside an [`io::Error`] from the `tokio::io` traits, if it holds one.
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

/// An error from opening a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamOpenError {
    /// The mocket is closed.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
    /// The session is closing and opens no more streams.
    #[error("the mocket is closing and opens no more streams: connect again")]
    Closing,
    /// The opening is longer than [`MAX_OPENING`](crate::MAX_OPENING) bytes.
    #[error("the opening is longer than 1,024 bytes: write the rest on the stream")]
    OpeningTooLong,
    /// The peer's version of the protocol does not support openings.
    #[error(
        "the peer runs an older version without openings: open the stream without one, or update the peer"
    )]
    NoOpenings,
}
