//! Carrying the bytes of flows to their end.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::{Ingress, Way};
use crate::policy::{FlowKey, Protocol};
use crate::protocol::Target;
use crate::relay::{Peer, Refused, Session, Socket, Steering, Unpacked};

impl Ingress {
    /// Carries the bytes of a program whose connection was accepted already; if the flow is refused, the connection is
    /// reset. The bytes do not wait for the answer, unless another peer may have to answer.
    pub(in crate::intercept) async fn carry(
        &self,
        target: &Target,
        source: SocketAddr,
        program: impl Into<Socket>,
    ) {
        // It is reset when it is closed, unless the flow finishes it.
        let program = program.into();
        let begun = if self.0.roster.now().all().any(|(_, peer)| peer.standby().is_some()) {
            self.open(target, source, Bytes::new(), program.was_reset()).await.map(|(way, _)| way)
        } else {
            let begun = tokio::select! {
                begun = self.begin(target, source, 0) => begun,
                () = program.was_reset() => Err(Refused::ProgramGone),
            };
            begun.inspect_err(|refused| self.note_refused(target, source, *refused))
        };
        if let Ok(way) = begun {
            self.run(way, program).await;
        }
    }

    /// Runs a flow to its end.
    pub(in crate::intercept) async fn run(&self, way: Way, program: impl Into<Socket>) {
        let (limits, program) = (&self.0.limits, program.into());
        match way {
            Way::Carried(opened, steering, peer) => {
                let record = opened.record();
                match opened.run(program, limits, steering).await {
                    Ok(Some(ended)) => peer.context().note_ended(&record, ended),
                    Ok(None) => {}
                    Err(refused) => peer.context().note_refused(&record, refused),
                }
            }
            Way::Direct(flow, steering) => {
                let record = flow.record();
                if let Some(ended) = flow.run(program, limits, steering).await {
                    self.0.context.note_ended(&record, ended);
                }
            }
        }
    }

    /// Goes on with a flow that was opened here, in another process. A carried one is of this session. The
    /// `claim` on what it came by is held until it ends.
    pub(crate) fn go_on(
        &self,
        flow: Unpacked,
        carried: Option<(&Session, &Peer)>,
        claim: impl Send + 'static,
    ) {
        let (target, source) = flow.ends();
        let Ok(target) = target.parse() else { return };
        let source = source.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        let key = FlowKey { protocol: Protocol::Tcp, target, source, origin: flow.record().origin.clone() };
        let mut rules = self.0.ruling.watch();
        // It has yet to hear what they say.
        rules.mark_changed();
        let reached = carried.map(|(session, _)| session.reached());
        let (decision, is_carried) = (Box::default(), carried.is_some());
        let steering = Steering::Rules { rules, key, decision, is_carried, reached };
        let context = Arc::clone(carried.map_or(&self.0.context, |(_, peer)| peer.context()));
        let limits = Arc::clone(&self.0.limits);
        tokio::spawn(async move {
            let (record, _claim) = (flow.record(), claim);
            match flow.run(&limits, steering).await {
                Ok(Some(ended)) => context.note_ended(&record, ended),
                Ok(None) => {}
                Err(refused) => context.note_refused(&record, refused),
            }
        });
    }
}
