//! The lengths of some packets, and how often some are repeated.

use crate::wire::packet::{CLEAR_LEN, TAG_LEN};

/// The longest packet with a challenge.
pub(in crate::connection) const CHALLENGE_LEN: usize = CLEAR_LEN + 4 + 9 + TAG_LEN;
/// The length of a new path's first packet if no other path works. It has room for NEW_CID. Three times as much, by the
/// amplification limit, has room for the answer, a challenge, and a SACK of another path.
pub(in crate::connection) const OPENING_LEN: usize = 72;
/// A packet with a SACK of one range fits into this, whatever its numbers.
pub(in crate::connection) const SACK_LEN: usize = CLEAR_LEN + 4 + 2 + 4 * 8 + 1 + 8 + 24 + TAG_LEN;
/// The most bytes of blocks in a farewell: a reason's text fits.
pub(in crate::connection) const MOST_FAREWELL: usize = 480;
/// How often a last packet is repeated to a peer that still sends.
pub(in crate::connection) const FAREWELLS: u8 = 8;
/// The wait before PONG is first repeated to early packets. It doubles with each repetition.
pub(in crate::connection) const PONG_WAIT: std::time::Duration = std::time::Duration::from_millis(10);
