//! How far one direction of a byte stream has come, as the application knows it.

use crate::error::StreamIoError;

pub(crate) enum Half {
    Open,
    /// Ended well.
    Finished,
    /// Each further call says the same.
    Failed(StreamIoError),
}

impl Half {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}
