//! `whimbrel link`: emulates a bad link between UDP programs.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use whimbrel_link::LinkConfig;
use whimbrel_link::relay::{Direction, Relay, RelayConfig};
use whimbrel_link::units::ParseError;
use whimbrel_service::{bind_advice, interrupted};

use crate::output::print_line;

const ABOUT: &str = "Puts a bad link between UDP programs: rate, delay, queue, loss, outages";

const LONG_ABOUT: &str = "\
Puts a bad link between UDP programs: rate, delay, queue, loss, outages.

It relays what clients send to --listen on to --to, and the answers back, through one link in each direction. \
Every setting of a link holds for both directions; --up-NAME sets it from clients to the server only, \
--down-NAME from the server to clients only (--up-rate, --down-loss, …). The clock of the links starts with the \
first packet. No root is needed. All clients share the link; each has an upstream port of its own.

The first line of output is `listening ADDR`. At the end (--time, Ctrl-C or SIGTERM) it prints what it has done.";

const EXAMPLES: &str = "\
Examples:
  A server on port 4433 behind 4 Mbit/s, 50 ms of round trip, 5 % loss each way:
    whimbrel link --listen 127.0.0.1:7000 --to 127.0.0.1:4433 --rate 4mbit --delay 25ms --loss 5%
  A slow way up, a fast way down:
    whimbrel link --listen 127.0.0.1:7000 --to 127.0.0.1:4433 --up-rate 1mbit --down-rate 20mbit --delay 20ms
  Gone for five seconds, ten seconds after the first packet:
    whimbrel link --listen 127.0.0.1:7000 --to 127.0.0.1:4433 --outage 'at 10s for 5s'
  Bursts of loss of 50 ms, one a second; a NAT that forgets the client every 5 s:
    whimbrel link --listen 127.0.0.1:7000 --to 127.0.0.1:4433 --loss ge:950ms/50ms --rebind-every 5s
  A radio that falls from 10 to 2 Mbit/s for half a second of every one and a half:
    whimbrel link --listen 127.0.0.1:7000 --to 127.0.0.1:4433 --rate trace:10mbit/1s+2mbit/500ms";

/// A setting of a link: its options for both directions and for each, its placeholder and its help text.
struct Setting {
    both: &'static str,
    up: &'static str,
    down: &'static str,
    value: &'static str,
    help: &'static str,
}

macro_rules! setting {
    ($name:literal, $value:literal, $help:literal) => {
        Setting {
            both: $name,
            up: concat!("up-", $name),
            down: concat!("down-", $name),
            value: $value,
            help: $help,
        }
    };
}

const SETTINGS: [Setting; 15] = [
    setting!(
        "rate",
        "RATE",
        "Bits per second of IP packets: 4mbit, 500kbit. A rate that varies, from the beginning again at its end: \
         trace:10mbit/1s+2mbit/500ms, mahimahi:FILE [default: no limit]"
    ),
    setting!("delay", "TIME", "Propagation delay, one way: 25ms [default: 0]"),
    setting!(
        "queue",
        "TIME|BYTES",
        "How much may wait before the bottleneck; what comes later is dropped: 100ms, 64kb, none [default: 100ms]"
    ),
    setting!(
        "loss",
        "LOSS",
        "Packets lost after the bottleneck: 5%, or in bursts of random length ge:GOOD/BAD[/LOSS-IN-BAD], or by the clock clock:EVERY/LENGTH[/LOSS-IN-BURST] [default: none]"
    ),
    setting!(
        "jitter",
        "TIME",
        "The delay varies by up to this to either side, and packets stay in order: 2ms [default: 0]"
    ),
    setting!(
        "outage",
        "WHEN",
        "When nothing gets through: `5s on 2s off`, `exp:60s/5s` (mean times), `at 10s for 5s + at 30s for 1s` [default: never]"
    ),
    setting!("reorder", "PROBABILITY", "Packets that are held back and overtaken: 1% [default: 0%]"),
    setting!(
        "reorder-by",
        "TIME",
        "How long they are held back: 10ms, or drawn from a range 0ms..50ms [default: 10ms]"
    ),
    setting!(
        "hold",
        "WHEN",
        "When what would arrive is held back, until the end of that time: `150ms every 1.2s` [default: never]"
    ),
    setting!(
        "police",
        "RATE/BYTES",
        "Drop what exceeds a rate, without a queue; so many bytes may come at once: 4mbit/32kb [default: none]"
    ),
    setting!("duplicate", "PROBABILITY", "Packets that arrive twice: 1% [default: 0%]"),
    setting!("corrupt", "PROBABILITY", "Packets of which a byte is changed: 0.1% [default: 0%]"),
    setting!("mtu", "BYTES", "The largest IP packet; larger ones are dropped: 1400 [default: any]"),
    setting!(
        "ecn-mark",
        "TIME",
        "Mark ECN-capable packets that would wait longer than this: 20ms [default: never]"
    ),
    setting!(
        "overhead",
        "BYTES",
        "Bytes of headers around a payload: 28 for IPv4 and UDP, 48 for IPv6 and UDP [default: 28]"
    ),
];

/// The command `whimbrel link`.
#[derive(Clone, Debug)]
pub struct LinkCommand {
    relay: RelayConfig,
    time: Option<Duration>,
    json: bool,
}

impl LinkCommand {
    /// Relays until the time is over or a signal arrives. Prints where it listens, and its figures at the end.
    ///
    /// # Errors
    /// The listening address is not available, or a socket has failed.
    pub fn run(self) -> anyhow::Result<()> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(self.relay())
    }

    async fn relay(self) -> anyhow::Result<()> {
        let interrupted = interrupted()?;
        let listen = self.relay.listen;
        let relay = Relay::spawn(self.relay).map_err(|error| match bind_advice(listen, &error) {
            Some(advice) => anyhow!("cannot bind {listen}: {advice}"),
            None => anyhow!("cannot listen on {listen}: {error}"),
        })?;
        print_line(format_args!("listening {}", relay.local_addr()))?;
        let control = relay.control();
        tokio::spawn(async move {
            tokio::select! {
                () = after(self.time) => {}
                _ = interrupted => {}
            }
            control.stop();
        });
        let report = tokio::task::spawn_blocking(|| relay.wait()).await??;
        if self.json {
            print_line(format_args!("{}", serde_json::to_string_pretty(&report.to_json())?))?;
        } else {
            print_line(format_args!("{report}"))?;
        }
        Ok(())
    }
}

async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

impl Args for LinkCommand {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = command.about(ABOUT).long_about(LONG_ABOUT).after_help(EXAMPLES);
        let command = command.args(options());
        let heading = "Link (also as --up-… and --down-…)";
        let command = command.args(SETTINGS.map(|own| own.option(own.both).help_heading(heading)));
        let command = command.args(SETTINGS.map(|own| own.option(own.up).hide(true)));
        command.args(SETTINGS.map(|own| own.option(own.down).hide(true)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn options() -> [Arg; 7] {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let address = |text: &str| resolve(text);
    [
        option("listen", "ADDR")
            .value_parser(address)
            .default_value("127.0.0.1:0")
            .help("The address that clients send to"),
        option("to", "ADDR").value_parser(address).required(true).help("The server's address, HOST:PORT"),
        option("rebind-every", "TIME")
            .value_parser(duration)
            .help("Change the upstream ports after each such time, as a NAT would"),
        option("clients", "N").value_parser(value_parser!(u64).range(1..=60_000)).default_value("256").help(
            "The most clients at once; a further one takes the place of the one that was silent longest",
        ),
        option("seed", "N")
            .value_parser(value_parser!(u64))
            .default_value("1")
            .help("The seed of the random draws; the same seed gives the same draws"),
        option("time", "TIME").value_parser(time).help("End after this time: 30s, or a number of seconds"),
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document at the end"),
    ]
}

impl Setting {
    fn option(&self, option: &'static str) -> Arg {
        let field = self.field();
        let check = move |text: &str| -> Result<String, ParseError> {
            LinkConfig::default().set(&field, text).map(|()| text.to_owned())
        };
        Arg::new(option).long(option).value_name(self.value).help(self.help).value_parser(check)
    }

    /// The name of the corresponding field of [`LinkConfig`].
    fn field(&self) -> String {
        self.both.replace('-', "_")
    }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let wrong = |what: String| format!("{what}: write HOST:PORT, for example 127.0.0.1:4433 or [::1]:4433");
    let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("that name has no address".into()))
}

fn duration(text: &str) -> Result<Duration, ParseError> {
    let mut config = LinkConfig::default();
    config.set("delay", text)?;
    Ok(config.delay)
}

fn time(text: &str) -> Result<Duration, ParseError> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.map_or_else(|| duration(text), Ok)
}

impl FromArgMatches for LinkCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let address = |name| matches.get_one::<SocketAddr>(name).copied().ok_or_else(|| missing(name));
        let mut relay = RelayConfig::new(address("listen")?, address("to")?);
        (relay.up, relay.down) = (link(matches, Direction::Up)?, link(matches, Direction::Down)?);
        relay.rebind_every =
            matches.get_one("rebind-every").copied().filter(|every: &Duration| !every.is_zero());
        relay.seed = matches.get_one("seed").copied().unwrap_or(relay.seed);
        relay.clients_max = matches.get_one::<u64>("clients").map_or(relay.clients_max, |max| *max as usize);
        Ok(Self { relay, time: matches.get_one("time").copied(), json: matches.get_flag("json") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn missing(name: &str) -> clap::Error {
    clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, format!("--{name} is needed\n"))
}

fn link(matches: &ArgMatches, direction: Direction) -> Result<LinkConfig, clap::Error> {
    let mut config = LinkConfig::default();
    for setting in SETTINGS {
        let own = match direction {
            Direction::Up => setting.up,
            Direction::Down => setting.down,
        };
        if let Some(value) = matches.get_one::<String>(own).or_else(|| matches.get_one(setting.both)) {
            let invalid = |error| clap::Error::raw(clap::error::ErrorKind::InvalidValue, error);
            config.set(&setting.field(), value).map_err(invalid)?;
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LinkCommand, clap::Error> {
        let command = LinkCommand::augment_args(clap::Command::new("link"));
        LinkCommand::from_arg_matches(&command.try_get_matches_from(text.split(' '))?)
    }

    #[test]
    fn a_setting_holds_for_both_directions_unless_one_has_its_own() {
        let command = parse(
            "link --to 127.0.0.1:9 --rate 4mbit --delay 25ms --up-rate 1mbit --down-reorder-by 3ms --time 2",
        )
        .unwrap();
        assert_eq!(command.relay.up.to_string(), "rate=1mbit, delay=25ms");
        assert_eq!(command.relay.down.to_string(), "rate=4mbit, delay=25ms, reorder_by=3ms");
        assert_eq!(command.time, Some(Duration::from_secs(2)));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, hint) in [
            ("link --to 127.0.0.1:9 --rate fast", "4mbit, 500kbit"),
            ("link --to 127.0.0.1:9 --up-outage sometimes", "at 10s for 5s"),
            ("link --to nowhere", "127.0.0.1:4433"),
            ("link --rate 4mbit", "--to"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        LinkCommand::augment_args(clap::Command::new("link")).debug_assert();
    }
}
