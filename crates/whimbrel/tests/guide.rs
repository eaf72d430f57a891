//! The tuning page of the guide lists every setting with its default.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use whimbrel::{
    Config, Congestion, CostPolicy, ListenConfig, Paths, PrimaryRule, Repeats, Scheduling, SessionConfig,
    StreamOptions, TransportConfig,
};

const GUIDE: &str = include_str!("../../../docs/guide.md");
/// The sources of the configuration types.
const SOURCES: [&str; 6] = [
    include_str!("../src/config.rs"),
    include_str!("../../whimbrel-proto/src/config.rs"),
    include_str!("../../whimbrel-proto/src/session/config.rs"),
    include_str!("../../whimbrel-proto/src/session/options.rs"),
    include_str!("../../whimbrel-proto/src/endpoint/settings.rs"),
    include_str!("../../whimbrel-proto/src/handshake/server.rs"),
];

/// One row of a table.
#[derive(Debug)]
struct Row {
    field: String,
    unit: String,
    default: String,
    text: String,
}

/// Returns the rows of the table below a heading.
fn table(heading: &str) -> Vec<Row> {
    let start = GUIDE.find(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let rows = GUIDE[start + 1..].lines().skip(1).take_while(|line| !line.starts_with('#'));
    rows.filter(|line| line.starts_with("| `")).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [field, unit, default, text] = cells[..] else { panic!("not four cells: {line}") };
    let plain = |cell: &str| cell.replace('`', "");
    Row { field: plain(field), unit: plain(unit), default: plain(default), text: text.to_owned() }
}

/// Returns the public fields of a struct as in its source, without those hidden from the documentation.
fn fields(name: &str) -> Vec<String> {
    let head = format!("pub struct {name} {{\n");
    let source = SOURCES.iter().find(|source| source.contains(&head)).unwrap();
    let body = source.split_once(&head).unwrap().1.split_once("\n}").unwrap().0;
    let body = body.replace("#[doc(hidden)]\n    pub ", "");
    let field = |line: &str| Some(line.strip_prefix("    pub ")?.split_once(':')?.0.to_owned());
    body.lines().filter_map(field).collect()
}

/// Formats a default as the page shows it.
trait Shown {
    fn shown(&self, unit: &str) -> String;
}

macro_rules! shown_numbers {
    ($($number:ty),*) => {
        $(impl Shown for $number {
            fn shown(&self, unit: &str) -> String {
                number(u64::try_from(*self).unwrap(), unit)
            }
        })*
    };
}

shown_numbers!(u8, u16, u32, u64, usize);

fn number(value: u64, unit: &str) -> String {
    const MIB: u64 = 1 << 20;
    if unit == "bytes" && value >= MIB && value.is_multiple_of(MIB) {
        return format!("{} MiB", value / MIB);
    }
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Shown for Duration {
    fn shown(&self, _: &str) -> String {
        match self.as_millis() {
            86_400_000 => "1 day".to_owned(),
            ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
            ms => format!("{ms} ms"),
        }
    }
}

impl Shown for bool {
    fn shown(&self, _: &str) -> String {
        self.to_string()
    }
}

impl Shown for Congestion {
    fn shown(&self, _: &str) -> String {
        format!("{self:?}")
    }
}

impl Shown for Repeats {
    fn shown(&self, _: &str) -> String {
        format!("{self:?}")
    }
}

impl Shown for PrimaryRule {
    fn shown(&self, _: &str) -> String {
        format!("{self:?}")
    }
}

impl Shown for Scheduling {
    fn shown(&self, _: &str) -> String {
        format!("{self:?}")
    }
}

impl Shown for Paths {
    fn shown(&self, _: &str) -> String {
        format!("{self:?}")
    }
}

impl Shown for CostPolicy {
    fn shown(&self, _: &str) -> String {
        format!("{self:?}")
    }
}

impl Shown for Bytes {
    fn shown(&self, _: &str) -> String {
        if self.is_empty() { "empty".to_owned() } else { format!("{self:?}") }
    }
}

impl Shown for Vec<Bytes> {
    fn shown(&self, _: &str) -> String {
        if self.is_empty() { "empty".to_owned() } else { format!("{self:?}") }
    }
}

impl Shown for Option<Duration> {
    fn shown(&self, unit: &str) -> String {
        self.map_or_else(|| "none".to_owned(), |duration| duration.shown(unit))
    }
}

/// Words shown on the page in place of a value.
struct Words(&'static str);

impl Shown for Words {
    fn shown(&self, _: &str) -> String {
        self.0.to_owned()
    }
}

/// Shows a default of None, and nothing else.
fn none<T>(value: Option<T>) -> Words {
    Words(if value.is_none() { "none" } else { "something" })
}

const ELSEWHERE: Words = Words("see below");

/// How a row begins the effect of changing a quantity.
const DIRECTIONS: [&str; 6] = ["Higher: ", "Lower: ", "Longer: ", "Shorter: ", "More: ", "Fewer: "];

/// Checks that the page's table has the fields of the type, in their order, with these defaults.
fn check(name: &str, defaults: &[(&str, &dyn Shown)]) {
    let rows = table(name);
    let named: Vec<&str> = rows.iter().map(|row| row.field.as_str()).collect();
    assert_eq!(named, fields(name), "docs/guide.md, {name}: the rows are not the fields");
    let tested: Vec<&str> = defaults.iter().map(|(field, _)| *field).collect();
    assert_eq!(tested, named, "{name}: this test does not know the fields");
    for (row, (field, default)) in rows.iter().zip(defaults) {
        let shown = default.shown(&row.unit);
        assert_eq!(row.default, shown, "docs/guide.md: the default of {name}::{field}");
        assert!(
            !row.unit.is_empty() && row.text.ends_with('.'),
            "docs/guide.md: say more of {name}::{field}"
        );
        let is_quantity = row.default.starts_with(|first: char| first.is_ascii_digit());
        assert!(
            !is_quantity || DIRECTIONS.iter().any(|word| row.text.contains(word)),
            "docs/guide.md: say what gets worse if {name}::{field} is changed"
        );
    }
}

macro_rules! check {
    ($name:literal, { $($field:ident: $value:expr),* $(,)? }) => {
        check($name, &[$((stringify!($field), &$value)),*])
    };
}

/// The page's table of events names each event once.
#[test]
fn events() {
    let source = include_str!("../../whimbrel-proto/src/connection/event.rs");
    let body = source.split_once("pub enum Event {\n").unwrap().1.split_once("\n}").unwrap().0;
    let name = |line: &str| {
        let variant = line.strip_prefix("    ")?;
        let end = variant.find(|c: char| !c.is_alphanumeric())?;
        variant.starts_with(char::is_uppercase).then(|| variant[..end].to_owned())
    };
    let mut variants: Vec<String> = body.lines().filter_map(name).collect();
    let rows = GUIDE.split_once("| event | meaning |").unwrap().1.split_once("\n\n").unwrap().0;
    let firsts = rows.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let mut named: Vec<String> = firsts
        .flat_map(|(events, _)| events.split("`, `").map(|name| name.trim_matches('`').to_owned()))
        .collect();
    variants.sort();
    named.sort();
    assert_eq!(named, variants, "docs/guide.md: the table of events");
}

#[test]
fn config() {
    let it = Config::default();
    assert_ne!(it.identity.public(), Config::default().identity.public(), "a new key each time");
    check!("Config", {
        identity: Words("a new key"),
        transport: ELSEWHERE,
        listen: none(it.listen),
        protocol: it.protocol,
        psk: none(it.psk),
        backlog: it.backlog,
        receive_loops: none(it.receive_loops),
        paths: it.paths,
        mark: none(it.mark),
        reset_salt: none(it.reset_salt),
        key_log: Words("by environment"),
        qlog_dir: Words("by environment"),
    });
}

#[test]
fn transport_config() {
    let it = TransportConfig::default();
    check!("TransportConfig", {
        session: ELSEWHERE,
        credit_budget: it.credit_budget,
        memory_budget: it.memory_budget,
        send_budget: it.send_budget,
        congestion: it.congestion,
        max_udp_payload: it.max_udp_payload,
        idle_timeout: it.idle_timeout,
        reattach: it.reattach,
        keep_alive: it.keep_alive,
        max_ack_delay: it.max_ack_delay,
        repeats: it.repeats,
        max_paths: it.max_paths,
        scheduler: it.scheduler,
        primary_rule: it.primary_rule,
        coupled: it.coupled,
        cost_policy: it.cost_policy,
        deadline_budget: it.deadline_budget,
        repair_budget: it.repair_budget,
        probe_interval: it.probe_interval,
        wait_time: it.wait_time,
        max_waiting: it.max_waiting,
        max_waiting_bytes: it.max_waiting_bytes,
        handshake_timeout: it.handshake_timeout,
        close_timeout: it.close_timeout,
        key_update_packets: it.key_update_packets,
        key_log: it.key_log,
        qlog: it.qlog,
        ecn: it.ecn,
    });
}

#[test]
fn session_config() {
    let it = SessionConfig::default();
    check!("SessionConfig", {
        max_message: it.max_message,
        session_window: it.session_window,
        stream_window: it.stream_window,
        stream_share: it.stream_share,
        max_streams: it.max_streams,
        send_queue_messages: it.send_queue_messages,
        send_queue_bytes: it.send_queue_bytes,
        stream_send_buffer: it.stream_send_buffer,
        gap_wait: it.gap_wait,
        ageing: it.ageing,
        cross_sequencing: it.cross_sequencing,
        small_message: it.small_message,
        urgent_priority: it.urgent_priority,
        max_unconfirmed: it.max_unconfirmed,
        max_tags: it.max_tags,
    });
}

#[test]
fn stream_options() {
    let table = GUIDE.split_once("| option | default | effect |\n").unwrap().1;
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<String>> = rows
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect())
        .collect();
    let it = StreamOptions::default();
    let by_session = |is_none: bool| if is_none { "as SessionConfig says" } else { "something" };
    let defaults = [
        by_session(it.cross_sequencing.is_none()).to_owned(),
        by_session(it.gap_wait.is_none()).to_owned(),
        format!("{:?}", it.credit),
        it.priority.to_string(),
    ];
    let named: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(named, fields("StreamOptions"), "docs/guide.md: the rows are not the fields");
    for (row, default) in rows.iter().zip(defaults) {
        assert_eq!(row[1], default, "docs/guide.md: the default of StreamOptions::{}", row[0]);
        assert!(row.len() == 3 && row[2].len() > 20, "docs/guide.md: say more of StreamOptions::{}", row[0]);
    }
}

#[test]
fn listen_config() {
    let it = ListenConfig::default();
    check!("ListenConfig", {
        acceptor: ELSEWHERE,
        allow: none(it.allow),
        deny: none(it.deny.first()),
        admit: none(it.admit),
        protocols: it.protocols,
        early_from_tickets: it.early_from_tickets,
        max_connections: it.max_connections,
        max_per_key: it.max_per_key,
        network_share: it.network_share,
        pings_per_address: it.pings_per_address,
        handshakes_per_second: it.handshakes_per_second,
        syns_per_second: it.syns_per_second,
    });
}

#[test]
fn acceptor_config() {
    let it = ListenConfig::default().acceptor;
    check!("AcceptorConfig", {
        show_key: it.show_key,
        psk: none(it.psk),
        aes_in_hardware: it.aes_in_hardware,
        cookies_remembered: it.cookies_remembered,
        ticket_life: it.ticket_life,
        tickets_remembered: it.tickets_remembered,
    });
}
