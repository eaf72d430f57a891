//! A byte stream of a session as a flow uses it: plain, or compressed.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::channel::StreamChannel;
use super::record::FlowRecord;
use super::restarts::{Restartable, Restarts};
use super::wish::Wish;
use crate::flow::compressed::Compressed;
use crate::flow::{Broken, Channel};
use crate::protocol::Cap;

/// A byte stream of a session, plain or compressed.
#[derive(Debug)]
pub(crate) enum Carrier {
    Plain(StreamChannel),
    Compressed { stage: Box<Compressed<StreamChannel>>, _restartable: Restartable },
}

impl Carrier {
    /// Carries bytes as was agreed. `plain` bytes of the peer come in front of what is compressed.
    pub(super) fn new(
        stream: StreamChannel,
        agreed: Option<(Wish, u32)>,
        record: &FlowRecord,
        restarts: &Restarts,
    ) -> Self {
        match agreed {
            Some((wish, plain)) => Self::compressed(wish.around(stream, plain, record), restarts),
            None => Self::Plain(stream),
        }
    }

    pub(super) fn compressed(stage: Compressed<StreamChannel>, restarts: &Restarts) -> Self {
        let restartable = restarts.add(stage.inner().id(), stage.restart());
        Self::Compressed { stage: Box::new(stage), _restartable: restartable }
    }

    /// Returns the stream.
    pub(super) fn stream(&self) -> &StreamChannel {
        match self {
            Self::Plain(stream) => stream,
            Self::Compressed { stage, .. } => stage.inner(),
        }
    }
}

impl Channel for Carrier {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        match self {
            Self::Plain(stream) => stream.poll_read(cx, bytes),
            Self::Compressed { stage, .. } => stage.poll_read(cx, bytes),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        match self {
            Self::Plain(stream) => stream.poll_write(cx, bytes),
            Self::Compressed { stage, .. } => stage.poll_write(cx, bytes),
        }
    }

    fn gathers(&self) -> usize {
        self.stream().gathers()
    }

    fn poll_gathered(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(stream) => stream.poll_gathered(cx),
            Self::Compressed { stage, .. } => stage.poll_gathered(cx),
        }
    }

    fn poll_upkeep(&mut self, cx: &mut Context<'_>) {
        match self {
            Self::Plain(_) => {}
            Self::Compressed { stage, .. } => stage.poll_upkeep(cx),
        }
    }

    fn settle(&mut self) {
        match self {
            Self::Plain(_) => {}
            Self::Compressed { stage, .. } => {
                stage.settle();
                if !stage.is_settled() {
                    stage.inner().ask_for_restart();
                }
            }
        }
    }

    fn is_settled(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Compressed { stage, .. } => stage.is_settled(),
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        match self {
            Self::Plain(stream) => stream.poll_stopped(cx),
            Self::Compressed { stage, .. } => stage.poll_stopped(cx),
        }
    }

    fn is_reachable(&self) -> bool {
        self.stream().is_reachable()
    }

    fn set_priority(&mut self, priority: Option<u8>) {
        match self {
            Self::Plain(stream) => stream.set_priority(priority),
            Self::Compressed { stage, .. } => stage.set_priority(priority),
        }
    }

    fn set_cap(&mut self, cap: Option<Cap>) {
        match self {
            Self::Plain(stream) => stream.set_cap(cap),
            Self::Compressed { stage, .. } => stage.set_cap(cap),
        }
    }

    fn finish(&mut self) {
        match self {
            Self::Plain(stream) => stream.finish(),
            Self::Compressed { stage, .. } => stage.finish(),
        }
    }

    fn reset(&mut self, code: u64) {
        match self {
            Self::Plain(stream) => stream.reset(code),
            Self::Compressed { stage, .. } => stage.reset(code),
        }
    }
}
