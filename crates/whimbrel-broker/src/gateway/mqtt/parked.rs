//! A subscription of a client that is away.

use std::sync::Arc;

use whimbrel_pubsub::frame::{Recover, Start};
use whimbrel_pubsub::topic::TopicFilter;

use super::acknowledged::Acknowledged;
use super::options::{Options, Wanted};
use super::stored::Line;
use crate::selection::Selection;

/// A subscription of a session that is kept.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) selection: Selection,
    pub(super) options: Options,
    /// Where it goes on. After a restart of the broker, only the store knows where its durable part was.
    pub(super) start: Start,
    /// Messages that the client has and the store was not told of.
    pub(super) acknowledged: Arc<Acknowledged>,
    pub(super) is_semi_durable: bool,
}

impl Parked {
    pub(super) fn bytes(&self) -> usize {
        let selector = self.selection.selector().map_or(0, |selector| selector.to_string().len() * 4);
        let coverage = match &self.start {
            Start::Coverage(coverage) => coverage.encode().len() * 4,
            _ => 0,
        };
        256 + self.selection.filter().as_str().len() + selector + coverage
    }

    /// One that was found on disk.
    pub(super) fn of(line: Line) -> Self {
        let Line { selection, options, .. } = line;
        let (start, acknowledged) = (Start::Live, Arc::default());
        Self { selection, options, start, acknowledged, is_semi_durable: false }
    }

    /// The subscription as it is kept on disk. The client keeps a semi-durable one.
    pub(super) fn line(&self) -> Option<Line> {
        let (text, selection) = (self.filter().to_owned(), self.selection.clone());
        (!self.is_semi_durable).then_some(Line { text, selection, options: self.options })
    }

    pub(super) fn filter(&self) -> &str {
        self.selection.filter().as_str()
    }

    pub(super) fn topic_filter(&self) -> &TopicFilter {
        self.selection.filter()
    }

    pub(super) fn wanted(self) -> (Wanted, Arc<Acknowledged>) {
        let Self { selection, options, start, acknowledged, is_semi_durable } = self;
        let (recover, wants_values) = (Recover::First, true);
        let wanted = Wanted { selection, options, start, recover, wants_values, is_semi_durable };
        (wanted, acknowledged)
    }
}
