//! The error of a stream.

use whimbrel::StreamIoError;

/// Why a stream cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The peer has ended its direction early, with this code.
    Reset(u64),
    /// The peer reads no more.
    Stopped(u64),
    /// This end has ended it.
    Ended,
    /// The link is over.
    Over,
}

impl From<StreamIoError> for Failure {
    fn from(error: StreamIoError) -> Self {
        match error {
            StreamIoError::Reset(code) => Self::Reset(code.0),
            StreamIoError::Stopped(code) => Self::Stopped(code.0),
            StreamIoError::Ended => Self::Ended,
            _ => Self::Over,
        }
    }
}
