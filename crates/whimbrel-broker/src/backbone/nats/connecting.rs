//! The connection with the servers of NATS.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};

use crate::tls::{ClientTls, TlsError};

/// How often the server is asked whether it is there. Two unanswered questions end the connection.
const PING: Duration = Duration::from_secs(3);
/// The longest pause before a server is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// The most messages that wait for the connection. What does not fit there stays in the buffer of the broker. All subscriptions fit at the
/// start, when there is no connection yet.
const QUEUE: usize = 256;
/// The most messages of one subject that wait to be taken. What does not fit is lost, and asked for again.
pub(super) const MOST_WAITING: usize = 1_024;

/// The NATS servers of a broker, and its credentials there.
#[derive(Clone, Debug)]
pub struct NatsPlan {
    /// The servers. The first that answers is used.
    pub servers: Vec<ServerAddr>,
    /// The credentials that the broker shows the server.
    pub access: NatsAccess,
    /// The files for TLS. `None`: TLS only if the server asks for it or its URL begins with `tls://`, with the authorities of the system.
    pub tls: Option<ClientTls>,
    /// The time for which a silent broker still counts as one that may have missing messages.
    pub forget_after: Duration,
}

/// The credentials that a broker shows the server.
#[derive(Clone, Default)]
pub enum NatsAccess {
    /// Nothing.
    #[default]
    Nothing,
    /// A user and a password.
    Password(String, String),
    /// A token.
    Token(String),
    /// The file of an nkey's seed.
    Nkey(PathBuf),
    /// A file of credentials, as `nsc` makes them.
    Credentials(PathBuf),
}

impl fmt::Debug for NatsAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Password(user, _) => write!(f, "Password({user:?}, …)"),
            Self::Token(_) => f.write_str("Token(…)"),
            Self::Nkey(path) => write!(f, "Nkey({path:?})"),
            Self::Credentials(path) => write!(f, "Credentials({path:?})"),
        }
    }
}

impl NatsPlan {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be used. The error names the setting.
    pub fn check(&self) -> Result<(), TlsError> {
        self.options().map(drop)
    }

    fn options(&self) -> Result<ConnectOptions, TlsError> {
        let options = match &self.access {
            NatsAccess::Nothing => ConnectOptions::new(),
            NatsAccess::Password(user, password) => {
                ConnectOptions::with_user_and_password(user.clone(), password.clone())
            }
            NatsAccess::Token(token) => ConnectOptions::with_token(token.clone()),
            NatsAccess::Nkey(path) => {
                let seed = read("nkey", path)?;
                let seed = seed.lines().map(str::trim).find(|line| line.starts_with('S'));
                let Some(seed) = seed.filter(|seed| seed.len() == 58) else {
                    return Err(unusable("nkey", path, "it has no nkey seed, which begins with SU"));
                };
                ConnectOptions::with_nkey(seed.to_owned())
            }
            NatsAccess::Credentials(path) => {
                let text = read("credentials", path)?;
                ConnectOptions::with_credentials(&text)
                    .map_err(|error| unusable("credentials", path, &error))?
            }
        };
        let options = match &self.tls {
            Some(files) => options.tls_client_config(files.load()?).require_tls(true),
            None => options,
        };
        Ok(options
            .no_echo()
            .ping_interval(PING)
            .client_capacity(QUEUE)
            .subscription_capacity(MOST_WAITING)
            .retry_on_initial_connect()
            .reconnect_delay_callback(|attempt| pause(attempt, crate::hub::random())))
    }

    /// Begins to connect. Every event of the connection is told.
    pub(super) async fn connect(
        &self,
        name: &str,
        on_event: impl Fn(Event) + Clone + Send + Sync + 'static,
    ) -> Result<Client, TlsError> {
        let options = self.options()?.name(name).event_callback(move |event| {
            on_event(event);
            std::future::ready(())
        });
        let client = options.connect(self.servers.clone()).await;
        client.map_err(|error| TlsError { setting: "servers", why: error.to_string() })
    }
}

/// The pause before the next attempt: longer each time, and never the same for all brokers of a cluster.
fn pause(attempt: usize, random: u64) -> Duration {
    let longest = Duration::from_millis(100) * 2_u32.saturating_pow(attempt.min(6) as u32);
    longest.min(LONGEST_PAUSE).mul_f64(0.5 + (random % 1_000) as f64 / 2_000.0)
}

fn read(setting: &'static str, path: &PathBuf) -> Result<String, TlsError> {
    std::fs::read_to_string(path).map_err(|error| unusable(setting, path, &error))
}

fn unusable(setting: &'static str, path: &std::path::Path, why: impl fmt::Display) -> TlsError {
    TlsError { setting, why: format!("cannot use {}: {why}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_return_at_different_times_and_within_seconds() {
        let pauses = [pause(1, 0), pause(1, 999), pause(50, 0), pause(50, 999)];
        assert!(pauses[0] < pauses[1] && pauses[1] < pauses[2] && pauses[2] < pauses[3]);
        assert!(pauses[3] <= LONGEST_PAUSE);
    }

    #[test]
    fn no_secret_is_shown() {
        let access = [NatsAccess::Password("u".into(), "secret".into()), NatsAccess::Token("secret".into())];
        assert!(!format!("{access:?}").contains("secret"));
    }
}
