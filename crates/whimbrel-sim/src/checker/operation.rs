//! The operations on a connection.

use std::time::Duration;

use whimbrel_proto::Service;
use whimbrel_proto::session::{CreditPolicy, RouteClass, StreamKind, StreamOptions, TagSettings};

use super::away::Away;
use super::dice::Dice;
use super::draft::{Draft, length, tag};
use super::special::Attack;
use crate::pair::End;

/// One step of a run. A stream is named by its index among the open ones, modulo their number.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Operation {
    Send {
        from: End,
        count: u32,
        draft: Draft,
    },
    /// The same message repeatedly, in separate packets: the link may reorder them.
    Trickle {
        from: End,
        count: u32,
        apart: Duration,
        draft: Draft,
    },
    Replace {
        from: End,
        tag: u64,
        draft: Draft,
    },
    Cancel {
        from: End,
        stream: u32,
        tag: u64,
    },
    Settings {
        from: End,
        stream: u32,
        tag: u64,
        settings: TagSettings,
    },
    Open {
        from: End,
        kind: StreamKind,
    },
    /// Opens a byte stream with an opening of this many bytes.
    OpenWith {
        from: End,
        length: usize,
    },
    /// Changes a byte stream's priority or window.
    Tune {
        at: End,
        stream: u32,
        priority: u8,
        window: Option<u64>,
    },
    /// Opens a message stream with options.
    OpenMessages {
        from: End,
        options: StreamOptions,
    },
    Claim {
        at: End,
        stream: u32,
    },
    /// Returns the stream's messages to the shared inbox.
    Release {
        at: End,
        stream: u32,
    },
    /// Changes a stream's options. A stream that keeps only the latest messages has a queue of its own from then on.
    Options {
        at: End,
        stream: u32,
        options: StreamOptions,
    },
    Write {
        from: End,
        stream: u32,
        length: usize,
    },
    Finish {
        from: End,
        stream: u32,
    },
    Reset {
        from: End,
        stream: u32,
        code: u64,
    },
    Stop {
        at: End,
        stream: u32,
        code: u64,
    },
    /// Sets how much the end reads each time: nothing, a little, or all.
    Reading {
        at: End,
        most: usize,
    },
    /// Sends more than the peer grants, while the peer reads nothing.
    Flood {
        from: End,
    },
    Relink {
        link: String,
    },
    Down {
        time: Duration,
    },
    /// An end's NAT gives it another address.
    Rebind {
        end: End,
    },
    /// A change of the second network, which exists from the first such operation on.
    Network(NetworkChange),
    /// An absence, in which the session outlives a connection.
    Away(Away),
    /// A byte stream is not read for a while, or never again.
    Stall {
        at: End,
        stream: u32,
        length: usize,
        time: Option<Duration>,
    },
    /// The application drops a byte stream.
    Abandon {
        at: End,
        stream: u32,
        code: u64,
    },
    Attack(Attack),
    Pass {
        time: Duration,
    },
}

/// The way in which a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Finale {
    /// Everything comes to rest, then one end closes.
    Rest,
    /// One end closes in the middle of traffic.
    Close(End),
    /// One end closes, and the NAT of an end gives it another address at that moment.
    CloseMoving {
        end: End,
        moves: End,
    },
    /// One end was suspended and resumes; the other closes `apart` later or earlier.
    CloseResuming {
        away: End,
        apart: Duration,
        first: bool,
    },
    /// Both ends close at the same time.
    Cross,
    Abort(End),
    /// An end vanishes.
    Kill(End),
    Restart,
}

impl Finale {
    /// Draws a finale: mostly the peaceful one, where most can be checked.
    pub fn draw(dice: &mut dyn Dice) -> Self {
        let end = end(dice);
        match dice.below(100) {
            0..60 => Self::Rest,
            60..65 => {
                let moves = if dice.chance(50) { End::Client } else { End::Server };
                Self::CloseMoving { end, moves }
            }
            65..70 => {
                let apart = Duration::from_millis(dice.below(300).into());
                Self::CloseResuming { away: end, apart, first: dice.chance(50) }
            }
            70..82 => Self::Close(end),
            82..87 => Self::Cross,
            87..92 => Self::Abort(end),
            92..96 => Self::Kill(end),
            _ => Self::Restart,
        }
    }
}

impl Operation {
    /// Draws the next operation.
    pub fn draw(dice: &mut dyn Dice) -> Self {
        let from = end(dice);
        match dice.below(100) {
            0..42 => {
                let count = if dice.chance(20) { dice.between(2, 30) } else { 1 };
                let draft = Draft::draw(dice);
                let count = if draft.length > 5_000 { count.min(4) } else { count };
                Self::Send { from, count, draft }
            }
            42..47 => Self::Replace { from, tag: tag(dice), draft: Draft::draw(dice) },
            47..51 => Self::Cancel { from, stream: dice.below(3), tag: tag(dice) },
            51..53 => {
                Self::Settings { from, stream: dice.below(3), tag: tag(dice), settings: settings(dice) }
            }
            53..54 => Self::OpenMessages { from, options: options(dice) },
            54..56 => {
                let kind = if dice.chance(80) { StreamKind::Bytes } else { StreamKind::Messages };
                Self::Open { from, kind }
            }
            56..57 => Self::Claim { at: from, stream: dice.below(4) },
            57..58 if dice.chance(70) => {
                Self::Options { at: from, stream: dice.below(4), options: options(dice) }
            }
            57..58 => Self::Release { at: from, stream: dice.below(4) },
            58..66 => Self::Write { from, stream: dice.below(8), length: length(dice) },
            66..69 => Self::Finish { from, stream: dice.below(8) },
            69..70 => Self::Reset { from, stream: dice.below(8), code: dice.below(100).into() },
            70..71 => Self::Stop { at: from, stream: dice.below(8), code: dice.below(100).into() },
            71..75 => {
                let most = if dice.chance(30) { 0 } else { [1, 5, 10_000, 10_000][dice.below(4) as usize] };
                Self::Reading { at: from, most }
            }
            75..76 => Self::Flood { from },
            76..80 => Self::Relink { link: link(dice) },
            80..82 => Self::Down { time: Duration::from_millis(dice.between(20, 4000).into()) },
            82..83 => Self::Rebind { end: from },
            83..84 => Self::Pass { time: Duration::from_millis(dice.between(200, 1500).into()) },
            84..85 => Self::Network(NetworkChange::draw(dice)),
            85..88 => {
                let service = if dice.chance(75) {
                    Service::UnreliableSequenced
                } else {
                    Service::ALL[dice.below(4) as usize]
                };
                Self::Trickle {
                    from,
                    count: dice.between(3, 10),
                    apart: Duration::from_millis(dice.between(1, 6).into()),
                    draft: Draft { service, tracked: true, length: 8, ppid: false, ..Draft::draw(dice) },
                }
            }
            88..89 if dice.chance(50) => Self::Away(Away::draw(dice, from)),
            89..92 => draw_special(dice),
            95..98 => Self::OpenWith { from, length: dice.below(1_025) as usize },
            98..99 => Self::Tune {
                at: from,
                stream: dice.below(8),
                priority: dice.below(256) as u8,
                window: dice.chance(60).then(|| dice.below(300_000).into()),
            },
            _ => Self::Pass { time: Duration::from_millis(dice.between(1, 60).into()) },
        }
    }
}

/// Draws one of the special events that are operations.
fn draw_special(dice: &mut dyn Dice) -> Operation {
    let at = end(dice);
    match dice.below(20) {
        0..2 => {
            let (stream, length) = (dice.below(8), dice.between(1_000, 500_000) as usize);
            let time = dice.chance(50).then(|| Duration::from_millis(dice.between(500, 20_000).into()));
            Operation::Stall { at, stream, length, time }
        }
        2..6 => Operation::Abandon { at, stream: dice.below(8), code: dice.below(9).into() },
        6..12 => Operation::Attack(Attack::draw_replay(dice)),
        12..16 => Operation::Attack(Attack::draw_hold(dice)),
        _ => Operation::Attack(Attack::draw_stray(dice)),
    }
}

/// The limit where a cost policy has one.
pub(super) const DEAR: u32 = 2;

/// A change of the second network or of paths.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum NetworkChange {
    Relink {
        link: String,
    },
    /// Nothing gets through, in one direction or both.
    Dark {
        up: bool,
        down: bool,
    },
    /// An end loses its address there, or regains it, and announces that.
    Leave {
        end: End,
    },
    Return {
        end: End,
    },
    /// An end closes a path.
    Close {
        end: End,
        nth: u32,
    },
    /// An end sets cost and standby of paths from one of its addresses.
    Value {
        end: End,
        network: usize,
        cost: u32,
        standby: bool,
    },
    /// An end requests a primary path.
    Primary {
        end: End,
        nth: u32,
    },
}

impl NetworkChange {
    fn draw(dice: &mut dyn Dice) -> Self {
        let end = end(dice);
        match dice.below(14) {
            0..3 => Self::Relink { link: link(dice) },
            3..5 => {
                let up = dice.chance(70);
                Self::Dark { up, down: !up || dice.chance(60) }
            }
            5..6 => Self::Leave { end },
            6..8 => Self::Return { end },
            8..11 => {
                let network = dice.below(2) as usize;
                Self::Value { end, network, cost: dice.below(DEAR + 2), standby: dice.chance(40) }
            }
            11..12 => Self::Primary { end, nth: dice.below(4) },
            _ => Self::Close { end, nth: dice.below(4) },
        }
    }
}

fn end(dice: &mut dyn Dice) -> End {
    if dice.chance(60) { End::Client } else { End::Server }
}

fn settings(dice: &mut dyn Dice) -> TagSettings {
    TagSettings {
        bandwidth: dice.chance(50).then(|| dice.between(5, 60_000).into()),
        lifetime: dice.chance(30).then(|| Duration::from_millis(dice.between(1, 800).into())),
        priority: dice.chance(30).then(|| dice.below(256) as u8),
    }
}

fn options(dice: &mut dyn Dice) -> StreamOptions {
    let mut options = StreamOptions::default()
        .cross_sequencing(dice.chance(50).then(|| dice.chance(50)))
        .gap_wait(dice.chance(30).then(|| Duration::from_millis(dice.between(1, 300).into())))
        .credit(if dice.chance(50) {
            CreditPolicy::Latest { unread: dice.between(0, 20) as usize }
        } else {
            CreditPolicy::Wait
        })
        .priority(if dice.chance(50) { 100 } else { dice.below(256) as u8 });
    options.route = RouteClass(dice.below(4) as u8);
    options
}

/// A link such as people meet.
fn link(dice: &mut dyn Dice) -> String {
    let rate = ["300kbit", "1mbit", "4mbit", "20mbit", "100mbit"][dice.below(5) as usize];
    let delay = if dice.chance(70) { dice.between(1, 40) } else { dice.between(40, 300) };
    let mut link = format!("rate={rate},delay={delay}ms,queue={}ms", dice.between(20, 300));
    let mut add = |dice: &mut dyn Dice, percent: u32, name: &str, most: u32| {
        if dice.chance(percent) {
            link += &format!(",{name}={}%", dice.between(1, most));
        }
    };
    add(dice, 60, "loss", 25);
    add(dice, 40, "reorder", 30);
    add(dice, 25, "duplicate", 30);
    add(dice, 15, "corrupt", 10);
    if dice.chance(20) {
        link += &format!(",jitter={}ms", dice.between(1, 30));
    }
    if dice.chance(15) {
        link += &format!(",mtu={}", dice.between(1228, 1500));
    }
    if dice.chance(10) {
        link += ",ecn_mark=10ms";
    }
    link + &format!(",reorder_by={}ms", dice.between(1, 60))
}
