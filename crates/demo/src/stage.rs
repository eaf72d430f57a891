//! The stage of the transport's parts.

use std::sync::Arc;

use crate::far_end::FarEnd;
use crate::scale::Scale;
use crate::screen::Screen;

/// The resources that every part needs.
pub(crate) struct Stage {
    pub(crate) far: FarEnd,
    pub(crate) screen: Arc<Screen>,
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
}
