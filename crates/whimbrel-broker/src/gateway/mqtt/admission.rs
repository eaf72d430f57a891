//! Admission by MQTT: the clients that may connect, and their permissions.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::{Semaphore, watch};
use whimbrel_pubsub::topic::TopicFilter;

use super::codec::{Fault, Reason};
use super::entrance::Guest;
use super::passwords::{Checked, Password};
use super::tls::Identity;
use crate::hub::UserId;
use crate::native::Permissions;
use crate::quota::{Pace, Paces, Quota};
use crate::share::Share;

/// The longest password, bytes.
const LONGEST_PASSWORD: usize = 1_024;

/// The clients that may connect by MQTT, and their permissions.
#[derive(Debug, Default)]
pub struct Rules {
    /// The permissions of clients that name no user; `None` if these may not connect.
    pub anonymous: Option<Permissions>,
    /// The users.
    pub users: BTreeMap<String, User>,
    /// The users by the names in their certificates.
    pub certificates: BTreeMap<String, String>,
}

/// A user.
#[derive(Debug)]
pub struct User {
    /// Its password, hashed; `None` if it has a certificate alone.
    pub password: Option<Password>,
    /// Its permissions.
    pub permissions: Permissions,
}

/// The admission of clients by rules, which may change while clients are connected.
#[derive(Debug)]
pub struct Admission {
    rules: RwLock<Arc<Rules>>,
    changes: watch::Sender<()>,
    checked: Checked,
    /// The one check.
    checking: Semaphore,
    paces: Paces<String>,
    /// The share of the disk of clients without a name.
    share: Arc<Share>,
}

/// A client that was let in: what it may do is asked each time.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    admission: Arc<Admission>,
    user: Option<String>,
    proof: Proof,
    pace: Arc<Pace>,
}

/// How a client showed who it is.
#[derive(Clone, Debug)]
enum Proof {
    /// It did not.
    None,
    /// By the password of this hash.
    Password(Password),
    Certificate(Identity),
}

impl Rules {
    /// The user whom a certificate names.
    fn certified(&self, identity: &Identity) -> Option<&String> {
        identity.names.iter().find_map(|name| self.certificates.get(name))
    }
}

impl Admission {
    /// Lets in whom the rules name.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
            changes: watch::Sender::default(),
            checked: Checked::new(),
            checking: Semaphore::new(1),
            paces: Paces::default(),
            share: Arc::default(),
        }
    }

    /// Takes other rules. Clients are judged by them at once. Those that may not connect any more, or have a subscription that they may not,
    /// are sent away.
    pub fn replace(&self, rules: Rules) {
        self.checked.retain(|user| rules.users.contains_key(user));
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.changes.send_replace(());
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether clients have rights without a password, as far as rules say.
    pub(super) fn is_open(&self) -> bool {
        self.rules().anonymous.is_some()
    }

    fn is_permitted(&self, user: Option<&String>, judge: impl FnOnce(&Permissions) -> bool) -> bool {
        let rules = self.rules();
        let permissions = match user {
            Some(user) => rules.users.get(user).map(|user| &user.permissions),
            None => rules.anonymous.as_ref(),
        };
        permissions.is_some_and(judge)
    }

    /// Whether a user, or a client that names none, may publish to this topic by the rules as they are now.
    pub(super) fn may_publish(&self, user: Option<&String>, topic: &str) -> Result<(), Fault> {
        if self.is_permitted(user, |permissions| permissions.may_publish(topic)) {
            return Ok(());
        }
        Err(Fault::new(Reason::NOT_AUTHORIZED, format!("you may not publish to `{topic}`")))
    }

    /// Lets a client in.
    pub(super) async fn admit(
        self: &Arc<Self>,
        guest: &Guest,
        identity: Option<&Identity>,
        user: Option<&str>,
        password: Option<&[u8]>,
    ) -> Result<Admitted, Fault> {
        let rules = self.rules();
        let certified = identity.and_then(|identity| Some((identity, rules.certified(identity)?)));
        if let Some((identity, name)) = certified
            && user.is_none_or(|user| user == name)
        {
            return Ok(self.admitted(Some(name), Proof::Certificate(identity.clone())));
        }
        let user = user.filter(|_| !(rules.users.is_empty() && rules.anonymous.is_some()));
        let Some(name) = user else {
            if rules.anonymous.is_some() {
                return Ok(self.admitted(None, Proof::None));
            }
            let why = match identity {
                Some(_) => "the broker has no user with a name of this certificate",
                None => "the broker requires a user and a password",
            };
            return Err(Fault::new(Reason::NOT_AUTHORIZED, why));
        };
        let proof = self.check(guest, &rules, name, password.unwrap_or_default()).await?;
        Ok(self.admitted(Some(name), proof))
    }

    fn admitted(self: &Arc<Self>, user: Option<&str>, proof: Proof) -> Admitted {
        // Clients without a name have a pace each.
        let pace = user.map(|user| self.paces.of(user.to_owned(), Instant::now())).unwrap_or_default();
        Admitted { admission: Arc::clone(self), user: user.map(str::to_owned), proof, pace }
    }

    async fn check(&self, guest: &Guest, rules: &Rules, name: &str, password: &[u8]) -> Result<Proof, Fault> {
        let wrong = || Fault::new(Reason::BAD_PASSWORD, "the user or the password is wrong");
        if password.len() > LONGEST_PASSWORD {
            return Err(wrong());
        }
        // A user that does not exist takes as long to be refused as one that does.
        let (hash, exists) = match rules.users.get(name).and_then(|user| user.password.as_ref()) {
            Some(password) => (password, true),
            None => (rules.users.values().find_map(|user| user.password.as_ref()).ok_or_else(wrong)?, false),
        };
        if exists && self.checked.remembers(name, hash, password) {
            return Ok(Proof::Password(hash.clone()));
        }
        let busy =
            || Fault::new(Reason::UNAVAILABLE, "too many passwords are being checked: try again later");
        let _waiting = guest.check().ok_or_else(busy)?;
        let _checking = self.checking.acquire().await.map_err(|_| busy())?;
        let (stored, given) = (hash.clone(), password.to_vec());
        let is_right = tokio::task::spawn_blocking(move || stored.is(&given)).await.unwrap_or(false);
        if !(is_right && exists) {
            return Err(wrong());
        }
        self.checked.remember(name, hash, password);
        Ok(Proof::Password(hash.clone()))
    }
}

impl Admitted {
    /// The user, if the client named one.
    pub(super) fn user(&self) -> Option<&String> {
        self.user.as_ref()
    }

    /// The user as a number, the same for all clients that name none.
    pub(super) fn user_id(&self) -> UserId {
        let Some(user) = &self.user else { return 0 };
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, user.as_bytes());
        u64::from_le_bytes(std::array::from_fn(|at| digest.as_ref()[at]))
    }

    /// Learns of other rules.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.admission.changes.subscribe()
    }

    /// Whether the client would be let in now.
    pub(super) fn is_still(&self) -> bool {
        let rules = self.admission.rules();
        let known = self.user.as_ref().and_then(|user| rules.users.get(user));
        match &self.proof {
            Proof::None => rules.anonymous.is_some(),
            Proof::Password(hash) => known.is_some_and(|user| user.password.as_ref() == Some(hash)),
            Proof::Certificate(identity) => {
                identity.is_trusted() && rules.certified(identity) == self.user.as_ref()
            }
        }
    }

    /// The most that the client may do.
    pub(super) fn quota(&self) -> Quota {
        let mut quota = Quota::default();
        self.is_permitted(|permissions| {
            quota = permissions.quota;
            true
        });
        quota
    }

    /// The client publishes a message of this length.
    pub(super) fn spend(&self, length: usize) -> Result<(), Fault> {
        let spent = self.pace.spend(&self.quota(), length, Instant::now());
        spent.map_err(|error| Fault::new(Reason::QUOTA, error.to_string()))
    }

    /// The client's share of what waits for the disk. Clients without a name have one together.
    pub(super) fn share(&self) -> &Arc<Share> {
        if self.user.is_some() { self.pace.share() } else { &self.admission.share }
    }

    /// The time until which the client is held back, since it publishes faster than its quota.
    pub(super) fn held(&self) -> Option<Instant> {
        self.pace.until(Instant::now())
    }

    fn is_permitted(&self, judge: impl FnOnce(&Permissions) -> bool) -> bool {
        self.admission.is_permitted(self.user.as_ref(), judge)
    }

    pub(super) fn may_publish(&self, topic: &str) -> Result<(), Fault> {
        self.admission.may_publish(self.user.as_ref(), topic)
    }

    pub(super) fn may_subscribe(&self, filter: &TopicFilter) -> bool {
        self.is_permitted(|permissions| permissions.may_subscribe(filter))
    }
}
