//! How long some blocks are, and how often some packets go.

use crate::wire::packet::{CLEAR_LEN, TAG_LEN};

/// A packet with a challenge at the longest.
pub(in crate::connection) const CHALLENGE_LEN: usize = CLEAR_LEN + 4 + 9 + TAG_LEN;
/// The first packet of a path is made so long if no other works: it has room for NEW_CID, and three times that for the answer, a challenge,
/// and a SACK of another path.
pub(in crate::connection) const OPENING_LEN: usize = 72;
/// Room in which a SACK of one range fits, whatever its numbers.
pub(in crate::connection) const SACK_LEN: usize = CLEAR_LEN + 4 + 2 + 4 * 8 + 1 + 8 + 24 + TAG_LEN;
/// Blocks of a farewell at the longest: a reason's text fits.
pub(in crate::connection) const MOST_FAREWELL: usize = 480;
/// Repetitions of a last packet to a peer that goes on.
pub(in crate::connection) const FAREWELLS: u8 = 8;
/// PONG is repeated to early packets after so long, then after twice as long, and so on.
pub(in crate::connection) const PONG_WAIT: std::time::Duration = std::time::Duration::from_millis(10);
