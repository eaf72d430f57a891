//! The server. It accepts every connection, drops messages or sends them back, and prints its counters on request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::io::{AsyncBufReadExt, BufReader};
use whimbrel::{Config, Endpoint, ListenConfig, new_identity};

use crate::others::{self, Peer};

/// The first byte of messages that are sent back.
pub(crate) const ECHO: u8 = b'?';

/// The most messages that one receive call returns.
const MANY: usize = 256;

/// The options of the server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Serve {
    #[arg(long, value_enum, default_value = "whimbrel")]
    peer: Peer,
    /// Read from every connection, not only the first
    #[arg(long)]
    read_all: bool,
    /// The number of receive loops, on two threads that are not pinned; 0 means one, on this thread
    #[arg(long, default_value_t = 0)]
    pub(crate) loops: usize,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.peer {
            Peer::Whimbrel => run(self.read_all, self.loops).await,
            Peer::Quinn => others::quinn::serve().await,
            Peer::Noq => others::noq::serve().await,
            Peer::Tcp => others::tcp::serve().await,
        }
    }
}

async fn run(read_all: bool, loops: usize) -> anyhow::Result<()> {
    // All clients share one address and a few keys, so those limits are lifted.
    let listen = ListenConfig::default().pings_per_address(u32::MAX).max_per_key(usize::MAX);
    let config = Config::listen_as(new_identity()).listen(Some(listen)).receive_loops(Some(loops.max(1)));
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await?;
    println!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr()?);
    let (mockets, bytes) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
    let (held, received, accepting) = (Rc::clone(&mockets), Rc::clone(&bytes), endpoint.clone());
    let local = tokio::task::LocalSet::new();
    local.spawn_local(async move {
        while let Some(mocket) = accepting.accept().await {
            // Most connections have no reader, since a task for each would add to the cost that is measured.
            if read_all || held.borrow().is_empty() {
                tokio::task::spawn_local(drain(mocket.clone(), Rc::clone(&received)));
            }
            held.borrow_mut().push(mocket);
        }
    });
    let answers = async {
        let mut questions = BufReader::new(tokio::io::stdin()).lines();
        while questions.next_line().await?.is_some() {
            let stats = endpoint.stats();
            let loops = endpoint.received_by_loop();
            let loops: Vec<String> = loops.iter().map(|count| count.to_string()).collect();
            let (connections, bytes) = (mockets.borrow().len(), bytes.get());
            println!("{connections} {bytes} {} {} {}", stats.syns, stats.syns_dropped, loops.join(" "));
        }
        anyhow::Ok(())
    };
    local.run_until(answers).await
}

async fn drain(mocket: whimbrel::Mocket, bytes: Rc<Cell<u64>>) {
    let mut messages = Vec::with_capacity(MANY);
    while mocket.recv_many(&mut messages, MANY).await.is_ok() {
        for message in messages.drain(..) {
            bytes.set(bytes.get() + message.payload.len() as u64);
            if message.payload.first() == Some(&ECHO) && mocket.send(message.payload).await.is_err() {
                return;
            }
        }
    }
}
