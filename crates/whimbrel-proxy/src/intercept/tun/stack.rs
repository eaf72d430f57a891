//! Whose TCP answers programs.

use std::sync::Arc;

use super::kernel_tcp::KernelTcp;
use super::packet::{Ends, Head};
use super::userspace::UserspaceTcp;
use crate::intercept::kernel::Pair;

/// Whose TCP answers programs.
#[derive(Clone, Debug)]
pub(super) enum TunTcp {
    Kernel(Arc<KernelTcp>),
    Userspace(Arc<UserspaceTcp>),
}

impl TunTcp {
    /// Takes a segment, with the header in front, if it belongs to a connection. Returns whether it does.
    pub(super) fn on_segment(&self, buffer: &mut [u8], head: &Head, ends: Ends) -> bool {
        match self {
            Self::Kernel(tcp) => tcp.on_segment(buffer, head, ends),
            Self::Userspace(tcp) => {
                tcp.on_segment(buffer, head, Pair { program: ends.source, target: ends.destination })
            }
        }
    }

    /// Answers a SYN, with the header in front. `is_repeated`: it may have come before.
    pub(super) fn hand_back(&self, syn: Vec<u8>, pair: Pair, is_repeated: bool) {
        match self {
            Self::Kernel(tcp) => tcp.hand_back(syn, pair, is_repeated),
            Self::Userspace(tcp) => tcp.hand_back(&syn, pair, is_repeated),
        }
    }

    /// Forgets what has had its time.
    pub(super) fn expire(&self) {
        match self {
            Self::Kernel(tcp) => tcp.expire(),
            // Each connection has a task of its own.
            Self::Userspace(_) => {}
        }
    }
}
