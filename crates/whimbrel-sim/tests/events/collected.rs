//! A subscriber that keeps every event, with its fields and those of the span around it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    /// Its own fields, with the text as `message`, and those of its span.
    fields: BTreeMap<&'static str, String>,
}

impl Told {
    /// A field's value as text; empty if it is not there.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub(crate) fn message(&self) -> &str {
        self.field("message")
    }
}

/// Collects events while [`Collected::during`] runs.
#[derive(Clone, Default)]
pub(crate) struct Collected(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    spans: Vec<BTreeMap<&'static str, String>>,
    events: Vec<Told>,
}

impl Collected {
    /// Runs something on this thread, and returns the events that it caused.
    pub(crate) fn during<T>(run: impl FnOnce() -> T) -> (T, Vec<Told>) {
        let collected = Self::default();
        let result = tracing::subscriber::with_default(collected.clone(), run);
        let events = collected.with(|state| std::mem::take(&mut state.events));
        (result, events)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().expect("no test panics while it holds this"))
    }
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Collected {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("whimbrel")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        self.with(|state| {
            state.spans.push(fields);
            Id::from_u64(state.spans.len() as u64)
        })
    }

    fn event(&self, event: &Event<'_>) {
        self.with(|state| {
            let span = event.parent().map(|id| id.into_u64() as usize - 1);
            let mut fields = span.and_then(|span| state.spans.get(span)).cloned().unwrap_or_default();
            event.record(&mut Fields(&mut fields));
            let metadata = event.metadata();
            state.events.push(Told { level: *metadata.level(), target: metadata.target(), fields });
        });
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
