//! Three brokers, each behind a bad link.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use whimbrel::Url;
use whimbrel_service::key::save_new;

use crate::bad_link::Link;
use crate::child::{self, Folder, said_by};

/// The brokers.
const BROKERS: usize = 3;

/// Three brokers. They end when this is dropped.
pub(super) struct Cluster {
    brokers: Vec<Child>,
    links: Vec<Link>,
    urls: Vec<String>,
    alive: Arc<AtomicUsize>,
    folder: Folder,
}

/// How many brokers live: those with the lowest numbers.
#[derive(Clone)]
pub(super) struct Alive {
    alive: Arc<AtomicUsize>,
    urls: Vec<String>,
}

impl Alive {
    /// The URLs of the brokers that live, through their links.
    pub(super) fn urls(&self) -> &[String] {
        &self.urls[..self.alive.load(Ordering::Relaxed)]
    }
}

impl Cluster {
    /// Starts them. The later dial the earlier.
    pub(super) async fn start(link: &'static str, seed: u64) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let keys: Vec<_> = (0..BROKERS).map(|_| whimbrel::new_identity()).collect();
        let mut cluster =
            Self { brokers: Vec::new(), links: Vec::new(), urls: Vec::new(), alive: Arc::default(), folder };
        let mut direct: Vec<Url> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let file = cluster.folder.file(format!("broker{at}.key"));
            save_new(&file, key)?;
            let mut text = format!(
                "[broker]\nname = 'broker {}'\ncluster = 'demo {seed} of {}'\n[other_clients]\npublish = '#'\nsubscribe = '#'\n\
                 [listen]\naddress = '127.0.0.1:0'\nkey = '{}'\n",
                at + 1,
                keys[0].public(),
                file.display()
            );
            for (other, key) in keys.iter().enumerate().filter(|(other, _)| *other != at) {
                text += &match direct.get(other) {
                    Some(url) => format!("[[peer]]\nurl = '{url}'\n"),
                    None => format!("[[peer]]\nkey = '{}'\n", key.public()),
                };
            }
            let config = cluster.folder.file(format!("broker{at}.toml"));
            std::fs::write(&config, text)?;
            let arguments = ["member", "broker", "run", "--config"].map(std::ffi::OsStr::new);
            let mut broker = child::start(
                arguments.into_iter().chain([config.as_os_str()]),
                Stdio::piped(),
                Stdio::null(),
            )?;
            let mut said = BufReader::new(broker.stdout.take().context("a broker has no output")?).lines();
            let [url] = said_by("a broker", &mut said, ["listening "]).await?;
            let url: Url = url.parse()?;
            let seed = seed.wrapping_add(1_000 + at as u64);
            let link = Link::open(SocketAddr::new(url.host.parse()?, url.port), link, seed)?;
            cluster.urls.push(format!("whimbrel://{}@{}", key.public(), link.address()));
            direct.push(url);
            cluster.links.push(link);
            cluster.brokers.push(broker);
        }
        cluster.alive.store(BROKERS, Ordering::Relaxed);
        Ok(cluster)
    }

    /// The URLs of all, through their links.
    pub(super) fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    pub(super) fn alive(&self) -> Alive {
        Alive { alive: Arc::clone(&self.alive), urls: self.urls() }
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Kills the last one, at any point.
    pub(super) async fn kill_last(&mut self) -> anyhow::Result<()> {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        if let Some(mut broker) = self.brokers.pop() {
            broker.kill().await?;
        }
        Ok(())
    }
}
