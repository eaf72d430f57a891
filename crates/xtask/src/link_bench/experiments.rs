//! The experiments: each is a load and the link it crosses.

/// One row of the table.
pub(super) struct Experiment {
    pub(super) name: String,
    /// Arguments of `whimbrel link` and of `whimbrel perf run`.
    pub(super) link: Vec<String>,
    pub(super) load: Vec<String>,
    pub(super) figure: Figure,
    /// Whether a first run obtains a ticket, and only a second run is measured.
    pub(super) by_ticket: bool,
}

/// The figure that a run yields.
#[derive(Clone, Copy)]
pub(super) enum Figure {
    /// Goodput as a share of the limit of a link with this payload rate, in bit/s, and loss.
    Share { rate: f64, loss: f64 },
    /// The duration in seconds, compared with an ideal transfer.
    Seconds { ideal: f64 },
    /// The 99th percentile of one-way latency in ms, and the cost of this many messages.
    Latency { messages: f64 },
    /// The silence beyond an outage of this many seconds, in ms.
    Silence { outage: f64 },
}

struct Link {
    name: &'static str,
    bits: f64,
    rtt_ms: f64,
}

const FOUR: Link = Link { name: "4 Mbit/s 50 ms", bits: 4e6, rtt_ms: 50.0 };
const TWENTY: Link = Link { name: "20 Mbit/s 100 ms", bits: 20e6, rtt_ms: 100.0 };
const HUNDRED: Link = Link { name: "100 Mbit/s 20 ms", bits: 100e6, rtt_ms: 20.0 };
const RADIO: Link = Link { name: "40 ms", bits: 100e6, rtt_ms: 40.0 };

/// The payload's share of a full packet's bytes on the wire.
const PAYLOAD: f64 = 1437.0 / 1500.0;

impl Link {
    fn arguments(&self, loss: f64) -> Vec<String> {
        words(&format!(
            "--rate {}kbit --delay {}ms --queue 100ms --loss {loss}%",
            self.bits / 1e3,
            self.rtt_ms / 2.0
        ))
    }

    /// Returns the duration of an ideal transfer, in seconds: one round trip of set-up, half a round trip to the
    /// receiver, and the bytes at the link's full rate.
    fn ideal(&self, loss: f64, bytes: f64) -> f64 {
        self.rtt_ms * 1.5e-3 + bytes * 8.0 / (self.bits * (1.0 - loss / 100.0) * PAYLOAD)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns all experiments, in the order of the table.
pub(super) fn all() -> Vec<Experiment> {
    let mut all = Vec::new();
    let bulk = "--mode bulk --time 20 --size 8192";
    for (link, losses) in
        [(FOUR, &[0.0, 1.0, 5.0, 10.0, 15.0][..]), (TWENTY, &[0.0, 1.0, 5.0]), (HUNDRED, &[5.0])]
    {
        all.extend(losses.iter().map(|loss| share("bulk", &link, *loss, &format!("{bulk} --service ru"))));
    }
    for (link, loss) in [(FOUR, 5.0), (FOUR, 15.0), (TWENTY, 5.0)] {
        all.push(share("ordered", &link, loss, bulk));
    }
    for (link, losses) in [(FOUR, &[0.0, 5.0, 10.0, 15.0][..]), (TWENTY, &[0.0, 1.0, 5.0])] {
        all.extend(losses.iter().map(|loss| file("2 MB", &link, *loss, 2e6, 8192)));
    }
    for loss in [0.0, 1.0, 5.0] {
        let cold = file("2 MB by ticket", &TWENTY, loss, 2e6, 8192);
        all.push(Experiment { by_ticket: true, ..cold });
    }
    all.push(file("10 KB", &FOUR, 5.0, 1e4, 10_000));
    for (loss, rate, repeats) in
        [(5.0, 100, "auto"), (20.0, 100, "auto"), (5.0, 100, "0"), (20.0, 100, "0"), (5.0, 10, "0")]
    {
        all.push(sparse(loss, rate, repeats));
    }
    for outage in [1, 5, 10] {
        all.extend(blackout(outage));
    }
    all
}

fn share(name: &str, link: &Link, loss: f64, load: &str) -> Experiment {
    Experiment {
        name: format!("{name} {} {loss} %", link.name),
        link: link.arguments(loss),
        load: words(load),
        figure: Figure::Share { rate: link.bits * PAYLOAD, loss: loss / 100.0 },
        by_ticket: false,
    }
}

fn file(name: &str, link: &Link, loss: f64, bytes: f64, size: u32) -> Experiment {
    Experiment {
        name: format!("{name} {} {loss} %", link.name),
        link: link.arguments(loss),
        load: words(&format!("--mode bulk --bytes {bytes} --size {size}")),
        figure: Figure::Seconds { ideal: link.ideal(loss, bytes) },
        by_ticket: false,
    }
}

/// Sends messages of 100 bytes for a minute.
fn sparse(loss: f64, rate: u32, repeats: &str) -> Experiment {
    let load = format!("--mode latency --rate {rate} --size 100 --service ru --time 60 --repeats {repeats}");
    Experiment {
        name: format!("sparse {rate} a second {} {loss} %, repeats {repeats}", RADIO.name),
        link: RADIO.arguments(loss),
        load: words(&load),
        figure: Figure::Latency { messages: f64::from(rate) * 60.0 },
        by_ticket: false,
    }
}

/// Cuts the link after five seconds, for `outage` seconds.
fn blackout(outage: u32) -> [Experiment; 3] {
    let time = outage + 10;
    let loads = [
        ("bulk", format!("--mode bulk --time {time} --size 1200")),
        ("updates replaced", format!("--mode latency --rate 10 --size 100 --replace --time {time}")),
        ("updates in order", format!("--mode latency --rate 10 --size 100 --time {time}")),
    ];
    loads.map(|(name, load)| {
        let mut link = FOUR.arguments(0.0);
        link.extend(["--outage".to_owned(), format!("at 5s for {outage}s")]);
        Experiment {
            name: format!("blackout of {outage} s, {name}, {}", FOUR.name),
            link,
            load: words(&load),
            figure: Figure::Silence { outage: f64::from(outage) },
            by_ticket: false,
        }
    })
}
