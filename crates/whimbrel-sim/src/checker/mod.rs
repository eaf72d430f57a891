//! Random operations on both ends of a connection, and a model outside the system that knows what must result from them.
//!
//! A run is decided by its [`Dice`]: a seed, or the bytes of a fuzzer. Settings are drawn first, then operations one by one
//! ([`Operation`]), on links that change along the way. At last the session comes to rest and is closed, or ends less gently
//! ([`Finale`]). The [`Model`] knows what was requested and sees what results, and panics where they do not match:
//!
//! - nothing reliable is lost while the session lives, nothing is delivered twice, and nothing is changed;
//! - order is kept in each domain; a replacement may take the place of what it replaces;
//! - every tracked message has one outcome, with a reason for it, and the receiver got it exactly if the outcome says so;
//! - a message is not sent after its lifetime;
//! - byte streams come out as they went in, and end as they were ended;
//! - queues and unread data stay within their limits; both ends agree on credit at rest, and hold none of it in the end;
//! - a path carries next to nothing before its challenge was answered;
//! - once the link is good, everything finishes within bounded time.
//!
//! [`run_move`] does the same on a smaller scale with sessions that are suspended and resumed.
//!
//! A [`Tape`] keeps the decisions of a run. [`reduce`] shortens one that failed; a tape can be written to a file and replayed.

mod arrivals;
mod attacker;
mod attacking;
mod away;
mod complaint;
mod counting;
mod coverage;
mod dice;
mod draft;
mod ending;
mod leaving;
mod model;
mod moving;
mod neglect;
mod networks;
mod operation;
mod reduce;
mod run;
mod script;
mod settings;
mod special;
mod tape;

pub use away::Away;
pub use complaint::complaint;
pub use coverage::Coverage;
pub use dice::{Dice, FromBytes, Seeded};
pub use draft::Draft;
pub use model::Model;
pub use moving::run_move;
pub use operation::{Finale, NetworkChange, Operation};
pub use reduce::{Reduced, class, reduce};
pub use run::{play, run};
pub use script::{OPERATIONS, Script};
pub use special::{Attack, Special, View};
pub use tape::{INPUT_SEED, Kind, Tape};

/// Runs one seed.
///
/// # Errors
/// The failure that the checker or the system reported.
pub fn run_seed(seed: u64) -> Result<Coverage, String> {
    complaint(|| run(&mut Seeded::new(seed), seed))
}

/// Runs one seed of sessions that move.
///
/// # Errors
/// The failure that the checker or the system reported.
pub fn move_seed(seed: u64) -> Result<(), String> {
    complaint(|| run_move(seed))
}

/// Runs the decisions in `bytes`.
///
/// # Errors
/// See [`run_seed`].
pub fn run_bytes(bytes: &[u8]) -> Result<Coverage, String> {
    complaint(|| run(&mut FromBytes::new(bytes), 1))
}
