//! `whimbrel sub`: subscribes.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use whimbrel_pubsub::client::{Client, ClientError, Durability, Event, Subscribing, Subscription};
use whimbrel_pubsub::coverage::{StateFile, SubscriptionId, SubscriptionState};
use whimbrel_pubsub::frame::{Recover, Slow, Welcome};
use whimbrel_pubsub::topic::Subscribed;

use super::brokers::BrokerOptions;
use super::shown::{Shown, tell};
use crate::output::{note, output_error};
use crate::process::{Misused, RuntimeOptions, abort_all, interrupted};

/// Subscribes to a topic filter, and prints each message on a line.
///
/// With --state it recovers at its return, at any broker of the cluster, what it missed meanwhile.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  whimbrel sub 'prices/#' --broker whimbrel://KEY@127.0.0.1:4433 --selector \"price > 10 AND sector = 'fish'\"
  whimbrel sub '#' --broker URL --broker URL --state all.state --recover newest-per-key
  whimbrel sub '$share/workers/jobs/#' --broker URL        # twice or more: each job goes to one of them")]
pub struct SubCommand {
    /// The topic filter: + stands for one level, # for all further ones. Each message of `$share/GROUP/FILTER` goes to one member of the group.
    #[arg(required_unless_present = "end", conflicts_with = "end")]
    filter: Option<String>,
    #[command(flatten)]
    brokers: BrokerOptions,
    /// Receive only messages whose properties match this condition, in the language of JMS. docs/selectors.md describes it.
    #[arg(long, value_name = "CONDITION")]
    selector: Option<String>,
    /// Keep nothing: begin with what is published from now on, at each broker.
    #[arg(long, conflicts_with = "state")]
    nondurable: bool,
    /// Recover what was missed. This is the default; without --state, it holds for this run.
    #[arg(long, conflicts_with = "nondurable")]
    semi_durable: bool,
    /// Have the broker keep on disk, under this name, what was not received yet. The name belongs to our key.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["nondurable", "semi_durable", "from_held"])]
    durable: Option<String>,
    /// End the durable subscription, so that the broker keeps nothing for it.
    #[arg(long, requires = "durable")]
    end: bool,
    /// Keep in this file what was received, so that the next run recovers what was missed.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Begin with all that the broker holds, if nothing was received before.
    #[arg(long, conflicts_with = "nondurable")]
    from_held: bool,
    /// How to get what was missed: first, beside what is new, newest-per-key, or max-age=TIME.
    #[arg(long, value_name = "HOW", default_value = "first", value_parser = recover)]
    recover: Recover,
    /// Choose what happens while we are too slow: wait, drop-oldest=N, replace-by-key, or disconnect=N.
    #[arg(long, value_name = "HOW", default_value = "wait", value_parser = slow)]
    slow: Slow,
    /// End after this many messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print each message as a JSON object, with its topic and properties.
    #[arg(long)]
    json: bool,
    /// Print the topic before each message.
    #[arg(long, conflicts_with = "json")]
    topics: bool,
    #[command(flatten)]
    runtime: RuntimeOptions,
}

/// The most messages that are printed before they are acknowledged.
const ACKNOWLEDGE_EVERY: u64 = 256;
/// How often the state is saved while messages come.
const SAVE_EVERY: Duration = Duration::from_secs(1);

fn recover(text: &str) -> Result<Recover, String> {
    match text {
        "first" => Ok(Recover::First),
        "beside" => Ok(Recover::Beside),
        "newest-per-key" => Ok(Recover::NewestPerKey),
        _ => match text.strip_prefix("max-age=").map(crate::units::wait) {
            Some(Ok(age)) => Ok(Recover::MaxAge(age)),
            Some(Err(error)) => Err(error),
            None => Err("write first, beside, newest-per-key, or max-age=10min".to_owned()),
        },
    }
}

fn slow(text: &str) -> Result<Slow, String> {
    let number = |name: &str| text.strip_prefix(name).map(str::parse::<u64>);
    match (text, number("drop-oldest="), number("disconnect=")) {
        ("wait", ..) => Ok(Slow::Wait),
        ("replace-by-key", ..) => Ok(Slow::ReplaceByKey),
        (_, Some(Ok(lag)), _) if lag > 0 => Ok(Slow::DropOldest(lag)),
        (_, _, Some(Ok(lag))) if lag > 0 => Ok(Slow::Disconnect(lag)),
        _ => Err("write wait, drop-oldest=1000, replace-by-key, or disconnect=1000".to_owned()),
    }
}

/// How long the end waits until the last acknowledgement is on its way.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The state in its file.
struct Kept {
    file: StateFile,
    saved: Instant,
    /// Whether a broker has accepted the selection.
    is_attached: bool,
    is_dirty: bool,
}

impl SubCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// No broker is reached, the broker refuses the subscription, or the state cannot be used.
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = self.runtime;
        runtime.block_on(self.subscribe())
    }

    async fn subscribe(self) -> anyhow::Result<()> {
        if let (true, Some(name)) = (self.end, &self.durable) {
            return self.end(name).await;
        }
        // Mistakes are found before anybody is asked.
        let filter: Subscribed = self
            .filter
            .as_deref()
            .unwrap_or_default()
            .parse()
            .map_err(|error| Misused(format!("{error}")))?;
        if filter.group.is_some() {
            self.check_member()?;
        }
        if self.durable.is_some() && (self.recover != Recover::First || self.slow != Slow::Wait) {
            let why =
                "a durable subscription receives every message in order: leave --recover and --slow out";
            return Err(Misused(why.to_owned()).into());
        }
        let selector = self.selector.as_deref().map(whimbrel_broker::selector::Selector::parse).transpose();
        let selector = selector.map_err(|error| Misused(error.to_string()))?;
        let signal = interrupted()?;
        tokio::pin!(signal);
        if self.durable.is_some() {
            self.brokers.need_key()?;
        }
        let (endpoint, client) = self.brokers.connect(false).await?;
        let cluster = tokio::select! {
            welcome = self.connected(&client) => welcome?.cluster,
            signal = &mut signal => return Err(signal.into()),
        };
        let wanted = whimbrel_pubsub::coverage::Subscription {
            filter: filter.to_string(),
            selector: selector.map(|selector| selector.to_string()),
        };
        let mut subscribing = Subscribing::new(wanted.filter.clone());
        (subscribing.selector, subscribing.from_held) = (wanted.selector.clone(), self.from_held);
        (subscribing.recover, subscribing.slow) = (self.recover, self.slow);
        let mut kept = None;
        if self.nondurable {
            subscribing.durability = Durability::Nondurable;
        } else if let Some(path) = &self.state {
            let (file, state) = open(path, cluster, wanted)?;
            subscribing.durability = Durability::SemiDurable(Some(state));
            kept = Some(Kept { file, saved: Instant::now(), is_attached: false, is_dirty: false });
        }
        if let Some(name) = self.durable.clone() {
            let state = match subscribing.durability {
                Durability::SemiDurable(state) => state,
                _ => None,
            };
            subscribing.durability = Durability::Durable { name, state };
        }
        let mut subscription = client.subscribe(subscribing);
        let mut out = BufWriter::new(std::io::stdout());
        let received = tokio::select! {
            received = self.receive(&mut subscription, &mut kept, &mut out) => received,
            signal = &mut signal => Err(signal.into()),
        };
        // The state covers what was printed, however this ends, and nothing else.
        let flushed = out.flush().map_err(output_error);
        if let Some(kept) = kept.as_mut().filter(|kept| kept.is_dirty && flushed.is_ok()) {
            kept.save(&subscription)?;
        }
        if flushed.is_ok() && self.durable.is_some() {
            // What was printed last need not come again.
            subscription.acknowledge();
            tokio::time::timeout(LAST_WORD, subscription.acknowledged()).await.ok();
            drop((subscription, client));
            endpoint.close(0, "done", LAST_WORD).await;
            return received.and(flushed);
        }
        drop((subscription, client));
        // What is on its way is wanted no more, so nobody waits for it.
        abort_all(&endpoint, "done").await;
        received.and(flushed)
    }

    /// Refuses what a member of a group cannot have.
    fn check_member(&self) -> Result<(), Misused> {
        let is_kept = self.semi_durable || self.durable.is_some() || self.state.is_some() || self.from_held;
        let why = if is_kept {
            "a group has one position in the messages, which its members share: leave --state, --semi-durable, --durable and --from-held out"
        } else if self.recover != Recover::First || self.slow != Slow::Wait {
            "a group reads every message in order: leave --recover and --slow out"
        } else {
            return Ok(());
        };
        Err(Misused(why.to_owned()))
    }

    /// Ends the durable subscription of this name.
    async fn end(&self, name: &str) -> anyhow::Result<()> {
        self.brokers.need_key()?;
        let (endpoint, client) = self.brokers.connect(true).await?;
        let ended = client.end_durable(name).await;
        drop(client);
        endpoint.close(0, "done", Duration::from_secs(5)).await;
        match ended {
            Ok(true) => Ok(()),
            Ok(false) => anyhow::bail!("the broker has no durable subscription `{name}` for our key"),
            Err(error) => anyhow::bail!("the broker did not end the subscription: {error}"),
        }
    }

    /// Waits until a broker has answered, however long. A person who waits hears so.
    async fn connected(&self, client: &Client) -> Result<Welcome, ClientError> {
        let patience = self.brokers.patience();
        match tokio::time::timeout(patience, client.connected()).await {
            Ok(welcome) => welcome,
            Err(_) => {
                note(format_args!("no broker has answered for {patience:?}; still trying"));
                client.connected().await
            }
        }
    }

    async fn receive(
        &self,
        subscription: &mut Subscription,
        kept: &mut Option<Kept>,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let shown = Shown { json: self.json, topics: self.topics };
        let (mut left, mut unacknowledged) = (self.count.unwrap_or(u64::MAX), 0);
        while left > 0 {
            let next = match subscription.try_recv() {
                Some(event) => Some(event),
                None => {
                    out.flush().map_err(output_error)?;
                    self.acknowledge(subscription, &mut unacknowledged);
                    match kept {
                        Some(kept) => tokio::select! {
                            event = subscription.recv() => event,
                            () = tokio::time::sleep(SAVE_EVERY), if kept.is_dirty => {
                                kept.save(subscription)?;
                                continue;
                            }
                        },
                        None => subscription.recv().await,
                    }
                }
            };
            match next {
                Some(Event::Message(delivery)) => {
                    shown.print(&delivery, out)?;
                    (left, unacknowledged) = (left - 1, unacknowledged + 1);
                    if unacknowledged >= ACKNOWLEDGE_EVERY {
                        out.flush().map_err(output_error)?;
                        self.acknowledge(subscription, &mut unacknowledged);
                    }
                }
                Some(Event::Refused(refusal)) => {
                    anyhow::bail!("the broker refuses the subscription: {refusal}")
                }
                Some(Event::Failed(error)) => return Err(error.into()),
                Some(event) => {
                    if let (Some(kept), Event::Attached(_)) = (&mut *kept, &event) {
                        kept.is_attached = true;
                    }
                    tell(&event);
                }
                None => anyhow::bail!("the client was stopped"),
            }
            if let Some(kept) = kept {
                // Before, a broker may still refuse the selection.
                kept.is_dirty = kept.is_attached;
                if kept.is_dirty && kept.saved.elapsed() >= SAVE_EVERY {
                    out.flush().map_err(output_error)?;
                    kept.save(subscription)?;
                }
            }
        }
        Ok(())
    }
}

impl SubCommand {
    /// Acknowledges what was printed, if the subscription is durable.
    fn acknowledge(&self, subscription: &mut Subscription, unacknowledged: &mut u64) {
        if self.durable.is_some() {
            subscription.acknowledge();
            *unacknowledged = 0;
        }
    }
}

impl Kept {
    fn save(&mut self, subscription: &Subscription) -> anyhow::Result<()> {
        if let Some(state) = subscription.state() {
            self.file.save(state)?;
        }
        (self.saved, self.is_dirty) = (Instant::now(), false);
        Ok(())
    }
}

/// Opens the state, and says if it was of another selection.
fn open(
    path: &Path,
    cluster: whimbrel_pubsub::coverage::ClusterId,
    wanted: whimbrel_pubsub::coverage::Subscription,
) -> anyhow::Result<(StateFile, SubscriptionState)> {
    let (file, state, changed) = StateFile::attach(path, SubscriptionId(random()?), cluster, wanted)?;
    if changed {
        note(format_args!(
            "{}: the filter or selector has changed, so this begins live: the messages that the former one left out are not known",
            path.display()
        ));
    }
    Ok((file, state))
}

fn random() -> anyhow::Result<u128> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no random numbers"))?;
    Ok(u128::from_le_bytes(bytes))
}
