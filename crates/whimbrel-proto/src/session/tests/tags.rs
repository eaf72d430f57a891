use std::collections::BTreeMap;
use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::{Service, StreamId, Tag, Time};

const S0: StreamId = StreamId(0);

fn tagged(service: Service, number: u64, tag: u64) -> Outgoing {
    Outgoing { tag: Some(Tag(tag)), tracked: true, ..numbered(service, number, 100) }
}

#[test]
fn what_was_never_sent_is_cancelled_at_once_and_leaves_no_gap() {
    let mut pipe = Pipe::plain();
    for number in 0..30 {
        pipe.send(0, tagged(Service::ReliableSequenced, number, number % 3));
    }
    let now = pipe.now;
    assert_eq!(pipe.ends[0].cancel(now, S0, Tag(1)), 10);
    assert_eq!(pipe.ends[0].cancel(now, S0, Tag(1)), 0);
    assert_eq!(pipe.outcomes(0).iter().filter(|(_, what)| *what == Outcome::Cancelled).count(), 10);
    pipe.settle();
    let got = pipe.recv_all(1);
    assert_eq!(
        got.iter().map(number_of).collect::<Vec<_>>(),
        (0..30).filter(|n| n % 3 != 1).collect::<Vec<_>>()
    );
    assert_eq!(got.last().unwrap().id, 19);
}

#[test]
fn what_flies_is_cancelled_by_notice_and_delivered_wins() {
    for seed in 0..40 {
        for service in Service::ALL {
            let mut pipe = Pipe { loss: 30, ..Pipe::new(seed, SessionConfig::default()) };
            let ids: Vec<_> = (0..40)
                .map(|number| {
                    let mut message = tagged(service, number, number % 2);
                    if number % 10 == 0 {
                        message.payload = body(number, 4000);
                    }
                    pipe.send(0, message)
                })
                .collect();
            let wait = pipe.rng.below(20);
            pipe.run_for(Duration::from_millis(wait));
            let now = pipe.now;
            pipe.ends[0].cancel(now, S0, Tag(1));
            pipe.settle();
            let got: Vec<u64> = pipe.recv_all(1).iter().map(number_of).collect();
            pipe.settle();
            let outcomes: BTreeMap<_, _> = pipe.outcomes(0).into_iter().collect();
            assert_eq!(outcomes.len(), 40, "seed {seed} {service:?}");
            for (number, id) in ids.iter().enumerate() {
                let here = got.contains(&(number as u64));
                match outcomes[id] {
                    Outcome::Delivered if service == Service::UnreliableSequenced => {}
                    Outcome::Delivered => assert!(here, "seed {seed} {service:?} {number}"),
                    Outcome::Cancelled => {
                        assert!(!here && number % 2 == 1, "seed {seed} {service:?} {number}")
                    }
                    Outcome::Lost => {
                        assert!(!here && !service.is_reliable(), "seed {seed} {service:?} {number}")
                    }
                    other => panic!("{other:?}"),
                }
            }
            pipe.assert_credit_agrees();
            assert!(pipe.ends[0].is_drained());
        }
    }
}

#[test]
fn a_replacement_keeps_its_place() {
    let mut pipe = Pipe::plain();
    let old: Vec<_> =
        (0..5).map(|number| pipe.send(0, tagged(Service::ReliableSequenced, number, number % 2))).collect();
    let now = pipe.now;
    let new = pipe.ends[0].replace(now, S0, Tag(1), tagged(Service::ReliableSequenced, 99, 1)).unwrap();
    pipe.settle();
    assert_eq!(pipe.recv_all(1).iter().map(number_of).collect::<Vec<_>>(), [0, 99, 2, 4]);
    let outcomes: BTreeMap<_, _> = pipe.outcomes(0).into_iter().collect();
    assert_eq!((outcomes[&old[1]], outcomes[&old[3]]), (Outcome::Replaced, Outcome::Replaced));
    assert_eq!(outcomes[&new], Outcome::Delivered);
}

#[test]
fn replacing_through_a_blackout_leaves_the_newest_first() {
    let mut pipe = Pipe { blackout: true, ..Pipe::plain() };
    for number in 0..200 {
        let now = pipe.now;
        pipe.ends[0].replace(now, S0, Tag(5), tagged(Service::ReliableSequenced, number, 5)).unwrap();
        pipe.run_for(Duration::from_millis(10));
    }
    pipe.blackout = false;
    pipe.settle();
    assert_eq!(pipe.recv_all(1).iter().map(number_of).collect::<Vec<_>>(), [199]);
    let stats = pipe.ends[0].stats();
    assert_eq!((stats.total.replaced, stats.total.delivered), (199, 1));
    let of_tag = pipe.ends[0].tag_stats()[0];
    assert_eq!((of_tag.sent.replaced, of_tag.sent.delivered, of_tag.sent.queued), (199, 1, 200));
    let there = pipe.ends[1].tag_stats()[0];
    assert_eq!(
        (there.tag, there.received, there.received_bytes),
        (of_tag.tag, 1, of_tag.sent.delivered_bytes)
    );
}

#[test]
fn a_replacement_of_nothing_that_waits_needs_room() {
    let config =
        SessionConfig { send_queue_messages: 3, send_queue_bytes: 1_000, ..SessionConfig::default() };
    let mut pipe = Pipe { blackout: true, ..Pipe::new(1, config) };
    let replace = |pipe: &mut Pipe, tag, number, len| {
        let message = Outgoing { tracked: true, ..numbered(Service::ReliableSequenced, number, len) };
        pipe.ends[0].replace(pipe.now, S0, Tag(tag), message)
    };
    let sent = replace(&mut pipe, 1, 0, 100).unwrap();
    pipe.run_for(Duration::from_millis(1));
    assert_eq!(pipe.ends[0].stats().queue_messages, 0, "it is on its way");
    for number in 1..4 {
        pipe.send(0, tagged(Service::ReliableSequenced, number, 1 + number));
    }
    let refused = replace(&mut pipe, 1, 9, 8);
    assert!(matches!(refused, Err(SendError::QueueFull(back)) if back.payload == body(9, 8)));
    assert!(matches!(replace(&mut pipe, 7, 9, 8), Err(SendError::QueueFull(_))), "there is none of it");
    assert_eq!((pipe.ends[0].stats().queue_messages, pipe.outcomes(0).len()), (3, 0), "nothing was given up");
    // Messages of 100 bytes wait. A replacement takes the place of one of them if it fits beside the others.
    replace(&mut pipe, 2, 10, 100).unwrap();
    assert!(matches!(replace(&mut pipe, 2, 11, 801), Err(SendError::QueueFull(_))));
    replace(&mut pipe, 2, 11, 800).unwrap();
    replace(&mut pipe, 2, 12, 800).unwrap();
    assert_eq!(pipe.ends[0].stats().queue_bytes, 1_000);
    // A message that is alone in the queue may have any length.
    let now = pipe.now;
    assert_eq!(pipe.ends[0].cancel(now, S0, Tag(3)) + pipe.ends[0].cancel(now, S0, Tag(4)), 2);
    replace(&mut pipe, 2, 13, 5_000).unwrap();
    replace(&mut pipe, 2, 14, 5_000).unwrap();
    pipe.blackout = false;
    pipe.settle();
    assert_eq!(pipe.recv_all(1).iter().map(number_of).collect::<Vec<_>>(), [0, 14]);
    assert!(pipe.outcomes(0).contains(&(sent, Outcome::Delivered)));
}

#[test]
fn figures_of_tags_are_bounded_and_the_sums_are_whole() {
    let mut pipe = Pipe::new(1, SessionConfig { max_tags: 8, ..SessionConfig::default() });
    for number in 0..100 {
        let service = Service::ALL[number as usize % 4];
        pipe.send(0, Outgoing { tag: Some(Tag(number)), ..numbered(service, number, 50) });
        pipe.send(0, Outgoing { tag: Some(Tag(0)), ..numbered(service, number, 50) });
        pipe.settle();
    }
    let tags = pipe.ends[1].tag_stats();
    assert_eq!(tags.len(), 8);
    assert_eq!((tags[0].tag, tags[0].received, tags[0].received_bytes), (Tag(0), 101, 5050));
    assert!(tags[1..].iter().all(|tag| (tag.received, tag.received_bytes) == (1, 50)), "{tags:?}");
    assert_eq!(pipe.ends[1].stats().received, 200);
    assert_eq!(pipe.ends[0].tag_stats().len(), 8);
}

#[test]
fn lifetimes_end_waiting_and_flying_messages() {
    let mut pipe = Pipe { blackout: true, window: 4, ..Pipe::plain() };
    for number in 0..100 {
        let lifetime = (number % 2 == 0).then_some(Duration::from_millis(30));
        pipe.send(
            0,
            Outgoing {
                lifetime,
                tracked: true,
                payload: body(number, 1000),
                ..numbered(Service::ReliableSequenced, 0, 0)
            },
        );
    }
    pipe.run_for(Duration::from_millis(40));
    pipe.blackout = false;
    pipe.settle();
    assert_eq!(
        pipe.recv_all(1).iter().map(number_of).collect::<Vec<_>>(),
        (0..100).filter(|n| n % 2 == 1).collect::<Vec<_>>()
    );
    let expired = pipe.outcomes(0).iter().filter(|(_, what)| *what == Outcome::Expired).count();
    assert_eq!(expired, 50);
    pipe.settle();
    pipe.assert_credit_agrees();
    assert_eq!(pipe.ends[0].poll_timeout(), None);
}

#[test]
fn a_capped_tag_is_held_to_its_rate_and_holds_up_no_other() {
    let mut pipe = Pipe::plain();
    let settings = TagSettings { bandwidth: Some(10_000), ..TagSettings::default() };
    pipe.ends[0].tag_settings(Time::ZERO, S0, Tag(1), settings).unwrap();
    for number in 0..1000 {
        pipe.send(0, tagged(Service::ReliableUnsequenced, number, number % 2));
    }
    pipe.run_for(Duration::from_secs(1));
    let got: Vec<u64> = pipe.recv_all(1).iter().map(number_of).collect();
    let capped = got.iter().filter(|number| *number % 2 == 1).count();
    assert_eq!(got.len() - capped, 500);
    // The limit allows 10,000 bytes in the second, and a tenth of that as the first burst.
    assert!((95..=112).contains(&capped), "{capped}");
    pipe.settle();
    assert_eq!(pipe.recv_all(1).len(), 500 - capped);
}

#[test]
fn tag_settings_apply_to_messages_that_say_nothing() {
    let mut pipe = Pipe { blackout: true, ..Pipe::plain() };
    let settings =
        TagSettings { lifetime: Some(Duration::from_millis(20)), priority: Some(200), bandwidth: None };
    pipe.ends[0].tag_settings(Time::ZERO, S0, Tag(1), settings).unwrap();
    pipe.send(0, tagged(Service::ReliableUnsequenced, 0, 1));
    pipe.send(0, tagged(Service::ReliableUnsequenced, 1, 2));
    pipe.run_for(Duration::from_millis(25));
    pipe.blackout = false;
    pipe.settle();
    assert_eq!(pipe.recv_all(1).iter().map(number_of).collect::<Vec<_>>(), [1]);
    pipe.send(0, tagged(Service::ReliableUnsequenced, 2, 1));
    pipe.settle();
    assert_eq!(pipe.recv_all(1)[0].priority, 200);
}

#[test]
fn taken_when_the_application_says_so() {
    let mut pipe = Pipe::lossy(2);
    let ids: Vec<_> = (0..50)
        .map(|n| {
            pipe.send(
                0,
                Outgoing { confirm: true, tracked: true, ..numbered(Service::ReliableSequenced, n, 60) },
            )
        })
        .collect();
    pipe.settle();
    let got = pipe.recv_all(1);
    assert_eq!(pipe.outcomes(0), []);
    for message in got.iter().filter(|message| message.id % 2 == 0) {
        pipe.ends[1].confirm(message);
    }
    pipe.settle();
    let taken = pipe.outcomes(0);
    assert_eq!(taken.len(), 25);
    assert!(taken.iter().all(|(id, what)| ids.contains(id) && id.0 % 2 == 0 && *what == Outcome::Taken));
    pipe.ends[0].end();
    assert_eq!(pipe.outcomes(0).iter().filter(|(_, what)| *what == Outcome::Unknown).count(), 25);
}

#[test]
fn who_has_too_much_unconfirmed_hears_of_the_first_confirmation() {
    let mut pipe = Pipe::new(1, SessionConfig { max_unconfirmed: 2, ..SessionConfig::default() });
    let confirmed =
        |n| Outgoing { confirm: true, tracked: true, ..numbered(Service::ReliableSequenced, n, 60) };
    pipe.send(0, confirmed(0));
    pipe.send(0, confirmed(1));
    pipe.settle();
    assert!(matches!(pipe.ends[0].send(pipe.now, confirmed(2)), Err(SendError::QueueFull(_))));
    assert!(!pipe.ends[0].has_room(&confirmed(2)));
    let refused = pipe.ends[0].replace(pipe.now, S0, Tag(1), confirmed(2));
    assert!(matches!(refused, Err(SendError::QueueFull(_))));
    assert!(pipe.ends[0].has_room(&numbered(Service::ReliableSequenced, 2, 60)), "no confirmation asked");
    assert_eq!(pipe.ends[0].poll_event(), None);
    let got = pipe.recv_all(1);
    pipe.ends[1].confirm(&got[0]);
    pipe.settle();
    let events: Vec<_> = std::iter::from_fn(|| pipe.ends[0].poll_event()).collect();
    assert!(events.contains(&SessionEvent::Writable), "{events:?}");
    assert!(pipe.ends[0].has_room(&confirmed(2)));
    pipe.send(0, confirmed(2));
}

#[test]
fn the_end_leaves_no_outcome_open() {
    let mut pipe = Pipe { blackout: true, ..Pipe::plain() };
    for number in 0..200 {
        pipe.send(0, tagged(Service::ALL[number as usize % 4], number, 1));
    }
    pipe.run_for(Duration::from_millis(1));
    pipe.ends[0].end();
    let outcomes = pipe.outcomes(0);
    assert_eq!(outcomes.len(), 200);
    assert!(outcomes.iter().all(|(_, what)| *what == Outcome::Unknown));
    assert!(matches!(
        pipe.ends[0].send(pipe.now, numbered(Service::ReliableSequenced, 0, 8)),
        Err(SendError::Closed)
    ));
}

#[test]
fn a_tag_that_is_capped_later_holds_up_nothing_that_waits_with_it() {
    let mut pipe = Pipe { blackout: true, ..Pipe::plain() };
    for number in 0..1000 {
        let message = tagged(Service::ReliableUnsequenced, number, 1);
        pipe.send(0, if number % 2 == 1 { message } else { Outgoing { tag: None, ..message } });
    }
    let settings = TagSettings { bandwidth: Some(10_000), ..TagSettings::default() };
    pipe.ends[0].tag_settings(Time::ZERO, S0, Tag(1), settings).unwrap();
    pipe.blackout = false;
    pipe.run_for(Duration::from_secs(1));
    let got: Vec<u64> = pipe.recv_all(1).iter().map(number_of).collect();
    let capped = got.iter().filter(|number| *number % 2 == 1).count();
    assert_eq!(got.len() - capped, 500);
    assert!((1..=112).contains(&capped), "{capped}");
    assert!(pipe.ends[0].cancel(Time::ZERO, S0, Tag(1)) > 0, "they are found where they wait now");
    pipe.settle();
    let rest = pipe.recv_all(1).len();
    assert!(rest < 200, "{rest} of those cancelled came");
    assert_eq!(pipe.ends[0].stats().queue_messages, 0);
    pipe.assert_credit_agrees();
}
