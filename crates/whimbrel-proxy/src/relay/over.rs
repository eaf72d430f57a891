//! The end of all tasks that serve connections, once another process goes on with the flows.

use std::sync::Arc;

use tokio::sync::watch;

/// Tasks that end together. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Over(Arc<watch::Sender<bool>>);

impl Default for Over {
    fn default() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }
}

impl Over {
    /// Serves a connection until that has ended, or everything is over.
    pub(crate) fn spawn(&self, serving: impl Future<Output = ()> + Send + 'static) {
        let mut over = self.0.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = serving => {}
                // An error means that the sender is gone, and with it the proxy.
                _ = over.wait_for(|over| *over) => {}
            }
        });
    }

    /// Ends all tasks. What they hold is let go.
    pub(crate) fn end(&self) {
        self.0.send_replace(true);
    }
}
