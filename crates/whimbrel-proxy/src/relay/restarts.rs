//! The compressed flows of a session, whose contexts the peer may ask to restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use whimbrel::StreamId;

use crate::flow::compressed::Restart;

/// The compressed flows of a session. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Restarts(Arc<Mutex<HashMap<u64, Arc<Restart>>>>);

/// A flow among them. Dropping it takes it out.
#[derive(Debug)]
pub(crate) struct Restartable {
    restarts: Restarts,
    stream: u64,
}

impl Restarts {
    /// From now on, the peer's wish reaches this flow.
    pub(super) fn add(&self, stream: StreamId, restart: &Arc<Restart>) -> Restartable {
        self.lock().insert(stream.0, Arc::clone(restart));
        Restartable { restarts: self.clone(), stream: stream.0 }
    }

    /// The peer wishes a new context. A stream that is gone means nothing by it.
    pub(super) fn ask(&self, stream: u64) {
        let restart = self.lock().get(&stream).cloned();
        if let Some(restart) = restart {
            restart.ask();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Restart>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Restartable {
    fn drop(&mut self) {
        self.restarts.lock().remove(&self.stream);
    }
}
