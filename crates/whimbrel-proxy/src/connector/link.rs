//! A link to a peer: what a session needs of what carries it.

use bytes::Bytes;
use whimbrel::{CloseReason, Events, EventsError, Mocket, PathState, PathStats};

use super::failure::Failure;
use super::kind::Connector;
use super::messages::{Messages, tag};
use super::network::network;
use super::stream::Stream;
use super::tcp::{TcpLink, TcpWatch};
use crate::policy::Network;
use crate::protocol::{Cap, Manner};

/// The length of gathered messages over TCP: about a packet.
const TCP_MESSAGE: usize = 1_200;

/// Why a link is over.
#[derive(Clone, Debug)]
pub(crate) struct LinkEnd {
    pub(crate) why: String,
    /// This end has closed it, or its endpoint.
    pub(crate) is_local: bool,
}

/// A link to a peer. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    Whimbrel(Mocket),
    Tcp(TcpLink),
}

impl Link {
    /// Returns the connector that carries the link.
    pub(crate) fn connector(&self) -> Connector {
        match self {
            Self::Whimbrel(_) => Connector::Whimbrel,
            Self::Tcp(_) => Connector::Tcp,
        }
    }

    /// Returns the mocket, if it is Whimbrel's.
    pub(crate) fn mocket(&self) -> Option<&Mocket> {
        match self {
            Self::Whimbrel(mocket) => Some(mocket),
            Self::Tcp(_) => None,
        }
    }

    /// Opens a stream with these bytes in front.
    ///
    /// # Errors
    /// The link is over.
    pub(crate) async fn open_stream(&self, opening: Bytes) -> Result<Stream, Failure> {
        match self {
            Self::Whimbrel(mocket) => {
                let opened = mocket.open_stream_with(opening).await;
                opened.map(Stream::Whimbrel).map_err(|_| Failure::Over)
            }
            Self::Tcp(link) => link.open_stream(opening).map(Stream::Tcp),
        }
    }

    /// Waits for a stream that the peer opens. `None`: the link is over. Can be cancelled at any time.
    pub(crate) async fn accept_stream(&self) -> Option<Stream> {
        match self {
            Self::Whimbrel(mocket) => mocket.accept_stream().await.ok().map(Stream::Whimbrel),
            Self::Tcp(link) => link.accept_stream().await.map(Stream::Tcp),
        }
    }

    /// Waits for a message. `None`: the link is over. Can be cancelled at any time.
    pub(crate) async fn recv(&self) -> Option<Bytes> {
        match self {
            Self::Whimbrel(mocket) => mocket.recv().await.ok().map(|message| message.payload),
            Self::Tcp(link) => link.recv().await,
        }
    }

    /// Messages that arrive as long as the link stays.
    pub(crate) fn sure_messages(&self) -> Messages {
        Messages::sure(self)
    }

    /// Messages that may be lost, in this manner.
    pub(crate) fn datagrams(&self, manner: Manner) -> Messages {
        Messages::datagrams(self, manner)
    }

    /// Returns whether the peer can be reached.
    pub(crate) fn is_reachable(&self) -> bool {
        let works = |path: &PathStats| matches!(path.state, PathState::Active | PathState::Standby);
        match self {
            Self::Whimbrel(mocket) => mocket.paths().iter().any(works),
            Self::Tcp(link) => link.is_reachable(),
        }
    }

    /// Follows what may change whether the peer can be reached.
    pub(crate) fn watch(&self) -> LinkWatch {
        match self {
            Self::Whimbrel(mocket) => LinkWatch::Whimbrel(mocket.subscribe()),
            Self::Tcp(link) => LinkWatch::Tcp(link.watch()),
        }
    }

    /// Returns the state of the network towards the peer, as far as it is known.
    pub(crate) fn network(&self) -> Network {
        match self {
            Self::Whimbrel(mocket) => network(mocket),
            Self::Tcp(link) => Network { paths: usize::from(link.is_reachable()), ..Network::default() },
        }
    }

    /// Returns the length of messages that one packet holds.
    pub(crate) fn max_unfragmented(&self) -> usize {
        match self {
            Self::Whimbrel(mocket) => mocket.max_unfragmented(),
            Self::Tcp(_) => TCP_MESSAGE,
        }
    }

    /// Returns whether datagrams under this cap can be sent. Over TCP they have none.
    pub(crate) fn keeps(&self, cap: Cap) -> bool {
        match self {
            Self::Whimbrel(mocket) => mocket.tag(tag(cap)).bandwidth(cap.rate).is_ok(),
            Self::Tcp(_) => true,
        }
    }

    /// Returns whether a stream is open, of either end.
    pub(crate) fn has_streams(&self) -> bool {
        match self {
            Self::Whimbrel(mocket) => !mocket.byte_streams().is_empty(),
            Self::Tcp(link) => link.has_streams(),
        }
    }

    /// Ends the link once everything was sent, and waits for that.
    pub(crate) async fn close(&self, why: &str) {
        match self {
            Self::Whimbrel(mocket) => drop(mocket.close(0, why).await),
            Self::Tcp(link) => link.close(why).await,
        }
    }

    /// Ends the link at once.
    pub(crate) fn abort(&self, why: &str) {
        match self {
            Self::Whimbrel(mocket) => mocket.abort(0, why),
            Self::Tcp(link) => link.abort(why),
        }
    }

    /// Waits until the link is over, and returns why.
    pub(crate) async fn closed(&self) -> LinkEnd {
        match self {
            Self::Whimbrel(mocket) => {
                let why = mocket.closed().await;
                LinkEnd { is_local: why == CloseReason::Local, why: why.to_string() }
            }
            Self::Tcp(link) => {
                let why = link.closed().await.to_string();
                LinkEnd { why, is_local: link.is_closed_here() }
            }
        }
    }
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whimbrel(one), Self::Whimbrel(other)) => one == other,
            (Self::Tcp(one), Self::Tcp(other)) => one == other,
            _ => false,
        }
    }
}

/// Follows what may change whether a peer can be reached.
#[derive(Debug)]
pub(crate) enum LinkWatch {
    Whimbrel(Events),
    Tcp(TcpWatch),
}

impl LinkWatch {
    /// Waits for something new. Returns false once the link is over. Can be cancelled at any time.
    pub(crate) async fn changed(&mut self) -> bool {
        match self {
            Self::Whimbrel(events) => !matches!(events.recv().await, Err(EventsError::Closed)),
            Self::Tcp(watch) => watch.changed().await,
        }
    }
}
