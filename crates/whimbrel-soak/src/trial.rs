//! A single run, and the place where it panicked.

use std::cell::RefCell;
use std::panic::set_hook;

use whimbrel_sim::checker::{Coverage, Tape};

/// A fault that is planted on purpose.
#[cfg(feature = "mutants")]
pub(crate) type Planted = Option<whimbrel_proto::mutants::Mutant>;
/// Without the feature, no fault can be planted.
#[cfg(not(feature = "mutants"))]
pub(crate) type Planted = Option<std::convert::Infallible>;

/// Plants a fault on this thread.
pub(crate) fn plant(planted: Planted) {
    #[cfg(feature = "mutants")]
    whimbrel_proto::mutants::plant(planted);
    #[cfg(not(feature = "mutants"))]
    let _ = planted;
}

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Makes panics silent: they are reported as complaints, so only their place is recorded.
pub(crate) fn be_quiet() {
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        PLACE.with_borrow_mut(|kept| *kept = place);
    }));
}

/// Runs a tape.
///
/// # Errors
/// The complaint, and the place where it was noticed.
pub(crate) fn run(tape: &Tape) -> Result<Coverage, String> {
    tape.run().map_err(|complaint| format!("{complaint}\nat {}", PLACE.with_borrow(String::clone)))
}
