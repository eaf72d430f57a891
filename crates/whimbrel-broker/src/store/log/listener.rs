//! The callback that is told which messages were stored.

use std::fmt;
use std::sync::OnceLock;

use whimbrel_pubsub::message::Origin;

type Function = dyn Fn(&[(Origin, u64)]) + Send + Sync;

/// A function that is called after each group.
#[derive(Default)]
pub(super) struct Listener(OnceLock<Box<Function>>);

impl Listener {
    /// Sets the function, unless there is one.
    pub(super) fn set(&self, listener: impl Fn(&[(Origin, u64)]) + Send + Sync + 'static) {
        self.0.get_or_init(|| Box::new(listener));
    }

    pub(super) fn call(&self, stored: &[(Origin, u64)]) {
        if let Some(listener) = self.0.get() {
            listener(stored);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.get().is_some()).finish()
    }
}
