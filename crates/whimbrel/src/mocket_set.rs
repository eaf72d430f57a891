//! Receiving from many mockets in one task.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

use whimbrel_proto::session::Message;

use crate::error::Closed;
use crate::lock::lock;
use crate::mocket::Mocket;

/// A set of mockets whose messages one task receives. The application names each with a key. Thousands cost nothing
/// while they are silent. The mockets take turns, one message each.
///
/// ```no_run
/// # async fn example(endpoint: whimbrel::Endpoint) {
/// use whimbrel::MocketSet;
///
/// let (mut set, mut number) = (MocketSet::new(), 0);
/// loop {
///     tokio::select! {
///         Some(mocket) = endpoint.accept() => {
///             number += 1;
///             set.insert(number, mocket);
///         }
///         Some((number, received)) = set.recv() => match received {
///             Ok(message) => println!("{} bytes from {number}", message.payload.len()),
///             Err(closed) => println!("{number}: {closed}"),
///         },
///         else => break,
///     }
/// }
/// # }
/// ```
pub struct MocketSet<K> {
    members: BTreeMap<K, Member<K>>,
    ready: Arc<Ready<K>>,
}

struct Member<K> {
    mocket: Mocket,
    waker: Arc<MemberWaker<K>>,
}

/// Members that may have something to read.
struct Ready<K> {
    queue: Mutex<ReadyQueue<K>>,
}

struct ReadyQueue<K> {
    members: VecDeque<Arc<MemberWaker<K>>>,
    reader: Option<Waker>,
}

struct MemberWaker<K> {
    key: K,
    /// Weak, since `Ready` holds the members of its queue.
    ready: Weak<Ready<K>>,
    is_queued: Mutex<bool>,
}

impl<K: Send + Sync> Wake for MemberWaker<K> {
    fn wake(self: Arc<Self>) {
        if std::mem::replace(&mut *lock(&self.is_queued), true) {
            return;
        }
        let Some(ready) = self.ready.upgrade() else { return };
        let mut queue = lock(&ready.queue);
        queue.members.push_back(self);
        let reader = queue.reader.take();
        drop(queue);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl<K: Ord + Clone + Send + Sync + 'static> MocketSet<K> {
    /// Creates an empty set.
    pub fn new() -> Self {
        let queue = Mutex::new(ReadyQueue { members: VecDeque::new(), reader: None });
        Self { members: BTreeMap::new(), ready: Arc::new(Ready { queue }) }
    }

    /// Adds a mocket. Returns the one that had this key before, if any.
    pub fn insert(&mut self, key: K, mocket: Mocket) -> Option<Mocket> {
        let ready = Arc::downgrade(&self.ready);
        let waker = Arc::new(MemberWaker { key: key.clone(), ready, is_queued: Mutex::new(false) });
        // The mocket may have messages already.
        Arc::clone(&waker).wake();
        self.members.insert(key, Member { mocket, waker }).map(|before| before.mocket)
    }

    /// Removes a mocket from the set and returns it.
    pub fn remove(&mut self, key: &K) -> Option<Mocket> {
        self.members.remove(key).map(|member| member.mocket)
    }

    /// Returns the mocket with this key.
    pub fn get(&self, key: &K) -> Option<&Mocket> {
        self.members.get(key).map(|member| &member.mocket)
    }

    /// Iterates over the mockets in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Mocket)> {
        self.members.iter().map(|(key, member)| (key, &member.mocket))
    }

    /// Returns the number of mockets.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Receives the next message of any mocket, like [`Mocket::recv`]. A closed mocket returns its error once and is
    /// removed from the set. None while the set is empty. Cancel-safe.
    pub async fn recv(&mut self) -> Option<(K, Result<Message, Closed>)> {
        tokio::task::coop::consume_budget().await;
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next message, like [`MocketSet::recv`].
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<(K, Result<Message, Closed>)>> {
        if self.members.is_empty() {
            return Poll::Ready(None);
        }
        while let Some(next) = self.next_ready(cx) {
            // Skips a mocket that was removed, or replaced by another with its key.
            let Some(member) = self.members.get(&next.key).filter(|member| Arc::ptr_eq(&member.waker, &next))
            else {
                continue;
            };
            let waker = Arc::clone(&next).into();
            match member.mocket.poll_recv(&mut Context::from_waker(&waker)) {
                Poll::Pending => {}
                Poll::Ready(Ok(message)) => {
                    // The mocket may have more messages; the others come first.
                    let key = next.key.clone();
                    next.wake();
                    return Poll::Ready(Some((key, Ok(message))));
                }
                Poll::Ready(Err(closed)) => {
                    self.members.remove(&next.key);
                    return Poll::Ready(Some((next.key.clone(), Err(closed))));
                }
            }
        }
        Poll::Pending
    }

    fn next_ready(&self, cx: &Context<'_>) -> Option<Arc<MemberWaker<K>>> {
        let mut queue = lock(&self.ready.queue);
        let Some(next) = queue.members.pop_front() else {
            queue.reader = Some(cx.waker().clone());
            return None;
        };
        drop(queue);
        // Cleared before the mocket is polled, so that anything received from now on queues it again.
        *lock(&next.is_queued) = false;
        Some(next)
    }
}

impl<K: Ord + Clone + Send + Sync + 'static> Default for MocketSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: std::fmt::Debug> std::fmt::Debug for MocketSet<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.members.keys()).finish()
    }
}
