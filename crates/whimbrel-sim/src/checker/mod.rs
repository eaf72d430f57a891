//! Random operations on both ends of a connection, and a model outside the system that says what must have come of them.
//!
//! A run is decided by its [`Dice`]: a seed, or the bytes of a fuzzer. Settings are drawn first, then operations one after the other
//! ([`Operation`]), on links that change under way; at last the session comes to rest and is closed, or ends in a rougher way
//! ([`Finale`]). All along the [`Model`] knows what was asked and hears what came out, and panics where they do not fit:
//!
//! - nothing reliable is lost while the session lives, nothing is delivered twice, nothing is changed;
//! - order is kept in each domain; a replacement may take the place of what it replaces;
//! - every tracked message has one outcome, with a reason for it, and the receiver got it exactly if the outcome says so;
//! - after its lifetime a message is not sent any more;
//! - byte streams come out as they went in, and end as they were ended;
//! - queues and unread data stay within their limits, both ends agree on credit when all is quiet, and in the end nothing is held of it;
//! - before its challenge was answered a path carries next to nothing;
//! - once the link is good everything is done within bounded time.
//!
//! [`run_move`] does the same, in small, with sessions that are suspended and resumed.
//!
//! A [`Tape`] keeps the decisions of a run: [`reduce`] makes one that failed short, and it can be written to a file and played again.

mod arrivals;
mod attacker;
mod away;
mod coverage;
mod dice;
mod ending;
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
pub use coverage::Coverage;
pub use dice::{Dice, FromBytes, Seeded};
pub use model::Model;
pub use moving::run_move;
pub use operation::{Draft, Finale, NetworkChange, Operation};
pub use reduce::{Reduced, class, reduce};
pub use run::{play, run};
pub use script::{OPERATIONS, Script};
pub use special::{Attack, Special, View};
pub use tape::{Kind, Tape};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs one seed; what was wrong, if anything.
///
/// # Errors
/// The checker's or the system's complaint.
pub fn run_seed(seed: u64) -> Result<Coverage, String> {
    complaint(|| run(&mut Seeded::new(seed), seed))
}

/// Runs one seed of sessions that move; what was wrong, if anything.
///
/// # Errors
/// The checker's or the system's complaint.
pub fn move_seed(seed: u64) -> Result<(), String> {
    complaint(|| run_move(seed))
}

/// Runs what the bytes say.
///
/// # Errors
/// As [`run_seed`].
pub fn run_bytes(bytes: &[u8]) -> Result<Coverage, String> {
    complaint(|| run(&mut FromBytes::new(bytes), 1))
}

/// Runs `check` and turns a panic into words.
///
/// # Errors
/// The panic's message.
pub fn complaint<T>(check: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(check)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into())).unwrap_or_default()
    })
}
