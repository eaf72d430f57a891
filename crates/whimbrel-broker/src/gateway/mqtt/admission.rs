//! Who may connect by MQTT, and what they may do.

use std::sync::{Arc, PoisonError, RwLock};

use super::codec::{Fault, Reason};
use crate::native::Permissions;

/// Who may connect, which may change while clients are connected.
#[derive(Debug)]
pub struct Admission(RwLock<Arc<Permissions>>);

impl Admission {
    /// Everyone may connect, and do this.
    pub fn anonymous(permissions: Permissions) -> Self {
        Self(RwLock::new(Arc::new(permissions)))
    }

    /// What anonymous clients may do from now on. Publishers are judged by it at once, and subscriptions that come.
    pub fn replace(&self, permissions: Permissions) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(permissions);
    }

    pub(super) fn permissions(&self) -> Arc<Permissions> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn may_publish(&self, topic: &str) -> Result<(), Fault> {
        if self.permissions().may_publish(topic) {
            return Ok(());
        }
        Err(Fault::new(Reason::NOT_AUTHORIZED, format!("you may not publish to `{topic}`")))
    }
}
