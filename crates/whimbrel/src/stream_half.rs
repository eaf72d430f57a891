//! The state of one direction of a byte stream, as the application knows it.

use crate::error::StreamIoError;

pub(crate) enum Half {
    Open,
    /// Ended cleanly.
    Finished,
    /// Failed. Each further call returns the same error. In a box, since a program may hold very many streams.
    Failed(Box<StreamIoError>),
}

impl Half {
    pub(crate) fn failed(why: StreamIoError) -> Self {
        Self::Failed(Box::new(why))
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}
