//! Work that waits for the disk, with a share for each client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;
use whimbrel_pubsub::frame::{Refusal, RefusalCode};

/// The most errands at a time. Others wait in turn.
const MOST: usize = 8;
/// With so many clients it is looked which of them have none.
const LOOK: usize = 64;

/// Errands that threads run. A client has one at a time, and the MQTT sessions of a user a few, so that others wait for these at most.
#[derive(Debug)]
pub(super) struct Errands {
    all: Arc<Semaphore>,
    clients: Mutex<BTreeMap<Vec<u8>, Weak<Semaphore>>>,
}

impl Default for Errands {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MOST)), clients: Mutex::default() }
    }
}

impl Errands {
    /// Runs `errand` in a thread for this client, once its turn has come. It runs to its end even if nobody waits for it any more.
    ///
    /// # Errors
    /// The broker stops.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        client: &[u8],
        errand: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.run_up_to(1, client, errand).await
    }

    /// As [`Errands::run`], with up to `most` errands of this client at a time.
    pub(super) async fn run_up_to<T: Send + 'static>(
        &self,
        most: usize,
        client: &[u8],
        errand: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let stops = || Refusal::new(RefusalCode::Unavailable, "the broker stops");
        let own = self.share(client, most).acquire_owned().await.map_err(|_| stops())?;
        let all = Arc::clone(&self.all).acquire_owned().await.map_err(|_| stops())?;
        let run = tokio::task::spawn_blocking(move || {
            let done = errand();
            drop((own, all));
            done
        });
        run.await.map_err(|_| stops())
    }

    fn share(&self, client: &[u8], most: usize) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = clients.get(client).and_then(Weak::upgrade) {
            return share;
        }
        if clients.len().is_multiple_of(LOOK) {
            clients.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(most));
        clients.insert(client.to_vec(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A client whose errands never end takes one thread, however many errands it has.
    #[tokio::test]
    async fn a_client_with_many_errands_holds_nobody_up() {
        let errands = Arc::new(Errands::default());
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let mut slow = tokio::task::JoinSet::new();
        for _ in 0..4 * MOST {
            let (errands, wait) = (Arc::clone(&errands), Arc::clone(&wait));
            slow.spawn(async move { errands.run(b"slow", move || wait.lock().unwrap().recv().ok()).await });
        }
        tokio::task::yield_now().await;
        for client in 0..LOOK as u64 * 2 {
            assert!(errands.run(&client.to_le_bytes(), || ()).await.is_ok());
        }
        assert!(errands.clients.lock().unwrap().len() <= LOOK + 1);
        drop(release);
        assert_eq!(slow.join_all().await.len(), 4 * MOST);
    }
}
