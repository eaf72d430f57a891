//! A session with a broker.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{Endpoint, Mocket, Url};

use crate::frame::{BrokerFrame, ClientFrame, Hello, Welcome};

/// A session in which the broker has said who it is.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    mocket: Mocket,
    welcome: Arc<Welcome>,
}

/// Why there is no session.
pub(super) enum NoSession {
    /// The broker cannot be reached. Another may be.
    Unreachable(String),
    /// It speaks another version.
    NotUnderstood(String),
}

impl Session {
    /// Connects to a broker.
    pub(super) async fn open(
        endpoint: &Endpoint,
        broker: &Url,
        hello: Hello,
        patience: Duration,
    ) -> Result<Self, NoSession> {
        let unreachable = |why: &dyn std::fmt::Display| NoSession::Unreachable(format!("{broker}: {why}"));
        let greet = async {
            let mocket = endpoint.begin_connect(broker).await.map_err(|error| unreachable(&error))?;
            let greeting = async {
                mocket.send(ClientFrame::Hello(hello).encode()).await.map_err(|error| unreachable(&error))?;
                mocket.recv().await.map_err(|error| unreachable(&error))
            };
            let answer = match greeting.await {
                Ok(answer) => answer,
                Err(error) => {
                    mocket.abort(0, "no answer");
                    return Err(error);
                }
            };
            match BrokerFrame::parse(&answer.payload) {
                Ok(BrokerFrame::Welcome(welcome)) => Ok(Self { mocket, welcome: Arc::new(welcome) }),
                _ => Err(NoSession::NotUnderstood("its first message is not a welcome".to_owned())),
            }
        };
        timeout(patience, greet).await.unwrap_or_else(|_| Err(unreachable(&"there is no answer")))
    }

    pub(crate) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    pub(super) fn mocket(&self) -> &Mocket {
        &self.mocket
    }
}
