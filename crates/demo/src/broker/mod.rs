//! Subscribers that roam between three brokers over bad links, while somebody publishes and one broker is killed.

mod cluster;
mod member;
mod publisher;
mod roamer;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::time::sleep;

use cluster::Cluster;
pub(crate) use member::Member;
use roamer::{Kind, Roamed, Roamer};

use crate::findings::{Findings, Row};
use crate::scale::Scale;
use crate::screen::{Screen, Unit};

/// The link to each broker.
const LINK: &str = "rate=8mbit, delay=25ms, queue=200ms, loss=5%";
/// Messages a second.
const RATE: u32 = 100;
/// The task on the screen.
const PUBLISHED: &str = "published";
/// How long the last messages may take to reach everybody.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the demo of the broker.
pub(crate) async fn play(screen: &Screen, scale: &Scale, seed: u64) -> anyhow::Result<Findings> {
    let Scale { subscribers, published, .. } = *scale;
    screen.say(&format!(
        "{subscribers} subscribers that roam between three brokers, over 8 Mbit/s, 50 ms, 5 % loss each way; one broker is killed"
    ));
    let mut cluster = Cluster::start(LINK, seed).await?;
    let messages = RATE * u32::try_from(published.as_secs())?;
    screen.begin(PUBLISHED, "messages", messages.into(), Unit::Messages);
    let mut roamers = Vec::new();
    for number in 0..=subscribers {
        // The last one is there to compare with.
        let kind = if number == subscribers { Kind::Nondurable } else { Kind::SemiDurable };
        let rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(number as u64));
        roamers.push(Roamer::start(number, kind, &cluster, rng).await?);
    }
    let (urls, alive) = (cluster.urls(), cluster.alive());
    let killing = async {
        sleep(published / 2).await;
        cluster.kill_last().await
    };
    let publishing = publisher::publish(&urls[..2], messages, RATE, |so_far| {
        screen.progress(PUBLISHED, 0, so_far.into());
    });
    let roaming = async {
        let mut tasks = tokio::task::JoinSet::new();
        for roamer in roamers {
            tasks.spawn(roamer.roam(alive.clone(), published, messages, PATIENCE));
        }
        let mut all = BTreeMap::new();
        while let Some(roamed) = tasks.join_next().await {
            let roamed = roamed??;
            all.insert(roamed.number, roamed);
        }
        anyhow::Ok(all)
    };
    let ((), (), all) = tokio::try_join!(killing, publishing, roaming)?;
    screen.end(PUBLISHED, &format!("{messages} messages"));
    Ok(judge(&all.into_values().collect::<Vec<_>>(), messages))
}

fn judge(all: &[Roamed], messages: u32) -> Findings {
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for roamed in all {
        let Roamed { number, kind, received, twice, recovered, moves, away } = roamed;
        let lost = messages - received;
        let what = match kind {
            Kind::SemiDurable => format!("subscriber {}", number + 1),
            Kind::Nondurable => "a nondurable subscriber".to_owned(),
        };
        if *kind == Kind::SemiDurable && (lost > 0 || *twice > 0) {
            missing
                .push(format!("{what}: {lost} of {messages} messages did not come, and {twice} came twice"));
        }
        rows.push(Row::new(
            what,
            format!("{received} of {messages} messages, {recovered} of them recovered"),
            format!("{lost} lost, {twice} twice; {moves} moves, away {:.0} % of the time", away * 100.0),
        ));
    }
    let figures = all.iter().map(|roamed| {
        json!({
            "kind": if roamed.kind == Kind::SemiDurable { "semi-durable" } else { "nondurable" },
            "received": roamed.received, "lost": messages - roamed.received, "twice": roamed.twice,
            "recovered": roamed.recovered, "moves": roamed.moves, "away_share": roamed.away,
        })
    });
    let figures = json!({ "messages": messages, "subscribers": figures.collect::<Vec<_>>() });
    Findings { name: "broker", figures, rows, missing }
}
