//! The importance of a message.

use super::error::MessageError;

/// The importance of a message: 1 (least) to 10 (most). Default: 5. The overwriting policy `pwp` keeps messages of a high index longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(u8);

impl Index {
    /// The least important.
    pub const LEAST: Self = Self(1);
    /// The most important.
    pub const MOST: Self = Self(10);

    /// Returns the index `number`.
    ///
    /// # Errors
    /// [`MessageError::Index`] if `number` is not 1 to 10.
    pub const fn new(number: u8) -> Result<Self, MessageError> {
        match number {
            1..=10 => Ok(Self(number)),
            _ => Err(MessageError::Index(number)),
        }
    }

    /// Returns the number, 1 to 10.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl Default for Index {
    fn default() -> Self {
        Self(5)
    }
}
