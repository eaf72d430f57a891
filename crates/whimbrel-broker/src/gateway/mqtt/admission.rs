//! Admission by MQTT: the clients that may connect, and their permissions.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Semaphore;
use whimbrel_pubsub::topic::TopicFilter;

use super::codec::{Fault, Reason};
use super::passwords::{Checked, Password};
use crate::native::Permissions;

/// The longest password, bytes.
const LONGEST_PASSWORD: usize = 1_024;
/// The most clients that wait for their passwords to be checked. A check takes long by design, and they are made one by one.
const MOST_CHECKS: usize = 64;

/// The clients that may connect by MQTT, and their permissions.
#[derive(Debug, Default)]
pub struct Rules {
    /// The permissions of clients that name no user; `None` if these may not connect.
    pub anonymous: Option<Permissions>,
    /// The users.
    pub users: BTreeMap<String, User>,
}

/// A user.
#[derive(Debug)]
pub struct User {
    /// Its password, hashed.
    pub password: Password,
    /// Its permissions.
    pub permissions: Permissions,
}

/// The admission of clients by rules, which may change while clients are connected.
#[derive(Debug)]
pub struct Admission {
    rules: RwLock<Arc<Rules>>,
    checked: Checked,
    /// Clients that wait for a check.
    waiting: Semaphore,
    /// The one check.
    checking: Semaphore,
}

/// A client that was let in: what it may do is asked each time.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    admission: Arc<Admission>,
    user: Option<String>,
}

impl Admission {
    /// Lets in whom the rules name.
    pub fn new(rules: Rules) -> Self {
        let (waiting, checking) = (Semaphore::new(MOST_CHECKS), Semaphore::new(1));
        Self { rules: RwLock::new(Arc::new(rules)), checked: Checked::new(), waiting, checking }
    }

    /// Takes other rules. Publishers are judged by them at once, and subscriptions and connections that come.
    pub fn replace(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.checked.forget();
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets a client in.
    pub(super) async fn admit(
        self: &Arc<Self>,
        user: Option<&str>,
        password: Option<&[u8]>,
    ) -> Result<Admitted, Fault> {
        let rules = self.rules();
        let user = user.filter(|_| !(rules.users.is_empty() && rules.anonymous.is_some()));
        match user {
            None if rules.anonymous.is_some() => {}
            None => return Err(Fault::new(Reason::NOT_AUTHORIZED, "the broker wants a user and a password")),
            Some(name) => self.check(&rules, name, password.unwrap_or_default()).await?,
        }
        Ok(Admitted { admission: Arc::clone(self), user: user.map(str::to_owned) })
    }

    async fn check(&self, rules: &Rules, name: &str, password: &[u8]) -> Result<(), Fault> {
        let wrong = || Fault::new(Reason::BAD_PASSWORD, "the user or the password is wrong");
        if password.len() > LONGEST_PASSWORD {
            return Err(wrong());
        }
        // A user that does not exist takes as long to be refused as one that does.
        let (hash, exists) = match rules.users.get(name) {
            Some(user) => (&user.password, true),
            None => (rules.users.values().next().map(|user| &user.password).ok_or_else(wrong)?, false),
        };
        if exists && self.checked.remembers(name, hash, password) {
            return Ok(());
        }
        let busy =
            || Fault::new(Reason::UNAVAILABLE, "too many passwords are being checked: try again later");
        let _waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        let _checking = self.checking.acquire().await.map_err(|_| busy())?;
        let (stored, given) = (hash.clone(), password.to_vec());
        let is_right = tokio::task::spawn_blocking(move || stored.is(&given)).await.unwrap_or(false);
        if !(is_right && exists) {
            return Err(wrong());
        }
        self.checked.remember(name, hash, password);
        Ok(())
    }
}

impl Admitted {
    /// The user, if the client named one.
    pub(super) fn user(&self) -> Option<&String> {
        self.user.as_ref()
    }

    fn is_permitted(&self, judge: impl FnOnce(&Permissions) -> bool) -> bool {
        let rules = self.admission.rules();
        let permissions = match &self.user {
            Some(user) => rules.users.get(user).map(|user| &user.permissions),
            None => rules.anonymous.as_ref(),
        };
        permissions.is_some_and(judge)
    }

    pub(super) fn may_publish(&self, topic: &str) -> Result<(), Fault> {
        if self.is_permitted(|permissions| permissions.may_publish(topic)) {
            return Ok(());
        }
        Err(Fault::new(Reason::NOT_AUTHORIZED, format!("you may not publish to `{topic}`")))
    }

    pub(super) fn may_subscribe(&self, filter: &TopicFilter) -> bool {
        self.is_permitted(|permissions| permissions.may_subscribe(filter))
    }
}
