//! Servers and clients of other transports, for comparison: QUIC and TCP.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

use crate::certificate::{address, identity, split};
use crate::clients::Clients;

/// The address on which servers listen, with any port.
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    Whimbrel,
    Quinn,
    Noq,
    Tcp,
}

/// Accepts connections and holds them. For each line of input it prints their number, in the format of
/// [`crate::server`].
async fn hold<C: 'static>(
    word: String,
    accept: impl AsyncFn(&Rc<RefCell<Vec<C>>>) -> anyhow::Result<()> + 'static,
) -> anyhow::Result<()> {
    println!("{word}");
    let held = Rc::new(RefCell::new(Vec::new()));
    let holding = Rc::clone(&held);
    let local = LocalSet::new();
    local.spawn_local(async move { while accept(&holding).await.is_ok() {} });
    let answers = async {
        let mut questions = BufReader::new(tokio::io::stdin()).lines();
        while questions.next_line().await?.is_some() {
            println!("{} 0 0 0", held.borrow().len());
        }
        anyhow::Ok(())
    };
    local.run_until(answers).await
}

macro_rules! quic {
    ($module:ident) => {
        pub(crate) mod $module {
            use ::$module::{ClientConfig, Endpoint, ServerConfig};

            use super::*;

            pub(crate) async fn serve() -> anyhow::Result<()> {
                let (key, certificate) = identity()?;
                let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
                let endpoint = Endpoint::server(config, LOCAL)?;
                let word = address(endpoint.local_addr()?, &certificate);
                hold(word, async move |held| {
                    let incoming = endpoint.accept().await.context("closed")?;
                    let held = Rc::clone(held);
                    spawn_local(async move {
                        if let Ok(connection) = incoming.await {
                            held.borrow_mut().push(connection);
                        }
                    });
                    Ok(())
                })
                .await
            }

            pub(crate) async fn connect(clients: &Clients) -> anyhow::Result<()> {
                let (to, roots) = split(&clients.url)?;
                let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
                let endpoints: Result<Vec<_>, _> =
                    (0..clients.sockets).map(|_| Endpoint::client(LOCAL)).collect();
                let endpoints = endpoints?;
                let connect = |number: usize| {
                    let connecting =
                        endpoints[number % endpoints.len()].connect_with(config.clone(), to, "localhost");
                    async { anyhow::Ok(connecting?.await?) }
                };
                clients.hold(connect).await
            }
        }
    };
}

quic!(quinn);
quic!(noq);

pub(crate) mod tcp {
    use super::*;

    pub(crate) async fn serve() -> anyhow::Result<()> {
        let listener = TcpListener::bind(LOCAL).await?;
        hold(listener.local_addr()?.to_string(), async move |held| {
            let (connection, _) = listener.accept().await?;
            held.borrow_mut().push(connection);
            Ok(())
        })
        .await
    }

    pub(crate) async fn connect(clients: &Clients) -> anyhow::Result<()> {
        let to: SocketAddr = clients.url.parse()?;
        clients.hold(|_| async move { Ok(TcpStream::connect(to).await?) }).await
    }
}
