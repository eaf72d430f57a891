//! Look-ups in our own tables that must succeed.

/// The result of looking up something that another of our tables names.
pub(crate) trait Expected {
    /// Passes the result on. If nothing was found, our tables contradict each other: tests stop here, and a release
    /// goes on without it.
    #[track_caller]
    fn expected(self, what: &str) -> Self;
}

impl<T> Expected for Option<T> {
    #[inline]
    #[track_caller]
    fn expected(self, what: &str) -> Self {
        debug_assert!(self.is_some(), "{what} is not where our tables say it is");
        self
    }
}
