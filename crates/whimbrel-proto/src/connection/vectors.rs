//! `docs/vectors/blocks.txt`: every block of sealed packets as it is written and read, beside its fields.
//! `WHIMBREL_WRITE_VECTORS=1 cargo test -p whimbrel-proto vectors` rewrites the file.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;

use super::control::control_queue::ControlQueue;
use super::handshake::tickets::read_ticket;
use super::lifecycle::suspend::{read_suspend, suspend, suspend_ack};
use super::packet::coding::{read_repair, write_repair, write_source};
use super::paths::addresses::{read_add, write_add, write_delete};
use super::paths::challenge_answers::ChallengeAnswers;
use super::paths::closing_notice::write_close_path;
use super::paths::ids::{read_new_cid, read_path, write_new_cid};
use super::paths::preferring::read_set_primary;
use crate::coding::Encoder;
use crate::crypto::{Identity, ResetToken};
use crate::wire::close::{Reason, read_error, read_fin, read_rst, write_rst};
use crate::wire::credit::Grant;
use crate::wire::data::{self, DataHead, Extras, Length};
use crate::wire::sack::{self, EcnCounts, Sack};
use crate::wire::skip::{LATE, NumberRange, RangesHead};
use crate::wire::stream_end::StreamEnd;
use crate::wire::{Reader, Writer, block};
use crate::{Cause, ConnectionId, PathId, Time};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors/blocks.txt");
const PROTOCOL: &str = include_str!("../../../../docs/protocol.md");
const TYPES: &str = include_str!("../wire/mod.rs");

struct Vectors(String);

impl Vectors {
    /// Adds a block with its fields as docs/protocol.md names them. `read` must consume everything after the type.
    fn block(&mut self, name: &str, bytes: &[u8], fields: &str, read: impl FnOnce(&mut Reader)) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        write!(self.0, "\n{name} = {hex}\n    type (1) = {}", bytes[0]).unwrap();
        writeln!(self.0, "{}{fields}", if fields.is_empty() { "" } else { " · " }).unwrap();
        let mut reader = Reader::new(Bytes::copy_from_slice(&bytes[1..]));
        read(&mut reader);
        assert!(reader.is_empty(), "{name}: more than its reader takes");
    }
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Writer::new(&mut out, 1200));
    out
}

/// Returns what the connection's control queue writes.
fn queued(fill: impl FnOnce(&mut ControlQueue)) -> Vec<u8> {
    let mut queue = ControlQueue::default();
    fill(&mut queue);
    written(|out| queue.fill(out, |_| {}))
}

fn data_blocks(vectors: &mut Vectors) {
    const WHOLE: u8 = data::BEGIN | data::END;
    let head =
        |flags, extras| DataHead { flags, stream: 4, number: 300, offset: 0, extras, message_length: None };
    let everything = Extras {
        tag: Some(7),
        priority: 200,
        ppid: Some(99),
        latest_reliable: Some(300),
        bytes: false,
        confirm: true,
        opening: false,
    };
    let reliable = head(WHOLE | data::RELIABLE, Extras::NONE);
    let first = DataHead {
        message_length: Some(70_000),
        ..head(data::BEGIN | data::RELIABLE | data::UNSEQUENCED, Extras::NONE)
    };
    let last =
        DataHead { offset: 69_995, ..head(data::END | data::RELIABLE | data::UNSEQUENCED, Extras::NONE) };
    let bytes =
        DataHead { number: 0, offset: 5, ..head(data::RELIABLE, Extras { bytes: true, ..Extras::NONE }) };
    let opening = Extras { bytes: true, opening: true, ..Extras::NONE };
    let opened = DataHead { number: 0, ..head(data::BEGIN | data::RELIABLE, opening) };
    for (name, head, length, payload, fields) in [
        (
            "data.whole",
            reliable,
            Length::ToEnd,
            &b"hello"[..],
            "flags (1) = 11 · stream (v) = 4 · number (v) = 300 · payload = 68656c6c6f",
        ),
        (
            "data.extras",
            head(WHOLE, everything),
            Length::Bytes(5),
            b"hello",
            "flags (1) = 83 · stream (v) = 4 · number (v) = 300 · extras (1) = 47 · tag (v) = 7 · priority (1) = 200 · PPID (v) = 99 · latest reliable (v) = 300 · length (v) = 5 · payload = 68656c6c6f",
        ),
        (
            "data.first_fragment",
            first,
            Length::ToEnd,
            b"hello",
            "flags (1) = 14 · stream (v) = 4 · number (v) = 300 · message length (v) = 70000 · payload = 68656c6c6f",
        ),
        (
            "data.last_fragment",
            last,
            Length::ToEnd,
            b"hello",
            "flags (1) = 13 · stream (v) = 4 · number (v) = 300 · offset (v) = 69995 · payload = 68656c6c6f",
        ),
        (
            "data.byte_stream",
            bytes,
            Length::Bytes(5),
            b"hello",
            "flags (1) = 88 · stream (v) = 4 · number (v) = 0 · offset (v) = 5 · extras (1) = 16 · length (v) = 5 · payload = 68656c6c6f",
        ),
        (
            "data.opening",
            opened,
            Length::Bytes(5),
            b"\x02hi\x05\x06",
            "flags (1) = 90 · stream (v) = 4 · number (v) = 0 · extras (1) = 80 · length (v) = 5 · opening length (v) = 2 · opening = 6869 · bytes = 0506",
        ),
        (
            "data.run",
            head(WHOLE | data::MANY | data::UNSEQUENCED, Extras::NONE),
            Length::Bytes(5),
            b"\x02hi\x00\x00",
            "flags (1) = 55 · stream (v) = 4 · number (v) = 300 · length (v) = 5 · length (v) = 2 · message = 6869 · length (v) = 0 · length (v) = 0",
        ),
    ] {
        let block = written(|out| {
            head.write(out, length);
            out.bytes(payload);
        });
        vectors.block(name, &block, fields, |reader| {
            let (read, length) = DataHead::read(reader).unwrap();
            assert_eq!(DataHead { flags: read.flags & !(data::LENGTH | data::EXTRAS), ..read }, head);
            assert_eq!(reader.bytes(length as u64).unwrap(), payload);
        });
    }
}

fn sacks(vectors: &mut Vectors) {
    let marks = EcnCounts { ect0: 40, ect1: 0, ce: 2 };
    for (name, ranges, duplicates, ecn, fields) in [
        (
            "sack.one_range",
            vec![0..=9],
            0,
            None,
            "flags (1) = 0 · path (v) = 2 · largest (v) = 9 · delay (v) = 250 · range count - 1 (v) = 0 · first range length - 1 (v) = 9",
        ),
        (
            "sack.ranges_duplicates_ecn",
            vec![90..=100, 50..=80, 3..=3],
            6,
            Some(marks),
            "flags (1) = 3 · path (v) = 2 · largest (v) = 100 · delay (v) = 250 · range count - 1 (v) = 2 · first range length - 1 (v) = 10 · gap - 1 (v) = 8 · length - 1 (v) = 30 · gap - 1 (v) = 45 · length - 1 (v) = 0 · duplicates (v) = 6 · ECT(0) (v) = 40 · ECT(1) (v) = 0 · CE (v) = 2",
        ),
    ] {
        let block = written(|out| {
            let all = ranges.iter().cloned();
            assert!(sack::write(out, 2, 250, all, duplicates, ecn.unwrap_or_default()));
        });
        vectors.block(name, &block, fields, |reader| {
            let mut read = Sack::default();
            read.read(reader).unwrap();
            assert_eq!(read, Sack { path: 2, delay_us: 250, duplicates, ecn, ranges });
        });
    }
}

fn ranges(vectors: &mut Vectors) {
    let list = |name: &str, kind, values: Option<[u64; 2]>, fields: &str, vectors: &mut Vectors| {
        let value = |at: usize| values.map_or(0, |values| values[at]);
        let wanted = [
            NumberRange { first: 3, count: 2, value: value(0) },
            NumberRange { first: 900, count: 1, value: value(1) },
        ];
        let block = written(|out| {
            let mark = RangesHead::open(out, kind, 4, data::RELIABLE);
            let end = wanted[0].write(out, 0, values.is_some());
            wanted[1].write(out, end, values.is_some());
            RangesHead::close(out, mark, 2);
        });
        vectors.block(name, &block, fields, |reader| {
            let head = RangesHead::read(reader).unwrap();
            assert_eq!(head, RangesHead { stream: 4, domain: data::RELIABLE, count: 2 });
            let mut end = 0;
            for range in wanted {
                assert_eq!(NumberRange::read(reader, end, values.is_some()).unwrap(), range);
                end = range.end();
            }
        });
    };
    list(
        "skip",
        block::SKIP,
        Some([132, 32]),
        "stream (v) = 4 · domain (1) = 8 · entry count (2v) = 2 · number gap (v) = 3 · count (v) = 2 · charge (v) = 132 · number gap (v) = 895 · count (v) = 1 · charge (v) = 32",
        vectors,
    );
    list(
        "skip_ack",
        block::SKIP_ACK,
        Some([1, 0]),
        "stream (v) = 4 · domain (1) = 8 · range count (2v) = 2 · number gap (v) = 3 · count (v) = 2 · delivered (v) = 1 · number gap (v) = 895 · count (v) = 1 · delivered (v) = 0",
        vectors,
    );
    late(vectors);
    list(
        "taken",
        block::TAKEN,
        None,
        "stream (v) = 4 · domain (1) = 8 · range count (2v) = 2 · number gap (v) = 3 · count (v) = 2 · number gap (v) = 895 · count (v) = 1",
        vectors,
    );
}

/// A SKIP_ACK that answers no SKIP: its messages travelled together and arrived after they had been passed over.
fn late(vectors: &mut Vectors) {
    let wanted = NumberRange { first: 300, count: 256, value: LATE };
    let block = written(|out| {
        let mark = RangesHead::open(out, block::SKIP_ACK, 4, 0);
        wanted.write(out, 0, true);
        RangesHead::close(out, mark, 1);
    });
    let fields = "stream (v) = 4 · domain (1) = 0 · range count (2v) = 1 · number gap (v) = 300 · count (v) = 256 · delivered (v) = 2";
    vectors.block("skip_ack.late", &block, fields, |reader| {
        let head = RangesHead::read(reader).unwrap();
        assert_eq!(head, RangesHead { stream: 4, domain: 0, count: 1 });
        assert_eq!(NumberRange::read(reader, 0, true).unwrap(), wanted);
    });
}

fn endings(vectors: &mut Vectors) {
    let reason = Reason::new(3, "bye");
    vectors.block(
        "fin",
        &queued(|queue| queue.fin(reason.clone())),
        "code (v) = 3 · reason length (v) = 3 · reason = 627965",
        |reader| assert_eq!(read_fin(reader).unwrap(), reason),
    );
    vectors.block("fin_ack", &queued(ControlQueue::fin_ack), "", |_| {});
    vectors.block("fin_done", &[block::FIN_DONE], "", |_| {});
    let rst = written(|out| assert!(write_rst(out, Cause::Credit, &reason)));
    let error = "cause (v) = 11 · code (v) = 3 · reason length (v) = 3 · reason = 627965";
    vectors.block("rst", &rst, &format!("cause count (v) = 1 · {error}"), |reader| {
        assert_eq!(read_rst(reader).unwrap(), (Cause::Credit, reason.clone()));
    });
    // This implementation never sends ERROR. Its body is the one in RST.
    let alone = [&[block::ERROR], &rst[2..]].concat();
    vectors.block("error", &alone, error, |reader| {
        assert_eq!(read_error(reader).unwrap(), (Cause::Credit, reason.clone()));
    });
    for (name, end, fields) in [
        (
            "reset",
            StreamEnd::Reset { stream: 4, code: 7, final_size: 1_000_000 },
            "stream (v) = 4 · code (v) = 7 · final size (v) = 1000000",
        ),
        ("stop", StreamEnd::Stop { stream: 4, code: 7 }, "stream (v) = 4 · code (v) = 7"),
        (
            "end",
            StreamEnd::End { stream: 4, final_size: 1_000_000 },
            "stream (v) = 4 · final size (v) = 1000000",
        ),
    ] {
        let block = written(|out| end.write(out));
        vectors.block(name, &block, fields, |reader| {
            assert_eq!(StreamEnd::read(block[0], reader).unwrap(), end);
        });
    }
}

fn coding(vectors: &mut Vectors) {
    // The second symbol has no vector of its own: blocks that follow its head are of any kind.
    let symbol = [&[block::PADDING][..], &[0; 4]].concat();
    let mut encoder = Encoder::starting_at(300, 6);
    for symbol in [&symbol[..], b"ab"] {
        encoder.push(Time::ZERO, Duration::from_secs(1), symbol);
    }
    let source = written(|out| write_source(300, &symbol, out));
    vectors.block("source", &source, "number (v) = 300 · symbol = 0d00000000", |reader| {
        assert_eq!((reader.varint().unwrap(), &reader.rest()[..]), (300, &symbol[..]));
    });
    let repair = encoder.repair(Time::ZERO).unwrap();
    let sum: String = repair.sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let fields = format!("first (v) = 300 · count (v) = 2 · key (2) = 7 · sum = {sum}");
    vectors.block("repair", &written(|out| write_repair(&repair, out)), &fields, |reader| {
        assert_eq!(read_repair(reader).unwrap(), repair);
    });
}

fn credit(vectors: &mut Vectors) {
    for (name, grant, fields) in [
        (
            "max_stream_data",
            Grant::StreamData { stream: 4, limit: 1 << 20 },
            "stream (v) = 4 · limit (v) = 1048576",
        ),
        ("max_streams", Grant::Streams(200), "limit (v) = 200"),
    ] {
        let block = written(|out| grant.write(out));
        vectors.block(name, &block, fields, |reader| {
            assert_eq!(Grant::read(block[0], reader).unwrap(), grant);
        });
    }
}

fn paths(vectors: &mut Vectors) {
    let challenge: u64 = 0x0102_0304_0506_0708;
    let probe = [&[block::PROBE][..], &challenge.to_be_bytes()].concat();
    let mut answers = ChallengeAnswers::default();
    answers.push(challenge);
    let answer = written(|out| assert!(answers.fill(out)));
    vectors.block("probe", &probe, "challenge (8) = 72623859790382856", |reader| {
        assert_eq!(reader.u64().unwrap(), challenge);
    });
    vectors.block("probe_ack", &answer, "the same challenge (8) = 72623859790382856", |reader| {
        assert_eq!(reader.u64().unwrap(), challenge);
    });
    let (id, token) = (ConnectionId(challenge), ResetToken::new([0xab; 16]));
    vectors.block(
        "new_cid",
        &write_new_cid(PathId(2), id, &token),
        "path (v) = 2 · id (8) = 72623859790382856 · reset token (16) = abababababababababababababababab",
        |reader| {
            let (path, theirs) = read_new_cid(reader).unwrap();
            assert_eq!((path, theirs.id, theirs.token), (PathId(2), id, token));
        },
    );
    vectors.block("close_path", &write_close_path(PathId(2)), "path (v) = 2", |reader| {
        assert_eq!(read_path(reader).unwrap(), PathId(2));
    });
    for (name, address, fields) in [
        (
            "add_address.ipv4",
            "192.0.2.7:4433",
            "sequence (v) = 300 · family (1) = 4 · address (4) = c0000207 · port (2) = 4433",
        ),
        (
            "add_address.ipv6",
            "[2001:db8::7]:4433",
            "sequence (v) = 300 · family (1) = 6 · address (16) = 20010db8000000000000000000000007 · port (2) = 4433",
        ),
    ] {
        let address = address.parse().unwrap();
        vectors.block(name, &write_add(300, address), fields, |reader| {
            assert_eq!(read_add(reader).unwrap(), (300, address));
        });
    }
    vectors.block("delete_address", &write_delete(300), "sequence (v) = 300", |reader| {
        assert_eq!(reader.varint().unwrap(), 300);
    });
    vectors.block(
        "set_primary",
        &queued(|queue| queue.set_primary(PathId(2), 300)),
        "sequence (v) = 300 · path (v) = 2",
        |reader| assert_eq!(read_set_primary(reader).unwrap(), (300, PathId(2))),
    );
}

fn sessions(vectors: &mut Vectors) {
    let ticket = vec![0xcd; 40];
    let fields = format!("lifetime (v) = 86400 · length (v) = 40 · ticket = {}", "cd".repeat(40));
    vectors.block("ticket", &queued(|queue| queue.ticket(86_400, ticket.clone())), &fields, |reader| {
        assert_eq!(read_ticket(reader).unwrap(), (Duration::from_secs(86_400), Bytes::from(ticket)));
    });
    let heir = Identity::from_secret([0xc1; 32]).public();
    let hex: String = heir.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    vectors.block("suspend", &suspend(None), "heir length (1) = 0", |reader| {
        assert_eq!(read_suspend(reader).unwrap(), None);
    });
    let fields = format!("heir length (1) = 32 · heir = {hex}");
    vectors.block("suspend.heir", &suspend(Some(&heir)), &fields, |reader| {
        assert_eq!(read_suspend(reader).unwrap(), Some(heir));
    });
    vectors.block("suspend_ack", &suspend_ack(Duration::from_secs(3600)), "wait (v) = 3600000", |reader| {
        assert_eq!(reader.varint().unwrap(), 3_600_000);
    });
    vectors.block("keep_alive", &[block::KEEP_ALIVE], "", |_| {});
    vectors.block("padding", &[block::PADDING, 0, 0, 0], "zeros = 000000", |reader| {
        assert!(reader.rest().iter().all(|byte| *byte == 0));
    });
}

/// Returns the name and number of every block type, except those of clear packets and 128.
fn types() -> Vec<(String, u8)> {
    let kinds = TYPES.lines().filter_map(|line| {
        let (name, number) = line.trim().strip_prefix("pub const ")?.split_once(": u8 = ")?;
        Some((name.to_owned(), number.strip_suffix(';')?.parse().unwrap()))
    });
    kinds
        .filter(|(name, _)| !["SYN", "SYN_ACK", "PING", "PONG", "FIRST_SKIPPABLE"].contains(&name.as_str()))
        .collect()
}

#[test]
fn vectors_of_every_block_are_as_written_down() {
    let mut vectors = Vectors(
        "# Whimbrel, version 0x57480001. One block each: its bytes in hexadecimal, and below them its fields in their order:\n\
         # (v) a variable-length integer, (2v) one written in two bytes, (1), (2), (8) an integer of so many bytes, all in decimal;\n\
         # (4) and (16) in addresses and tokens, and what has no length, bytes in hexadecimal.\n"
            .into(),
    );
    data_blocks(&mut vectors);
    sacks(&mut vectors);
    endings(&mut vectors);
    ranges(&mut vectors);
    credit(&mut vectors);
    coding(&mut vectors);
    paths(&mut vectors);
    sessions(&mut vectors);
    for (name, number) in types() {
        let typed = format!("type (1) = {number}");
        let whole = |line: &str| line.split(" · ").any(|part| part.trim().ends_with(&typed));
        assert!(vectors.0.lines().any(whole), "no vector of {name}");
        let headed = |name: &str| {
            PROTOCOL
                .lines()
                .any(|line| line.starts_with("### ") && line.contains(&format!("{name} ({number})")))
        };
        assert!(
            headed(&name) || headed(&name.replace('_', "-")),
            "docs/protocol.md has no {name} ({number})"
        );
    }
    if std::env::var_os("WHIMBREL_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &vectors.0).unwrap();
    }
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), vectors.0, "bytes changed: is that meant?");
}
