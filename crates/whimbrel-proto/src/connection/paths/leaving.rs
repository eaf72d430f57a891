//! Whether a path is to be closed, and who wants that.

/// Whether a path is to be closed as soon as another works.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct Leaving(Option<Why>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The peer withdrew its address.
    Withdrawn,
    /// The application closed it, although it may work. What is in flight on it may arrive.
    Chosen,
}

impl Leaving {
    /// Handles that the peer withdrew its address.
    pub(in crate::connection) fn on_withdrawn(&mut self) {
        self.0.get_or_insert(Why::Withdrawn);
    }

    /// Handles that the application closed the path.
    pub(in crate::connection) fn on_chosen(&mut self) {
        self.0 = Some(Why::Chosen);
    }

    pub(in crate::connection) fn is_wanted(self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the path is left by choice.
    pub(in crate::connection) fn is_by_choice(self) -> bool {
        self.0 == Some(Why::Chosen)
    }
}
