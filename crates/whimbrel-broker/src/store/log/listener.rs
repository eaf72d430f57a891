//! The callback that is told when messages were stored.

use std::fmt;
use std::sync::OnceLock;

/// A function that is called after each group.
#[derive(Default)]
pub(super) struct Listener(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl Listener {
    /// Sets the function, unless there is one.
    pub(super) fn set(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.0.get_or_init(|| Box::new(listener));
    }

    pub(super) fn call(&self) {
        if let Some(listener) = self.0.get() {
            listener();
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.get().is_some()).finish()
    }
}
