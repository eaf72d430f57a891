//! Events of `tracing`. This test has its own file because enabled events are remembered for the whole process.
#![cfg(feature = "tracing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use whimbrel::{Config, Endpoint, new_identity};

/// Collects events as lines of text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("whimbrel") && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = Text("span".to_owned());
        attributes.record(&mut text);
        let mut lines = self.0.lock().unwrap();
        lines.push(text.0);
        Id::from_u64(lines.len() as u64)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn states_and_verdicts_are_events() {
    let lines = Lines::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(lines.clone(), || {
        runtime.block_on(talk());
    });
    let lines = lines.0.lock().unwrap().join("\n");
    for wanted in [
        "span id=",
        "side=Client",
        "established=true",
        "new=Active",
        "new=\"fin sent\"",
        "new=\"over\"",
        "congestion control changed phase",
    ] {
        assert!(lines.contains(wanted), "{wanted} is not among:\n{lines}");
    }
}

/// Sends a message, then closes gracefully.
async fn talk() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(url).await.unwrap();
    let far = server.accept().await.unwrap();
    near.send("a message").await.unwrap();
    far.recv().await.unwrap();
    near.close(0, "done").await;
    far.closed().await;
}
