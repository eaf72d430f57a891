//! One run, with where it panicked.

use std::cell::RefCell;
use std::panic::set_hook;

use whimbrel_sim::checker::{Coverage, Tape};

/// A fault that is planted on purpose.
#[cfg(feature = "mutants")]
pub(crate) type Planted = Option<whimbrel_proto::mutants::Mutant>;
/// None can be.
#[cfg(not(feature = "mutants"))]
pub(crate) type Planted = Option<std::convert::Infallible>;

/// Plants it on this thread.
pub(crate) fn plant(planted: Planted) {
    #[cfg(feature = "mutants")]
    whimbrel_proto::mutants::plant(planted);
    #[cfg(not(feature = "mutants"))]
    let _ = planted;
}

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics are complaints, and are reported as such: only where they were is noted.
pub(crate) fn be_quiet() {
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        PLACE.with_borrow_mut(|kept| *kept = place);
    }));
}

/// Runs it; what was wrong, and where that was noticed.
pub(crate) fn run(tape: &Tape) -> Result<Coverage, String> {
    tape.run().map_err(|complaint| format!("{complaint}\nat {}", PLACE.with_borrow(String::clone)))
}
