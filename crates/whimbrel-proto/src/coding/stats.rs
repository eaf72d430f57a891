//! The figures of coding against loss.

/// Figures of coding against loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodingStats {
    /// Packets sent as source symbols.
    pub sources: u64,
    /// Repair symbols sent.
    pub repairs: u64,
    /// Source symbols recovered, whose packets were lost or late.
    pub recovered: u64,
}
