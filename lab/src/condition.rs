//! Named conditions: links with the source of each figure.

use anyhow::Context;
use whimbrel_link::LinkConfig;

use crate::testbed::LinkPlan;

/// Returns the link of a named condition, or the link that `words` describe in the syntax of `whimbrel link`. The
/// latter is the same in both directions.
pub(crate) fn link(words: &str) -> anyhow::Result<LinkPlan> {
    if let Some(condition) = ALL.iter().find(|condition| condition.name == words.trim()) {
        return condition.plan();
    }
    let config: LinkConfig = words
        .parse()
        .with_context(|| format!("`{words}` is neither a link nor a named condition: see `lab list`"))?;
    Ok(LinkPlan { up: config.clone(), down: config })
}

/// A link that has a name.
pub(crate) struct Condition {
    /// Its name, such as `tactical-5`.
    pub(crate) name: &'static str,
    /// Settings from caller to server, in the syntax of `whimbrel link`.
    pub(crate) up: &'static str,
    /// Settings from server to caller.
    pub(crate) down: &'static str,
    /// Source of the figures.
    pub(crate) source: &'static str,
}

impl Condition {
    const fn alike(name: &'static str, both: &'static str, source: &'static str) -> Self {
        Self { name, up: both, down: both, source }
    }

    /// Builds the link from its settings.
    pub(crate) fn plan(&self) -> anyhow::Result<LinkPlan> {
        let read = |words: &str| words.parse().with_context(|| format!("condition {}", self.name));
        Ok(LinkPlan { up: read(self.up)?, down: read(self.down)? })
    }
}

const MOCKETS_WLAN: &str = "Mockets (2006), section 6, Table 1: two 802.11b cards on an unused channel. The paper gives no rate; \
    2 MB in 1,836 ms are 8.7 to 9.1 Mbit/s, so that the link carries a little more. Delay and queue are chosen. Half duplex is \
    not modelled";
const MOCKETS_NISTNET: &str = "Mockets (2006), section 6, Table 2: two laptops on a wired network, NIST Net between them drops \
    everything for times of 1 s on average, 20 s apart on average, both exponential. Rate and delay of the wire are chosen";
const NETPROXY: &str = "ACM NetProxy (2012), section V, Tables I and II: 4 Mbit/s at a reliability of 95, 90, 85 %. The paper gives \
    no delay: 50 ms of round trip are chosen, as in the loss matrix; and no direction of the loss: both";
const NETPROXY_COMPRESSION: &str = "ACM NetProxy (2012), section V.B, Tables III and IV: 1 Mbit/s at a reliability of 95 %. Delay \
    and directions as for tactical-5";
const WEB_AGENT: &str = "SCTP mobile web agent (2005), Table 2, scenario 1: 40 kbit/s, 256 ms of round trip, 0.4, 1, 2, 5 % by NIST \
    Net, whose queue has no limit unless asked for one. The paper gives no direction of the loss: both";
const WEB_AGENT_RATES: &str = "SCTP mobile web agent (2005), Table 2, scenario 2: 400 kbit/s, 3 and 10 Mbit/s, 256 ms of round \
    trip, 1 %";
const WEB_AGENT_TRIPS: &str =
    "SCTP mobile web agent (2005), Table 2, scenario 3: 40 kbit/s, 55, 80 and 1,000 ms of round trip, 1 %";
const MMSP_WIRED: &str =
    "MMSP (2008), Table 4.2: 174 Mbit/s by TCP over one wired link. Delay and queue are chosen";
const MMSP_WIRELESS: &str = "MMSP (2008), Table 4.2: 18 Mbit/s by TCP over one 802.11g link; headers are added to that. Delay, \
    jitter and queue are chosen";
const WEAK_4G: &str = "Lighthouse, docs/throttling.md, `Slow 4G` (the slowest quarter of 4G): 1.6 Mbit/s down, 0.75 up, 150 ms of \
    round trip. Chosen: a deep queue (cellular networks hardly drop: Jiang et al., Tackling bufferbloat in 3G/4G mobile networks, IMC \
    2012), jitter, and 1 % of loss in short bursts, which Lighthouse has none of";
const GOOD_WIFI: &str = "Apple's Network Link Conditioner, profile `Wi-Fi`: 40 Mbit/s down, 33 up, 1 ms each way. Chosen: 9 ms \
    more to a server nearby, jitter, 0.1 % of loss";
const LEO: &str = "Huston, A transport protocol's view of Starlink, APNIC blog, May 2024: 1 to 2 % of loss that is not congestion, \
    another satellite every 15 s, 6.7 ms between one round trip and the next, 10 to 370 Mbit/s. Michel et al., A first look at \
    Starlink performance, IMC 2022: median round trip 50 ms. Chosen: 100 Mbit/s down, 15 up, 100 ms down at each change of \
    satellite";
const GEO: &str = "Endres et al., Performance of QUIC implementations over geostationary satellite links, 2022: 20 Mbit/s down, 2 up, \
    600 ms of round trip, 1 % in the variant with loss. Huston, Testing LEO and GEO satellite services in Australia, APNIC blog, \
    May 2022: around 600 ms";
const TRAIN: &str = "Wang et al., An active-passive measurement study of TCP performance over LTE on high-speed rails, MobiCom 2019: \
    frequent handover at 300 km/h is what costs throughput. The figures are chosen for that shape: a rate that falls to a tenth \
    before each handover, 12 s apart, and half a second of nothing in it";
const CROWDED_HALL: &str = "Jardosh et al., Understanding congestion in IEEE 802.11b wireless networks, IMC 2005, at a meeting of the \
    IETF: drastic drops in throughput, unacceptable delays, interrupted sessions. The figures are chosen for that shape";

/// All conditions, in the order of `lab list`.
pub(crate) const ALL: &[Condition] = &[
    Condition::alike("mockets-802.11b", "rate=9.6mbit, delay=1ms, queue=100ms", MOCKETS_WLAN),
    Condition::alike("mockets-nistnet", "rate=100mbit, delay=250us, outage=exp:20s/1s", MOCKETS_NISTNET),
    Condition::alike("tactical-5", "rate=4mbit, delay=25ms, loss=5%", NETPROXY),
    Condition::alike("tactical-10", "rate=4mbit, delay=25ms, loss=10%", NETPROXY),
    Condition::alike("tactical-15", "rate=4mbit, delay=25ms, loss=15%", NETPROXY),
    Condition::alike("tactical-1mbit", "rate=1mbit, delay=25ms, loss=5%", NETPROXY_COMPRESSION),
    Condition::alike("web-agent-0.4", "rate=40kbit, delay=128ms, queue=none, loss=0.4%", WEB_AGENT),
    Condition::alike("web-agent-1", "rate=40kbit, delay=128ms, queue=none, loss=1%", WEB_AGENT),
    Condition::alike("web-agent-2", "rate=40kbit, delay=128ms, queue=none, loss=2%", WEB_AGENT),
    Condition::alike("web-agent-5", "rate=40kbit, delay=128ms, queue=none, loss=5%", WEB_AGENT),
    Condition::alike("web-agent-400k", "rate=400kbit, delay=128ms, queue=none, loss=1%", WEB_AGENT_RATES),
    Condition::alike("web-agent-3m", "rate=3mbit, delay=128ms, queue=none, loss=1%", WEB_AGENT_RATES),
    Condition::alike("web-agent-10m", "rate=10mbit, delay=128ms, queue=none, loss=1%", WEB_AGENT_RATES),
    Condition::alike("web-agent-55ms", "rate=40kbit, delay=27500us, queue=none, loss=1%", WEB_AGENT_TRIPS),
    Condition::alike("web-agent-80ms", "rate=40kbit, delay=40ms, queue=none, loss=1%", WEB_AGENT_TRIPS),
    Condition::alike("web-agent-1s", "rate=40kbit, delay=500ms, queue=none, loss=1%", WEB_AGENT_TRIPS),
    Condition::alike("mmsp-wired", "rate=182mbit, delay=250us, queue=20ms", MMSP_WIRED),
    Condition::alike("mmsp-802.11g", "rate=19mbit, delay=1ms, jitter=1ms, queue=50ms", MMSP_WIRELESS),
    Condition {
        name: "weak-4g",
        up: "rate=750kbit, delay=75ms, jitter=15ms, queue=500ms, loss=ge:4950ms/50ms",
        down: "rate=1.6mbit, delay=75ms, jitter=15ms, queue=500ms, loss=ge:4950ms/50ms",
        source: WEAK_4G,
    },
    Condition {
        name: "good-wifi",
        up: "rate=33mbit, delay=10ms, jitter=2ms, queue=50ms, loss=0.1%",
        down: "rate=40mbit, delay=10ms, jitter=2ms, queue=50ms, loss=0.1%",
        source: GOOD_WIFI,
    },
    Condition {
        name: "leo-satellite",
        up: "rate=15mbit, delay=25ms, jitter=7ms, queue=100ms, loss=1.5%, outage=14.9s on 100ms off",
        down: "rate=100mbit, delay=25ms, jitter=7ms, queue=100ms, loss=1.5%, outage=14.9s on 100ms off",
        source: LEO,
    },
    Condition {
        name: "geo-satellite",
        up: "rate=2mbit, delay=300ms, queue=300ms, loss=1%",
        down: "rate=20mbit, delay=300ms, queue=300ms, loss=1%",
        source: GEO,
    },
    Condition {
        name: "train",
        up: "rate=trace:8mbit/8s+800kbit/4s, delay=40ms, jitter=10ms, queue=300ms, loss=0.5%, outage=11.5s on 500ms off",
        down: "rate=trace:20mbit/8s+2mbit/4s, delay=40ms, jitter=10ms, queue=300ms, loss=0.5%, outage=11.5s on 500ms off",
        source: TRAIN,
    },
    Condition::alike(
        "crowded-hall",
        "rate=trace:4mbit/700ms+500kbit/300ms, delay=15ms, jitter=15ms, queue=200ms, loss=ge:900ms/100ms/60%/1%",
        CROWDED_HALL,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_condition_is_a_link_with_a_name_of_its_own_and_a_source() {
        for condition in ALL {
            condition.plan().unwrap();
            assert!(condition.source.len() > 20, "{}", condition.name);
        }
        let train = link("train").unwrap();
        assert_ne!(train.up, train.down);
        let words = link("rate=4mbit, delay=25ms").unwrap();
        assert_eq!(words.up, words.down);
        assert!(link("trian").unwrap_err().to_string().contains("lab list"));
        assert_eq!(ALL.iter().map(|condition| condition.name).collect::<BTreeSet<_>>().len(), ALL.len());
    }
}
