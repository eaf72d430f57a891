use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use super::pipe::*;
use crate::wire::data::DataHead;
use crate::wire::{Reader, Writer};
use crate::{Service, Side, StreamId};

/// Writes `len` bytes on `from` and reads them on the other end. Returns what was read and how it ended.
fn transfer(pipe: &mut Pipe, from: usize, id: StreamId, len: usize) -> (Vec<u8>, Read) {
    let data = body(id.0, len);
    let (mut at, mut got, mut finished) = (0, Vec::new(), false);
    for _ in 0..1_000_000 {
        if at < len {
            let chunk = (1 + pipe.rng.below(9000) as usize).min(len - at);
            at += pipe.ends[from].write(pipe.now, id, data.slice(at..at + chunk)).unwrap();
        } else if !finished {
            pipe.ends[from].finish(pipe.now, id).unwrap();
            finished = true;
        }
        pipe.run_for(Duration::from_millis(1));
        loop {
            let max = 1 + pipe.rng.below(20_000) as usize;
            match pipe.ends[1 - from].read(id, max) {
                Ok(Read::Data(bytes)) => {
                    assert!(!bytes.is_empty() && bytes.len() <= max);
                    got.extend_from_slice(&bytes);
                }
                Ok(Read::Blocked) | Err(StreamError::UnknownStream) => break,
                Ok(end) => return (got, end),
                Err(other) => panic!("{other}"),
            }
        }
    }
    panic!("no end");
}

#[test]
fn bytes_cross_both_ways_and_half_close() {
    for seed in 0..6 {
        let mut pipe = Pipe::lossy(seed);
        let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
        let (got, end) = transfer(&mut pipe, 0, id, 700_000);
        assert_eq!((got.len(), end), (700_000, Read::Finished));
        assert!(got == body(id.0, 700_000));
        // The other direction is still open.
        let (got, end) = transfer(&mut pipe, 1, id, 50_000);
        assert_eq!((got.len(), end), (50_000, Read::Finished));
        pipe.settle();
        for end in &mut pipe.ends {
            assert_eq!(end.stream_kind(id), None, "freed");
            assert_eq!(end.read(id, 1), Err(StreamError::UnknownStream));
            assert!(end.is_drained());
        }
        pipe.assert_credit_agrees();
    }
}

#[test]
fn an_empty_stream_ends() {
    let mut pipe = Pipe::lossy(3);
    let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
    assert_eq!(transfer(&mut pipe, 0, id, 0), (vec![], Read::Finished));
    assert_eq!(pipe.ends[0].write(pipe.now, id, Bytes::from_static(b"x")), Err(StreamError::Ended));
    assert!(
        std::iter::from_fn(|| pipe.ends[1].poll_event())
            .any(|e| e == SessionEvent::StreamOpened(id, StreamKind::Bytes))
    );
}

#[test]
fn more_streams_than_the_limit_one_after_another() {
    let config = SessionConfig { max_streams: 128, ..SessionConfig::default() };
    let mut pipe = Pipe { loss: 5, ..Pipe::new(5, config) };
    for _ in 0..300 {
        let id = loop {
            match pipe.ends[0].open_stream(StreamKind::Bytes) {
                Ok(id) => break id,
                Err(OpenError::Limit) => pipe.run_for(Duration::from_millis(10)),
                Err(other) => panic!("{other}"),
            }
        };
        let (got, _) = transfer(&mut pipe, 0, id, 10);
        assert_eq!(got.len(), 10);
        pipe.ends[1].finish(pipe.now, id).unwrap();
        pipe.run_for(Duration::from_millis(30));
        while pipe.ends[0].read(id, 10) == Ok(Read::Blocked) {
            pipe.run_for(Duration::from_millis(30));
        }
    }
    pipe.settle();
    pipe.assert_credit_agrees();
}

fn on(stream: StreamId, service: Service, number: u64, size: usize) -> Outgoing {
    Outgoing { stream, ..numbered(service, number, size) }
}

fn next_messages(pipe: &mut Pipe) -> StreamId {
    loop {
        match pipe.ends[0].open_messages(StreamOptions::default()) {
            Ok(id) => return id,
            Err(OpenError::Limit) => pipe.run_for(Duration::from_millis(10)),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn message_streams_beyond_the_limit_one_after_another() {
    let config = SessionConfig { max_streams: 128, ..SessionConfig::default() };
    let mut pipe = Pipe { loss: 10, spurious: 5, jitter: 6, ..Pipe::new(9, config) };
    let mut got = [0; 2];
    for round in 0..300u64 {
        let id = next_messages(&mut pipe);
        for service in Service::ALL {
            let size = 10 + pipe.rng.below(4000) as usize;
            pipe.send(0, on(id, service, round, size));
        }
        if round % 3 == 0 {
            pipe.send(
                0,
                Outgoing {
                    lifetime: Some(Duration::from_millis(3)),
                    ..on(id, Service::ReliableSequenced, round, 9000)
                },
            );
        }
        pipe.ends[0].end_messages(id);
        assert_eq!(
            pipe.ends[0].send(pipe.now, on(id, Service::ReliableSequenced, 0, 8)),
            Err(SendError::UnknownStream)
        );
        pipe.run_for(Duration::from_millis(20));
        // An end that did not open the stream and has no reader for it need not end it.
        for message in pipe.recv_all(1).into_iter().filter(|message| message.service.is_reliable()) {
            got[usize::from(message.service.is_sequenced())] += 1;
            number_of(&message);
        }
        if round == 150 {
            pipe.suspend(3, Duration::from_secs(1));
        }
    }
    pipe.settle();
    for message in pipe.recv_all(1).into_iter().filter(|message| message.service.is_reliable()) {
        got[usize::from(message.service.is_sequenced())] += 1;
    }
    pipe.settle();
    assert!(got[0] == 300 && (300..=400).contains(&got[1]), "{got:?}");
    for index in 1..=300 {
        let id = StreamId::nth(crate::Side::Client, index);
        assert!(pipe.ends.iter().all(|end| end.stream_kind(id).is_none()), "{id:?} is over");
    }
    pipe.assert_credit_agrees();
    assert!(pipe.ends.iter().all(|end| end.is_drained()));
}

#[test]
fn a_message_stream_lasts_until_it_is_read_and_ended_by_both_that_hold_it() {
    let mut pipe = Pipe::plain();
    let id = pipe.ends[0].open_messages(StreamOptions::default()).unwrap();
    pipe.ends[0].claim_stream(id);
    pipe.send(0, Outgoing { confirm: true, tracked: true, ..on(id, Service::ReliableSequenced, 1, 100) });
    pipe.ends[0].end_messages(id);
    pipe.settle();
    assert!(pipe.ends[1].claim_stream(id));
    assert!(!pipe.ends[1].is_at_end(id), "one waits to be read");
    let message = pipe.ends[1].recv_on(pipe.now, id).unwrap();
    assert!(!pipe.ends[1].is_at_end(id), "its sender waits for the confirmation");
    pipe.ends[1].confirm(&message);
    pipe.settle();
    assert!(pipe.ends[1].is_at_end(id));
    assert_eq!(pipe.outcomes(0).last().map(|(_, outcome)| *outcome), Some(Outcome::Taken));
    // The other direction continues.
    pipe.send(1, on(id, Service::ReliableSequenced, 2, 100));
    pipe.settle();
    assert_eq!(number_of(&pipe.ends[0].recv_on(pipe.now, id).unwrap()), 2);
    pipe.ends[1].end_messages(id);
    pipe.ends[1].release_stream(id);
    pipe.settle();
    assert!(pipe.ends[0].is_at_end(id) && pipe.ends[0].stream_kind(id).is_some(), "this end holds it");
    pipe.ends[0].release_stream(id);
    pipe.settle();
    assert!(pipe.ends.iter().all(|end| end.stream_kind(id).is_none()));
    pipe.assert_credit_agrees();
}

#[test]
fn an_end_that_is_not_one_closes() {
    use crate::wire::stream_end::StreamEnd;
    use crate::wire::{Reader, Writer, block};
    for (stream, final_size) in [(0, 0), (2, 1), (3, 0)] {
        let mut pipe = Pipe::plain();
        let mut bytes = Vec::new();
        StreamEnd::End { stream, final_size }.write(&mut Writer::new(&mut bytes, 100));
        let mut reader = Reader::new(bytes.split_off(1).into());
        let refused = pipe.ends[1].handle_block(pipe.now, block::END, &mut reader, false);
        assert!(refused.is_err(), "{stream} {final_size}");
    }
}

#[test]
fn reset_discards_and_is_told() {
    for seed in 0..20 {
        let mut pipe = Pipe::lossy(seed);
        let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
        pipe.ends[0].write(pipe.now, id, body(1, 200_000)).unwrap();
        let wait = pipe.rng.below(30);
        pipe.run_for(Duration::from_millis(wait));
        pipe.ends[0].reset(id, 77).unwrap();
        assert_eq!(pipe.ends[0].reset(id, 78), Err(StreamError::Ended));
        pipe.settle();
        assert_eq!(pipe.ends[1].read(id, 100), Ok(Read::Reset(77)));
        pipe.ends[1].finish(pipe.now, id).unwrap();
        pipe.settle();
        assert_eq!(pipe.ends[0].read(id, 100), Ok(Read::Finished));
        pipe.settle();
        assert!(pipe.ends.iter().all(|end| end.stream_kind(id).is_none()));
        pipe.assert_credit_agrees();
    }
}

#[test]
fn stop_makes_the_sender_reset() {
    for seed in 0..20 {
        let mut pipe = Pipe::lossy(seed);
        let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
        pipe.ends[0].write(pipe.now, id, body(1, 900_000)).unwrap();
        pipe.run_for(Duration::from_millis(15));
        while pipe.ends[1].stop(id, 5).is_err() {
            pipe.run_for(Duration::from_millis(5));
        }
        pipe.settle();
        let events: Vec<_> = std::iter::from_fn(|| pipe.ends[0].poll_event()).collect();
        assert!(events.contains(&SessionEvent::StreamStopped(id, 5)), "{events:?}");
        assert_eq!(pipe.ends[0].write(pipe.now, id, body(1, 10)), Err(StreamError::Stopped(5)));
        pipe.assert_credit_agrees();
        assert!(pipe.ends[0].is_drained());
    }
}

#[test]
fn a_byte_stream_waits_for_its_reader() {
    let mut pipe = Pipe::plain();
    let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
    let mut written = 0;
    for _ in 0..100 {
        written += pipe.ends[0].write(pipe.now, id, body(0, 100_000)).unwrap();
        pipe.settle();
    }
    // This is the stream's assured share and the sender's buffer.
    assert_eq!(written, (64 << 10) + (1 << 20));
    let mut read = 0;
    loop {
        match pipe.ends[1].read(id, 1 << 20).unwrap() {
            Read::Data(bytes) => read += bytes.len(),
            Read::Blocked if read == written => break,
            Read::Blocked => {}
            other => panic!("{other:?}"),
        }
        pipe.settle();
    }
    pipe.assert_credit_agrees();
    assert!(
        std::iter::from_fn(|| pipe.ends[0].poll_event())
            .any(|event| event == SessionEvent::StreamWritable(id))
    );
}

#[test]
fn messages_and_bytes_do_not_mix() {
    let mut pipe = Pipe::plain();
    let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
    let message = Outgoing { stream: id, ..numbered(crate::Service::ReliableSequenced, 0, 8) };
    assert_eq!(pipe.ends[0].send(pipe.now, message), Err(SendError::WrongKind));
    assert_eq!(
        pipe.ends[0].write(pipe.now, StreamId(0), Bytes::from_static(b"x")),
        Err(StreamError::WrongKind)
    );
    assert_eq!(pipe.ends[0].finish(pipe.now, StreamId(400)), Err(StreamError::UnknownStream));
}

fn opened(pipe: &mut Pipe, side: usize) -> Vec<StreamId> {
    let events = std::iter::from_fn(|| pipe.ends[side].poll_event());
    events
        .filter_map(|event| match event {
            SessionEvent::StreamOpened(id, StreamKind::Bytes) => Some(id),
            _ => None,
        })
        .collect()
}

#[test]
fn an_opening_is_there_when_the_stream_is_told_of() {
    for seed in 0..20 {
        let mut pipe = Pipe::lossy(seed);
        let now = pipe.now;
        let openings = [0, 1, 63, 64, MAX_OPENING].map(|len| body(len as u64, len).slice(..len));
        let ids: Vec<StreamId> =
            openings.iter().map(|opening| pipe.ends[0].open_stream_with(now, opening).unwrap()).collect();
        // Some streams continue after the opening, and others only end.
        for (number, id) in ids.iter().enumerate().filter(|(number, _)| number % 2 == 0) {
            pipe.ends[0].write(now, *id, body(number as u64, 5000)).unwrap();
        }
        ids.iter().for_each(|id| pipe.ends[0].finish(now, *id).unwrap());
        let mut told = 0;
        while told < ids.len() {
            assert!(pipe.now < now + Duration::from_secs(60), "seed {seed}: {told}");
            pipe.run_for(Duration::from_millis(1));
            for id in opened(&mut pipe, 1) {
                let number = ids.iter().position(|other| *other == id).unwrap();
                assert_eq!(pipe.ends[1].take_opening(id).as_ref(), Some(&openings[number]));
                assert_eq!(pipe.ends[1].take_opening(id), None, "once");
                told += 1;
            }
        }
        pipe.settle();
        for (number, id) in ids.into_iter().enumerate() {
            let mut got = Vec::new();
            while let Ok(Read::Data(bytes)) = pipe.ends[1].read(id, 1 << 20) {
                got.extend_from_slice(&bytes);
            }
            let wanted = body(number as u64, 5000).slice(..if number % 2 == 0 { 5000 } else { 0 });
            assert_eq!(got.len(), wanted.len(), "seed {seed}, stream {number}");
            assert!(got == wanted, "nothing of the opening");
            assert!(pipe.ends[0].is_delivered(id));
        }
        pipe.settle();
        pipe.assert_credit_agrees();
    }
}

#[test]
fn an_opening_is_bounded_and_waits_for_a_peer_that_takes_it() {
    let mut session = Session::new(Side::Client, SessionConfig::default());
    let now = crate::Time::ZERO;
    assert_eq!(session.open_stream_with(now, &[0; MAX_OPENING + 1]), Err(OpenError::OpeningTooLong));
    assert_eq!(session.open_stream_with(now, b"x"), Err(OpenError::Limit), "it has not said");
    session.set_peer_limits(PeerLimits { openings: Some(true), ..PeerLimits::default() });
    assert_eq!(session.poll_event(), Some(SessionEvent::StreamsAvailable));
    assert!(session.open_stream_with(now, b"x").is_ok());
    session.set_peer_limits(PeerLimits { openings: Some(false), ..PeerLimits::default() });
    assert_eq!(session.open_stream_with(now, b"x"), Err(OpenError::NoOpenings));
}

/// A stream that is reset before its opening arrived is reported all the same, since its other direction has to be
/// ended.
#[test]
fn a_stream_that_is_reset_before_its_opening_came_is_told_of() {
    let mut pipe = Pipe::plain();
    let now = pipe.now;
    let id = pipe.ends[0].open_stream_with(now, b"target").unwrap();
    pipe.ends[0].reset(id, 7).unwrap();
    pipe.settle();
    assert_eq!(opened(&mut pipe, 1), [id]);
    assert_eq!(pipe.ends[1].take_opening(id), None);
    assert_eq!(pipe.ends[1].read(id, 1), Ok(Read::Reset(7)));
    pipe.ends[1].finish(now, id).unwrap();
    pipe.settle();
    assert_eq!(pipe.ends[0].read(id, 1), Ok(Read::Finished));
    assert_eq!([0, 1].map(|side| pipe.ends[side].stream_kind(id)), [None, None]);
    pipe.assert_credit_agrees();
}

/// Streams that are opened only by naming a later one take no memory until something of theirs arrives.
#[test]
fn naming_a_late_stream_costs_one() {
    let config = SessionConfig { max_streams: 1 << 20, ..SessionConfig::default() };
    let mut pipe = Pipe::new(1, config);
    let now = pipe.now;
    let first = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
    let mut last = first;
    for _ in 0..100_000 {
        last = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap_or_else(|_| {
            // Streams that carry nothing yet are named, so that the peer grants more.
            pipe.settle();
            pipe.ends[0].open_stream(StreamKind::Bytes).unwrap()
        });
    }
    assert!(pipe.ends[1].held() < 100_000, "{}", pipe.ends[1].held());
    let before = pipe.ends[1].held();
    pipe.ends[0].write(now, last, Bytes::from_static(b"late")).unwrap();
    pipe.settle();
    assert_eq!(opened(&mut pipe, 1), [last]);
    assert!(pipe.ends[1].held() < before + 2000, "{}", pipe.ends[1].held());
    pipe.ends[0].write(now, first, Bytes::from_static(b"early")).unwrap();
    pipe.settle();
    assert_eq!(opened(&mut pipe, 1), [first], "it was not over");
    assert_eq!(pipe.ends[1].read(first, 9), Ok(Read::Data(Bytes::from_static(b"early"))));
}

/// If both streams have more to send than fits, the higher priority goes first. Priorities can change while bytes wait.
#[test]
fn byte_streams_have_priorities() {
    let mut pipe = Pipe::plain();
    let now = pipe.now;
    let [low, high] = [10, 200].map(|priority| {
        let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
        pipe.ends[0].set_priority(id, priority).unwrap();
        id
    });
    for id in [low, high] {
        pipe.ends[0].write(now, id, body(1, 60_000)).unwrap();
    }
    let next = |pipe: &mut Pipe| {
        let mut out = Vec::new();
        pipe.ends[0].fill(now, &mut Writer::new(&mut out, 1200), &mut Vec::new(), 0);
        let head = DataHead::read(&mut Reader::new(Bytes::from(out).slice(1..)));
        StreamId(head.unwrap().0.stream)
    };
    assert_eq!([next(&mut pipe), next(&mut pipe)], [high, high]);
    pipe.ends[0].set_priority(low, 250).unwrap();
    pipe.ends[0].set_priority(high, 10).unwrap();
    assert_eq!(next(&mut pipe), low);
}

/// STOP may arrive before any byte. The stream is then reported once, as soon as it is known whether it has an opening.
#[test]
fn a_stream_that_is_stopped_before_its_opening_came_is_told_of_once() {
    for opening in [None, Some(&b"target"[..])] {
        let mut pipe = Pipe::plain();
        let now = pipe.now;
        let id = match opening {
            Some(opening) => pipe.ends[0].open_stream_with(now, opening).unwrap(),
            None => pipe.ends[0].open_stream(StreamKind::Bytes).unwrap(),
        };
        let mut stop = Vec::new();
        crate::wire::stream_end::StreamEnd::Stop { stream: id.0, code: 3 }
            .write(&mut Writer::new(&mut stop, 100));
        let mut reader = Reader::new(stop.into());
        let kind = reader.u8().unwrap();
        pipe.ends[1].handle_block(now, kind, &mut reader, false).unwrap();
        assert_eq!(opened(&mut pipe, 1), []);
        pipe.ends[0].write(now, id, Bytes::from_static(b"bytes")).unwrap();
        pipe.settle();
        assert_eq!(opened(&mut pipe, 1), [id]);
        assert_eq!(pipe.ends[1].take_opening(id).as_deref(), opening);
        assert_eq!(pipe.ends[1].read(id, 9), Ok(Read::Data(Bytes::from_static(b"bytes"))));
    }
}

/// A stream's own window limits its credit, however fast it is read, and does not affect other streams.
#[test]
fn a_window_of_its_own_bounds_a_streams_credit() {
    let granted = |window: Option<u64>| {
        let mut pipe = Pipe::plain();
        let id = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
        pipe.ends[0].write(pipe.now, id, body(1, 8)).unwrap();
        pipe.settle();
        pipe.ends[1].set_window(id, window).unwrap();
        for _ in 0..400 {
            let now = pipe.now;
            pipe.ends[0].write(now, id, body(1, 1 << 20)).unwrap();
            pipe.run_for(Duration::from_millis(5));
            while let Ok(Read::Data(_)) = pipe.ends[1].read(id, 1 << 20) {}
        }
        // Nobody reads any more, so what is unread in the end is the window.
        for _ in 0..200 {
            let now = pipe.now;
            pipe.ends[0].write(now, id, body(1, 1 << 20)).unwrap();
            pipe.run_for(Duration::from_millis(5));
        }
        let credit = pipe.ends[1].stream_credit(pipe.now);
        credit.iter().find(|credit| credit.stream == id).unwrap().unread
    };
    let (own, others) = (granted(Some(100_000)), granted(None));
    assert!((65_536..=100_000).contains(&own), "{own}");
    assert!(others > 200_000, "{others}");
}

/// The check for each packet agrees with the full one, whatever is ended while the session closes.
#[test]
fn a_closing_session_knows_when_its_streams_are_drained() {
    for seed in 0..20 {
        let mut pipe = Pipe::lossy(seed);
        let ids: Vec<_> = (0..40).map(|_| pipe.ends[0].open_stream(StreamKind::Bytes).unwrap()).collect();
        for id in &ids {
            pipe.ends[0].write(pipe.now, *id, Bytes::from(vec![7; 3_000])).unwrap();
        }
        pipe.ends[0].begin_close();
        for _ in 0..2_000 {
            let id = ids[pipe.rng.below(40) as usize];
            match pipe.rng.below(100) {
                0 => drop(pipe.ends[0].reset(id, 1)),
                1 => drop(pipe.ends[0].finish(pipe.now, id)),
                _ => pipe.run_for(Duration::from_millis(1)),
            }
            let drained = pipe.ends[0].is_drained();
            assert_eq!(pipe.ends[0].poll_drained(), drained, "seed {seed}");
        }
        pipe.settle();
        assert!(pipe.ends[0].poll_drained(), "seed {seed}");
    }
}

/// More streams than keep their queues go on from where they rested.
#[test]
fn streams_that_have_rested_go_on() {
    let mut pipe = Pipe::lossy(7);
    let ids: Vec<_> = (0..60).map(|_| pipe.ends[0].open_stream(StreamKind::Bytes).unwrap()).collect();
    for round in 0..5u8 {
        for from in [0, 1] {
            for id in &ids {
                assert_eq!(pipe.ends[from].write(pipe.now, *id, Bytes::from(vec![round; 900])), Ok(900));
            }
            pipe.settle();
            for id in &ids {
                let mut got = Vec::new();
                while let Ok(Read::Data(bytes)) = pipe.ends[1 - from].read(*id, 1_000) {
                    got.extend_from_slice(&bytes);
                }
                assert_eq!(got, [round; 900]);
            }
        }
    }
    pipe.settle();
    pipe.assert_credit_agrees();
}
