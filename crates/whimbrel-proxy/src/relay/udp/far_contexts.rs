//! The contexts that a peer has announced, with the datagrams that wait for the address of a name.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;

use crate::protocol::{Announcement, Context, Datagram, ProxyInstance, Refusal};

/// Datagrams that wait for the address of a name.
const MOST_WAITING: usize = 16;
/// Their bytes, for all names of a session.
const MOST_WAITING_BYTES: usize = 1 << 20;
/// The part of all contexts that is forgotten at once if there are too many.
const FORGOTTEN: usize = 16;

/// The contexts of a session that its peer has announced.
#[derive(Debug, Default)]
pub(super) struct FarContexts {
    all: HashMap<Context, FarContext>,
    /// Bytes that wait for names.
    waiting: usize,
}

/// A context that the peer has announced.
#[derive(Debug)]
pub(super) struct FarContext {
    pub(super) announced: Announcement,
    pub(super) route: Route,
    used: Instant,
}

/// The way that a context's datagrams go.
#[derive(Debug)]
pub(super) enum Route {
    /// They go to a program at this end.
    ToProgram,
    /// They go to this address.
    To(SocketAddr),
    /// They are ICMP echo with this host.
    Echo(IpAddr),
    /// They are sent on to this group, as that proxy has heard them.
    Group(SocketAddr, ProxyInstance),
    /// The name is being looked up.
    LookingUp(Vec<Bytes>),
    Refused(Refusal),
}

impl FarContexts {
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, context: Context) -> Option<&FarContext> {
        self.all.get(&context)
    }

    /// Returns a context, which is used now.
    pub(super) fn of_datagram(&mut self, context: Context) -> Option<&mut FarContext> {
        let known = self.all.get_mut(&context)?;
        known.used = Instant::now();
        Some(known)
    }

    /// Returns the announcements, as messages between proxies.
    pub(super) fn announcements(&self) -> Vec<Bytes> {
        let announced = |(context, known): (&Context, &FarContext)| (*context, known.announced.clone());
        let all = self.all.iter().map(announced);
        all.map(|(context, announced)| Datagram::Announcement(context, announced).to_bytes()).collect()
    }

    /// Adds a context.
    pub(super) fn add(&mut self, context: Context, announced: Announcement, route: Route, now: Instant) {
        self.all.insert(context, FarContext { announced, route, used: now });
    }

    /// Keeps a datagram until the name of its context is looked up. It is lost if too much waits.
    pub(super) fn keep(&mut self, context: Context, payload: Bytes) {
        let Some(FarContext { route: Route::LookingUp(waiting), .. }) = self.all.get_mut(&context) else {
            return;
        };
        if waiting.len() < MOST_WAITING && self.waiting + payload.len() <= MOST_WAITING_BYTES {
            self.waiting += payload.len();
            waiting.push(payload);
        }
    }

    /// Returns what waits for the address of a name, and its announcement. `None`: the name is not being looked up.
    pub(super) fn take_waiting(&mut self, context: Context) -> Option<(Vec<Bytes>, Announcement)> {
        let known = self.all.get_mut(&context)?;
        let Route::LookingUp(waiting) = &mut known.route else { return None };
        let waiting = std::mem::take(waiting);
        self.waiting -= waiting.iter().map(Bytes::len).sum::<usize>();
        Some((waiting, known.announced.clone()))
    }

    /// Sets where a context leads from now on.
    pub(super) fn set_route(&mut self, context: Context, route: Route) {
        if let Some(known) = self.all.get_mut(&context) {
            known.route = route;
        }
    }

    /// Forgets the contexts that were quiet for the longest time: some at once, since a peer's flood of new ones would
    /// otherwise cost a search each. If the peer still uses one, it is told.
    pub(super) fn make_room(&mut self) {
        let mut by_use: Vec<_> = self.all.iter().map(|(context, known)| (known.used, *context)).collect();
        let last = by_use.len() / FORGOTTEN;
        if last < by_use.len() {
            by_use.select_nth_unstable(last);
            by_use[..=last].iter().for_each(|(_, context)| self.forget(*context));
        }
    }

    /// Forgets the contexts of programs that are gone. All at once: a peer may have many of both.
    pub(super) fn forget_programs(&mut self, gone: &BTreeSet<SocketAddr>) {
        let is_gone =
            |known: &FarContext| gone.contains(&known.announced.program) && !known.announced.to_program;
        let contexts = self.all.iter().filter(|(_, known)| is_gone(known));
        let contexts: Vec<_> = contexts.map(|(context, _)| *context).collect();
        contexts.into_iter().for_each(|context| self.forget(context));
    }

    /// Forgets a context, with what waits.
    pub(super) fn forget(&mut self, context: Context) {
        if let Some(FarContext { route: Route::LookingUp(waiting), .. }) = self.all.remove(&context) {
            self.waiting -= waiting.iter().map(Bytes::len).sum::<usize>();
        }
    }
}
