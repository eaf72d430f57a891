//! Prints the events of a mocket, from the handshake to the close. `Closed` is always the last event.

use std::error::Error;

use whimbrel::EventsError;
use whimbrel::{Config, Endpoint, Event, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);

    // Subscribes before the handshake, to receive `Connected`, too.
    let near = client.begin_connect(&url).await?;
    let mut events = near.subscribe();
    let far = server.accept().await.ok_or("the endpoint is closed")?;
    near.send("hello").await?;
    far.recv().await?;
    far.begin_close(1, "the shift is over");

    loop {
        match events.recv().await {
            Ok(Event::PeerUnreachable) => println!("silence: the link is down or the peer is gone"),
            Ok(Event::PeerReachable) => println!("heard again"),
            Ok(Event::PeerAddressChanged { from, to, .. }) => println!("the peer moved from {from} to {to}"),
            Ok(Event::MaxUnfragmented(bytes)) => println!("up to {bytes} bytes travel in one packet"),
            Ok(Event::Closed(reason)) => {
                println!("closed: {reason}");
                return Ok(());
            }
            Ok(other) => println!("{other:?}"),
            Err(EventsError::Missed(missed)) => println!("{missed} events were missed"),
            Err(EventsError::Closed) => return Ok(()),
        }
    }
}
