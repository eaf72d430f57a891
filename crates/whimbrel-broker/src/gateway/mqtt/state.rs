//! Reports to a semi-durable subscription of MQTT 5 about its state.
//!
//! The state is one text in the user property `whimbrel-coverage`. It comes with messages, and where none comes, in a message of its own to
//! the topic `$whimbrel/state`. The last one that came is the state.

use std::time::{Duration, Instant};

use whimbrel_pubsub::coverage::{ClusterId, Count, Coverage, Fate, Told};

use super::codec::{Out, PropertyList, Qos};
use super::options::Options;
use crate::hub::Attachment;
use crate::selection::Selection;

/// The user property that tells what a subscription covers.
pub(super) const COVERAGE: &str = "whimbrel-coverage";
/// A text not longer than this comes with each message, bytes.
const SHORT: usize = 256;
/// A longer one comes after so many messages,
const EVERY: u32 = 64;
/// or after this time.
const AFTER: Duration = Duration::from_secs(1);
/// The topic of what comes without a message.
const TOPIC: &str = "$whimbrel/state";

/// The state that was last told to a subscription, and the news that is still to be told.
#[derive(Debug)]
pub(super) struct Telling {
    cluster: ClusterId,
    told: String,
    at: Instant,
    /// Messages since then.
    since: u32,
    gone: Count,
    recovered: Option<u64>,
    has_news: bool,
}

impl Telling {
    pub(super) fn new(cluster: ClusterId) -> Self {
        let (told, at) = (String::new(), Instant::now());
        // The first state is told at once: from there on nothing is missed.
        Self { cluster, told, at, since: 0, gone: Count::NONE, recovered: None, has_news: true }
    }

    /// Something was told that is no message.
    pub(super) fn heard(&mut self, told: &Told) {
        match told {
            Told::Fate { fate: Fate::Gone, count, .. } => {
                self.gone = self.gone.and(*count);
                self.has_news = true;
            }
            Told::Recovered(recovered) => {
                self.recovered = Some(self.recovered.unwrap_or(0) + recovered.recovered);
                self.has_news = true;
            }
            _ => {}
        }
    }

    /// The state that goes with a message that was just read, if it is due.
    pub(super) fn with_delivery(&mut self, attachment: &Attachment) -> Option<String> {
        self.since += 1;
        if self.told.len() > SHORT && self.since < EVERY && self.at.elapsed() < AFTER {
            return None;
        }
        Some(self.tell(attachment).to_owned())
    }

    /// Tells what became of messages that were missed.
    pub(super) fn tell_news(
        &mut self,
        attachment: &Attachment,
        selection: &Selection,
        options: &Options,
        out: &mut Out,
    ) {
        if self.has_news {
            self.tell(attachment);
            self.send(selection, options, out);
        }
    }

    /// Tells what is covered if it changed and no message told it.
    pub(super) fn tell_coverage(
        &mut self,
        attachment: &Attachment,
        selection: &Selection,
        options: &Options,
        out: &mut Out,
    ) {
        if self.text(attachment) != self.told {
            self.tell(attachment);
            self.send(selection, options, out);
        }
    }

    fn tell(&mut self, attachment: &Attachment) -> &str {
        self.told = self.text(attachment);
        (self.at, self.since) = (Instant::now(), 0);
        &self.told
    }

    fn text(&self, attachment: &Attachment) -> String {
        format!("{}.{}", self.cluster, attachment.coverage().to_text())
    }

    fn send(&mut self, selection: &Selection, options: &Options, out: &mut Out) {
        let mut properties = PropertyList::default();
        if let Some(identifier) = options.identifier {
            properties.variable(0x0b, identifier);
        }
        properties.user(COVERAGE, &self.told);
        properties.user("whimbrel-filter", selection.filter().as_str());
        if let Some(recovered) = self.recovered.take() {
            properties.user("whimbrel-recovered", &recovered.to_string());
            properties.user("whimbrel-gone", &self.gone.to_string());
            self.gone = Count::NONE;
        } else if self.gone.number > 0 {
            properties.user("whimbrel-gone", &self.gone.to_string());
            self.gone = Count::NONE;
        }
        self.has_news = false;
        out.publish(TOPIC, (Qos::AtMostOnce, 0), false, &properties, &[]);
    }
}

/// Reads a state that a client sends.
pub(super) fn parse(text: &str, own: ClusterId) -> Result<Coverage, String> {
    let Some((cluster, coverage)) = text.split_once('.') else {
        return Err("the state is damaged: start over with the value live or held".to_owned());
    };
    if cluster != own.to_string() {
        return Err(format!(
            "the state belongs to cluster {cluster}, but this broker belongs to cluster {own}"
        ));
    }
    Coverage::from_text(coverage).map_err(|error| error.to_string())
}
