//! A client of a cluster of brokers: it publishes and subscribes, and goes to another broker when its own is gone.
//!
//! ```no_run
//! use whimbrel::{Config, Endpoint};
//! use whimbrel_pubsub::client::{Client, ClientOptions, Event, Publish, Subscribing, endpoint_config};
//!
//! # async fn example(brokers: Vec<whimbrel::Url>) -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::bind(endpoint_config(Config::default()), "[::]:0").await?;
//! let client = Client::start(endpoint, ClientOptions::new(brokers));
//! client.publish(Publish::new("prices/fish", "4.20")).await?.acknowledged().await?;
//!
//! let mut prices = client.subscribe(Subscribing::new("prices/#"));
//! while let Some(event) = prices.recv().await {
//!     if let Event::Message(delivery) = event {
//!         println!("{}: {:?}", delivery.message.topic(), delivery.message.payload());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod backoff;
mod driver;
mod ending;
mod error;
mod link;
mod options;
mod publishing;
mod session;
mod subscribing;
mod subscription;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use whimbrel::Endpoint;

pub use ending::EndError;
pub use error::{ClientError, PublishError};
pub use options::{
    ClientOptions, Durability, LARGEST_PACKET, Publish, Subscribing, allow_large_packets, endpoint_config,
};
pub use publishing::Acknowledgement;
pub use subscribing::{Event, Subscription};

use crate::frame::Welcome;
use link::Link;
use publishing::Outbox;

/// A client. A clone is another handle on it; it ends when all are dropped.
#[derive(Clone, Debug)]
pub struct Client {
    outbox: Arc<Outbox>,
    session: watch::Receiver<Link>,
    _driver: Arc<Driver>,
}

#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Starts a client that connects from `endpoint`, which was bound with [`endpoint_config`].
    pub fn start(endpoint: Endpoint, options: ClientOptions) -> Self {
        let (outbox, submitted) = Outbox::new(endpoint.public_key().as_bytes());
        let outbox = Arc::new(outbox);
        let (link, session) = watch::channel(Link::Searching);
        let driver = driver::run(endpoint, options, Arc::clone(&outbox), submitted, link);
        Self { outbox, session, _driver: Arc::new(Driver(tokio::spawn(driver))) }
    }

    /// Waits until the client is connected. Returns who the broker is.
    ///
    /// # Errors
    /// The client has given up.
    pub async fn connected(&self) -> Result<Welcome, ClientError> {
        let mut session = self.session.clone();
        loop {
            match &*session.borrow_and_update() {
                Link::Up(session) => return Ok(session.welcome().clone()),
                Link::Failed(error) => return Err(error.clone()),
                Link::Searching => {}
            }
            if session.changed().await.is_err() {
                return Err(ClientError::Stopped);
            }
        }
    }

    /// Publishes a message. Waits until it may be sent. What is returned says when a broker has taken it.
    ///
    /// A message that was sent and not acknowledged when the session ended is sent again, and brokers recognise it.
    ///
    /// # Errors
    /// The message cannot be published as it is, or the client has given up.
    pub async fn publish(&self, publish: Publish) -> Result<Acknowledgement, PublishError> {
        self.outbox.submit(publish).await
    }

    /// Subscribes. Events come once the client is connected.
    pub fn subscribe(&self, subscribing: Subscribing) -> Subscription {
        subscribing::start(subscribing, self.session.clone())
    }

    /// Ends a durable subscription of this client's key: brokers keep nothing more for it. Returns whether there was one.
    ///
    /// # Errors
    /// The broker refuses it, or the client has given up.
    pub async fn end_durable(&self, name: &str) -> Result<bool, EndError> {
        ending::end(name, self.session.clone()).await
    }
}
