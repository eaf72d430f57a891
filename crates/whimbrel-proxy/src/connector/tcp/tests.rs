//! Tests of links over real connections.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use whimbrel::{PublicKey, Url, new_identity};

use super::*;
use crate::connector::failure::Failure;

const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    links: mpsc::UnboundedReceiver<TcpLink>,
    address: SocketAddr,
    far: PublicKey,
    near: Keys,
}

async fn world() -> World {
    let keys = || Keys { identity: new_identity(), psk: None };
    let (near, far) = (keys(), keys());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (take, links) = mpsc::unbounded_channel();
    let (admitted, public) = (near.identity.public(), far.identity.public());
    tokio::spawn(serve(listener, far, move |key| *key == admitted, move |link| take.send(link).unwrap()));
    World { links, address, far: public, near }
}

impl World {
    fn url(&self) -> Url {
        Url { key: Some(self.far), host: self.address.ip().to_string(), port: self.address.port() }
    }

    async fn pair(&mut self) -> (TcpLink, TcpLink) {
        let near = dial(&self.url(), &self.far, &self.near, None).await.unwrap();
        (near, self.next().await)
    }

    async fn next(&mut self) -> TcpLink {
        tokio::time::timeout(PATIENCE, self.links.recv()).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_link_carries_streams_and_messages_and_says_why_it_ends() {
    let mut world = world().await;
    let (near, far) = world.pair().await;
    assert_eq!(far.peer_key(), world.near.identity.public());
    let (mut reader, mut writer) = near.open_stream("open".into()).unwrap().into_split();
    let mut served = far.accept_stream().await.unwrap();
    assert_eq!(served.opening(), "open");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let whole = sent.clone();
    let writing = tokio::spawn(async move {
        writer.write_bytes(whole.into()).await.unwrap();
        writer.finish();
        writer
    });
    let mut got = Vec::new();
    while let Some(bytes) = std::future::poll_fn(|cx| served.reader().poll_bytes(cx, 70_000)).await.unwrap() {
        got.extend_from_slice(&bytes);
    }
    assert!(got == sent, "{} bytes", got.len());
    writing.await.unwrap();
    assert!(near.send_surely("sure".into()) && near.send("soon".into(), PATIENCE));
    assert_eq!(far.recv().await.unwrap(), "sure");
    assert_eq!(far.recv().await.unwrap(), "soon");
    served.writer().write_bytes("last".into()).await.unwrap();
    far.close("enough").await;
    assert_eq!(std::future::poll_fn(|cx| reader.poll_bytes(cx, 9)).await, Ok(Some("last".into())));
    assert_eq!(std::future::poll_fn(|cx| reader.poll_bytes(cx, 9)).await, Err(Failure::Over));
    assert_eq!(&*near.closed().await, "the peer has ended it: enough");
    assert!(near.accept_stream().await.is_none() && near.recv().await.is_none());
}

#[tokio::test]
async fn a_link_ends_with_its_last_clone() {
    let mut world = world().await;
    let (near, far) = world.pair().await;
    drop(near);
    assert!(far.closed().await.contains("has let go of the link") && far.is_over());
}

#[tokio::test]
async fn strangers_get_no_answer_and_cost_little() {
    let mut world = world().await;
    // They say nothing, or something else, or what was heard of somebody else.
    let silent = TcpStream::connect(world.address).await.unwrap();
    let mut loud = TcpStream::connect(world.address).await.unwrap();
    loud.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // Bytes that were not read make it a reset.
    drop(loud.read_to_end(&mut answer).await);
    assert_eq!(answer, b"");
    let stranger = Keys { identity: new_identity(), psk: None };
    let error = dial(&world.url(), &world.far, &stranger, None).await.unwrap_err().to_string();
    assert!(error.contains(&stranger.identity.public().to_string()), "{error}");
    let (near, _far) = world.pair().await;
    assert!(near.is_reachable());
    assert!(world.links.try_recv().is_err(), "nobody else was let in");
    drop(silent);
}

#[tokio::test]
async fn a_repeated_first_message_opens_no_link() {
    let mut world = world().await;
    // Somebody between them keeps what the near end says, as far as the first message.
    let middle = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url { port: middle.local_addr().unwrap().port(), ..world.url() };
    let (far, near) = (world.far, world.near.clone());
    let dialling = tokio::spawn(async move { dial(&url, &far, &near, None).await.map(drop) });
    let (mut from, _) = middle.accept().await.unwrap();
    let length = from.read_u16().await.unwrap();
    let mut first = vec![0; length.into()];
    from.read_exact(&mut first).await.unwrap();
    drop(from);
    assert!(dialling.await.unwrap().is_err());
    let mut again = TcpStream::connect(world.address).await.unwrap();
    again.write_all(&[&length.to_be_bytes()[..], &first].concat()).await.unwrap();
    assert!(again.read_u16().await.unwrap() > 0, "it is answered");
    again.write_all(&[0, 17]).await.unwrap();
    again.write_all(&[7; 17]).await.unwrap();
    drop(again.read_to_end(&mut Vec::new()).await);
    let (_near, _far) = world.pair().await;
    assert!(world.links.try_recv().is_err(), "but it is no link");
}
