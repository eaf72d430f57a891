//! Sending and reading many messages at a time gives the same result as one at a time.

use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use super::pipe::*;
use crate::{Service, StreamId};

/// Returns messages of all lengths, some of them long, for a group of one service.
fn payloads(rng: &mut Rng, group: u64) -> Vec<Bytes> {
    (0..rng.below(200))
        .map(|number| {
            let size = if rng.chance(2) { 3000 } else { 8 + rng.below(150) as usize };
            body(group << 32 | number, size)
        })
        .collect()
}

/// Returns what the far end reads, in order, of what a seed sends. With `batches`, both ends handle many at a time.
fn exchange(seed: u64, batches: bool) -> Vec<Message> {
    let roomy = SessionConfig { stream_share: 4 << 20, ..SessionConfig::default() };
    let mut pipe = Pipe { loss: 5, jitter: 3, ..Pipe::new(seed, roomy) };
    let (mut choices, mut got) = (Rng(seed ^ 0x5eed), Vec::new());
    for group in 0..40 {
        let service = Service::ALL[group as usize % 4];
        let template = Outgoing::new(StreamId(0), service, Bytes::new());
        let mut payloads = payloads(&mut choices, group).into_iter();
        let session = &mut pipe.ends[0];
        if batches {
            while let Some(payload) = session.send_copies(pipe.now, &template, &mut payloads) {
                session.send(pipe.now, Outgoing { payload, ..template.clone() }).unwrap();
            }
        } else {
            for payload in payloads {
                session.send(pipe.now, Outgoing { payload, ..template.clone() }).unwrap();
            }
        }
        pipe.run_for(Duration::from_millis(20));
        let most = 1 + choices.below(100) as usize;
        if batches {
            let mut batch = Batch::new();
            let count = pipe.ends[1].recv_batch(pipe.now, &mut batch, most);
            assert!(count == batch.len() && count <= most);
            got.extend(batch.iter().map(|message| message.to_message()));
            assert_eq!(batch.iter().count(), count);
        } else {
            got.extend((0..most).map_while(|_| pipe.ends[1].recv(pipe.now)));
        }
    }
    pipe.settle();
    if batches {
        let mut batch = Batch::new();
        pipe.ends[1].recv_batch(pipe.now, &mut batch, usize::MAX);
        got.extend(batch.iter().map(|message| message.to_message()));
    } else {
        got.extend(pipe.recv_all(1));
    }
    pipe.settle();
    assert_eq!(pipe.ends[1].stats().unread, 0);
    pipe.assert_credit_agrees();
    got
}

#[test]
fn many_at_a_time_is_as_one_at_a_time() {
    for seed in 0..10 {
        let (one, many) = (exchange(seed, false), exchange(seed, true));
        assert!(one.len() > 1000, "seed {seed}: {}", one.len());
        assert_eq!(one.len(), many.len(), "seed {seed}");
        for (one, many) in one.iter().zip(&many) {
            assert_eq!(one, many, "seed {seed}");
            assert_eq!(one.payload, body(number_of(one), one.payload.len()));
        }
    }
}

#[test]
fn the_first_that_cannot_be_copied_comes_back_and_the_rest_waits() {
    let config = SessionConfig { send_queue_messages: 10, ..SessionConfig::default() };
    let template = numbered(Service::ReliableSequenced, 0, 8);
    let small = |number: u64| body(number, 20);

    let mut pipe = Pipe::new(1, config);
    let mut many = (0..30).map(small);
    let refused = pipe.ends[0].send_copies(pipe.now, &template, &mut many);
    assert_eq!((refused, many.next()), (Some(small(10)), Some(small(11))), "the queue takes ten");
    assert_eq!(pipe.ends[0].stats().queue_messages, 10);

    let mut pipe = Pipe::new(1, config);
    let long = body(2, 5000);
    let mut mixed = [small(0), small(1), long.clone(), small(3)].into_iter();
    let refused = pipe.ends[0].send_copies(pipe.now, &template, &mut mixed);
    assert_eq!((refused, mixed.len()), (Some(long), 1), "what is not small goes another way");

    let mut pipe = Pipe::new(1, config);
    let elsewhere = Outgoing { stream: StreamId(8), ..template.clone() };
    assert_eq!(pipe.ends[0].send_copies(pipe.now, &elsewhere, &mut [small(0)].into_iter()), Some(small(0)));
    pipe.ends[0].begin_close();
    assert_eq!(pipe.ends[0].send_copies(pipe.now, &template, &mut [small(0)].into_iter()), Some(small(0)));
    assert_eq!(pipe.ends[0].stats().queue_messages, 0);
}
