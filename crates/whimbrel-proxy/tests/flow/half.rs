//! One end of a flow in the simulated world, and what the near end's rules say of it.

use std::task::{Context, Poll, Waker};

use whimbrel_proto::session::Read;
use whimbrel_proxy::compress::Method;
use whimbrel_proxy::flow::{Ended, Flow, HoldBudget};
use whimbrel_proxy::policy::{Action, Decision};
use whimbrel_proxy::protocol::{Answer, AnswerReader, Outcome, codes};

use crate::pipes::End;
use crate::wire::{SimChannel, Wire};

/// One end of a flow.
pub(crate) enum Half {
    /// The near end waits for the answer.
    Asking(SimChannel, AnswerReader, End, Option<Method>),
    Flowing(Box<Flow<End, Wire>>),
    Ended(Ended),
    Refused(Outcome),
}

impl Half {
    /// Goes on. The near end reads its answer first.
    pub(crate) fn go(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let next = match self {
            Self::Asking(channel, _, program, _) if channel.world.is_lost.get() => {
                program.abort(0);
                Some(Self::Ended(Ended::SessionLost))
            }
            Self::Asking(channel, reader, ..) => match channel.read(reader.wants()) {
                Ok(Read::Data(bytes)) => match reader.take(&bytes).unwrap() {
                    Some(Answer { outcome: Outcome::Connected, .. }) => None,
                    Some(refused) => Some(Self::Refused(refused.outcome)),
                    None => return,
                },
                Ok(Read::Blocked) => return,
                other => panic!("no answer: {other:?}"),
            },
            Self::Flowing(flow) => match flow.poll(&mut cx) {
                Poll::Ready(ended) => Some(Self::Ended(ended)),
                Poll::Pending => return,
            },
            Self::Ended(_) | Self::Refused(_) => return,
        };
        let before = std::mem::replace(self, Self::Refused(Outcome::Failed));
        *self = match (next, before) {
            (Some(next), _) => next,
            (None, Self::Asking(channel, _, program, method)) => {
                Self::Flowing(Box::new(Flow::new(program, Wire::new(channel, method))))
            }
            (None, other) => other,
        };
    }

    /// Takes over what rules say of it now. Returns whether they end it.
    pub(crate) fn follow(&mut self, decision: &Decision, budget: &HoldBudget) -> bool {
        let Self::Flowing(flow) = self else { return false };
        if decision.existing && decision.action == Action::Reject {
            let ended = flow.give_up(codes::RULE);
            *self = Self::Ended(ended);
            return true;
        }
        flow.set_held(decision.action == Action::Hold);
        flow.set_hold(decision.hold_bytes.unwrap_or_default(), budget);
        use whimbrel_proxy::flow::Channel;
        flow.channel_mut().set_priority(decision.priority);
        false
    }

    /// Its process ends, and the system resets its connections.
    pub(crate) fn kill(&mut self, program: &End) {
        if !self.has_ended() {
            program.abort(0);
            *self = Self::Ended(Ended::SessionLost);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Refused(_))
    }
}
