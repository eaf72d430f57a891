//! SOCKS5 (RFC 1928) with user and password (RFC 1929). Names are looked up at the far end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fast_socks5::server::{Socks5ServerProtocol, SocksServerError, states};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, Socks5Command};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::accept::{Accepted, accept};
use super::ingress::Ingress;
use super::socks_udp::associate;
use super::waiting::Watched;
use crate::policy::WayIn;
use crate::protocol::{Host, Outcome, Target};
use crate::relay::Refused;

/// How long a program may take to say where it wants to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// Users and their passwords. Without any, everybody who reaches the port may use it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Users(BTreeMap<String, String>);

impl Users {
    /// Users with these passwords.
    pub fn new(users: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(users.into_iter().collect())
    }

    /// Returns a user whom no client can name, or whose password none can give (RFC 1929 section 2).
    pub(crate) fn mistaken(&self) -> Option<&str> {
        let can_be = |text: &str| (1..=255).contains(&text.len());
        let all = self.0.iter();
        all.filter(|(user, password)| !can_be(user) || !can_be(password))
            .map(|(user, _)| user.as_str())
            .next()
    }

    fn may(&self, user: &str, password: &str) -> bool {
        // Every byte is looked at, so that the time says nothing about the password.
        self.0.get(user).is_some_and(|wanted| {
            wanted.len() == password.len()
                && wanted.bytes().zip(password.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
        })
    }
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Ingress {
    /// Serves SOCKS5 on this listener.
    pub async fn serve_socks(self, listener: TcpListener, users: Users) {
        let (this, users) = (self.by(WayIn::Socks), Arc::new(users));
        accept(listener, self.places(), self.flows().over(), move |accepted| {
            let (this, users) = (this.clone(), Arc::clone(&users));
            // An error is the program's, which is gone.
            async move { drop(this.serve_client(accepted, &users).await) }
        })
        .await;
    }

    async fn serve_client(&self, accepted: Accepted, users: &Users) -> Result<(), SocksServerError> {
        let Accepted { tcp, from, place } = accepted;
        // An error means that the client is gone.
        let Ok(local) = tcp.local_addr() else { return Ok(()) };
        let tcp = Watched::new(tcp);
        let closed = tcp.closed();
        let Ok(asked) = timeout(PATIENCE, ask(tcp, users)).await else { return Ok(()) };
        drop(place);
        let (client, command, target) = asked?;
        let Some(target) = target_of(target) else {
            return client.reply_error(&ReplyError::AddressTypeNotSupported).await;
        };
        match command {
            Socks5Command::TCPConnect => self.connect(client, from, target, closed).await,
            Socks5Command::UDPAssociate => associate(self, client, [local, from], &target).await,
            Socks5Command::TCPBind => client.reply_error(&ReplyError::CommandNotSupported).await,
        }
    }

    async fn connect(
        &self,
        client: Client,
        from: SocketAddr,
        target: Target,
        closed: impl Future<Output = ()>,
    ) -> Result<(), SocksServerError> {
        match self.open(&target, from, Bytes::new(), closed).await {
            Ok((way, address)) => {
                let bound = address.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
                // The waiting is over, so there is no other handle.
                if let Some(tcp) = client.reply_success(bound).await?.into_inner() {
                    self.run(way, tcp).await;
                }
                Ok(())
            }
            // Nobody hears a reply.
            Err(Refused::ProgramGone) => Ok(()),
            Err(refused) => client.reply_error(&reply(refused)).await,
        }
    }
}

/// A client that has said what it wants.
pub(super) type Client = Socks5ServerProtocol<Watched, states::CommandRead>;

async fn ask(tcp: Watched, users: &Users) -> Result<(Client, Socks5Command, TargetAddr), SocksServerError> {
    let client = if users.0.is_empty() {
        Socks5ServerProtocol::accept_no_auth(tcp).await?
    } else {
        Socks5ServerProtocol::accept_password_auth(tcp, |user, password| {
            users.may(&user, &password).then_some(())
        })
        .await?
        .0
    };
    client.read_command().await
}

/// Returns the target. Port 0 is for a UDP association that does not know its port.
pub(super) fn target_of(target: TargetAddr) -> Option<Target> {
    Some(match target {
        TargetAddr::Ip(address) => address.into(),
        TargetAddr::Domain(name, port) => Target { host: Host::new(&name)?, port },
    })
}

fn reply(refused: Refused) -> ReplyError {
    match refused.outcome() {
        Outcome::Refused => ReplyError::ConnectionRefused,
        Outcome::HostUnreachable | Outcome::NameNotFound => ReplyError::HostUnreachable,
        Outcome::NetworkUnreachable => ReplyError::NetworkUnreachable,
        Outcome::TimedOut => ReplyError::TtlExpired,
        Outcome::Denied => ReplyError::ConnectionNotAllowed,
        Outcome::Connected | Outcome::Limit | Outcome::Failed => ReplyError::GeneralFailure,
    }
}
