//! Tests of a link over many packets of virtual time.

use super::*;

const PAYLOAD: usize = 1472;
const PACKET: u64 = 1500;

fn link(config: &str) -> Link {
    Link::new(config.parse().unwrap(), 7)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(duration: Duration) -> Time {
    Time::ZERO + duration
}

fn only(verdict: Verdict) -> Delivery {
    match verdict {
        Verdict::Delivered(delivery, None) => delivery,
        other => panic!("{other:?}"),
    }
}

/// Pushes a packet every `gap`, `count` times, and returns the arrivals.
fn stream(link: &mut Link, gap: Duration, count: u32) -> Vec<Delivery> {
    (0..count).flat_map(|i| link.push(at(gap * i), PAYLOAD, true).deliveries()).collect()
}

#[test]
fn a_perfect_wire_delivers_at_once() {
    let now = at(ms(3));
    assert_eq!(only(link("").push(now, 100, true)), Delivery { at: now, ce: false, flip: None });
}

#[test]
fn the_rate_is_exact_over_many_packets_that_do_not_divide_it() {
    for rate in [40_000, 999_983, 4_000_000, 100_000_007, 3_000_000_019] {
        let mut link = Link::new(
            LinkConfig {
                rate: Some(Rate::Constant(rate)),
                queue: QueueLimit::Unlimited,
                ..Default::default()
            },
            1,
        );
        let count = 100_000;
        let last = stream(&mut link, Duration::ZERO, count).pop().unwrap();
        let exact = u128::from(count) * u128::from(PACKET) * 8 * 1_000_000_000 / u128::from(rate);
        assert!(exact.abs_diff(u128::from(last.at.as_nanos())) <= 1, "{rate}");
    }
}

#[test]
fn a_rate_by_time_is_exact_across_its_steps() {
    let mut link = link("rate=trace:12mbit/10ms+0/5ms+1.2mbit/10ms, queue=none");
    let ends: Vec<_> = (0..22).map(|_| only(link.push(Time::ZERO, PAYLOAD, false)).at).collect();
    // Ten packets in the first step, none in the second, one in the third; then it repeats.
    assert_eq!((ends[9], ends[10], ends[11], ends[21]), (at(ms(10)), at(ms(25)), at(ms(26)), at(ms(50))));
    assert_eq!(link.backlog(Time::ZERO), ms(50));
    // A packet of 2 ms, whose transmission begins 1 ms before the rate falls to a tenth.
    let mut link = self::link("rate=trace:6mbit/10ms+600kbit/100ms");
    assert_eq!(only(link.push(at(ms(9)), PAYLOAD, false)).at, at(ms(20)));
}

#[test]
fn a_queue_in_bytes_counts_what_a_rate_by_time_lets_out() {
    let mut link = link("rate=trace:12mbit/1ms+1.2mbit/10ms, queue=3000b");
    assert_eq!(
        (0..3).filter(|_| matches!(link.push(Time::ZERO, PAYLOAD, false), Verdict::Delivered(..))).count(),
        2
    );
    // After 1 ms the first has left.
    assert!(matches!(link.push(at(ms(1)), PAYLOAD, false), Verdict::Delivered(..)));
    assert!(matches!(link.push(at(ms(1)), PAYLOAD, false), Verdict::Dropped(DropReason::QueueFull)));
}

#[test]
fn the_rate_counts_headers() {
    let mut link = link("rate=8mbit, overhead=48, queue=none");
    assert_eq!(only(link.push(Time::ZERO, 952, false)).at, at(ms(1)));
}

#[test]
fn an_offer_above_the_rate_gets_exactly_the_rate_and_the_rest_is_dropped_at_the_queue() {
    let mut link = link("rate=4mbit, queue=100ms");
    let arrivals = stream(&mut link, Duration::from_micros(1500), 20_000);
    let seconds = arrivals.last().unwrap().at.since(Time::ZERO).as_secs_f64();
    let rate = arrivals.len() as f64 * PACKET as f64 * 8.0 / seconds;
    assert!((rate / 4e6 - 1.0).abs() < 1e-6, "{rate}");
    assert_eq!(link.stats().queue_drops, 20_000 - arrivals.len() as u64);
    assert!(link.stats().queue_delay.max() <= ms(100));
    assert!(link.stats().queue_delay.quantile(0.95) > ms(95));
}

#[test]
fn an_offer_below_the_rate_never_waits() {
    let mut link = link("rate=4mbit, delay=25ms, queue=1b");
    let arrivals = stream(&mut link, ms(4), 1000);
    assert_eq!(arrivals.len(), 1000);
    assert!(arrivals.iter().zip(0..).all(|(arrival, i)| arrival.at == at(ms(4) * i + ms(28))));
    assert_eq!(link.stats().queue_delay.max(), Duration::ZERO);
}

#[test]
fn a_queue_in_bytes_holds_so_many_packets() {
    let mut link = link("rate=1mbit, queue=15000b");
    let burst: Vec<_> = (0..20).map(|_| link.push(Time::ZERO, PAYLOAD, false)).collect();
    assert!(burst[..10].iter().all(|verdict| matches!(verdict, Verdict::Delivered(..))));
    assert!(burst[10..].iter().all(|verdict| *verdict == Verdict::Dropped(DropReason::QueueFull)));
    // One packet's time later, there is room for one more.
    assert!(matches!(link.push(at(ms(12)), PAYLOAD, false), Verdict::Delivered(..)));
    assert_eq!(link.push(at(ms(12)), PAYLOAD, false), Verdict::Dropped(DropReason::QueueFull));
    assert_eq!(link.backlog(at(ms(12))), ms(120));
}

#[test]
fn independent_loss_is_as_frequent_as_asked_and_uses_the_rate() {
    for (text, probability) in [("1%", 0.01), ("5%", 0.05), ("20%", 0.2)] {
        let mut link = link(&format!("rate=100mbit, queue=none, loss={text}"));
        let count = 200_000;
        let arrivals = stream(&mut link, Duration::ZERO, count);
        let deviation = (probability * (1.0 - probability) / f64::from(count)).sqrt();
        let lost = link.stats().loss_drops as f64 / f64::from(count);
        assert!((lost - probability).abs() < 4.0 * deviation, "{text}: {lost}");
        assert_eq!(arrivals.len() as u64 + link.stats().loss_drops, u64::from(count));
        assert!(arrivals.last().unwrap().at.since(Time::ZERO) > Duration::from_micros(120) * (count - 200));
    }
}

#[test]
fn bursts_are_as_frequent_and_as_long_as_asked_whatever_the_pace() {
    for gap in [Duration::from_micros(500), ms(5)] {
        let mut link = link("loss=ge:950ms/50ms");
        let count = 2_000_000;
        let lost: Vec<bool> = (0..count)
            .map(|i| matches!(link.push(at(gap * i), PAYLOAD, false), Verdict::Dropped(_)))
            .collect();
        let share = lost.iter().filter(|lost| **lost).count() as f64 / f64::from(count);
        assert!((share - 0.05).abs() < 0.006, "{gap:?}: {share}");
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        let length = share * f64::from(count) * gap.as_secs_f64() / bursts;
        assert!((length - 0.05).abs() < 0.006, "{gap:?}: {length}");
    }
    assert!(("ge:950ms/50ms/50%/1%".parse::<Loss>().unwrap().mean() - 0.0345).abs() < 1e-9);
}

#[test]
fn nothing_crosses_a_scheduled_outage() {
    let mut link = link("delay=10ms, outage=at 1s for 500ms + at 2s for 1s");
    let arrivals = stream(&mut link, ms(10), 400);
    let gap = |from: u64, to: u64| {
        !arrivals.iter().any(|arrival| arrival.at >= at(ms(from + 10)) && arrival.at < at(ms(to + 10)))
    };
    assert!(gap(1000, 1500) && gap(2000, 3000));
    assert_eq!((arrivals.len(), link.stats().outage_drops), (250, 150));
}

#[test]
fn a_periodic_outage_takes_its_share() {
    let mut link = link("outage=5s on 2s off");
    stream(&mut link, ms(100), 700);
    assert_eq!(link.stats().outage_drops, 200);
    assert_eq!(link.push(at(ms(75_500)), 1, false), Verdict::Dropped(DropReason::Outage));
}

#[test]
fn an_exponential_outage_takes_its_share() {
    let mut link = link("outage=exp:4s/1s");
    stream(&mut link, ms(20), 1_000_000);
    let share = link.stats().outage_drops as f64 / 1e6;
    assert!((share - 0.2).abs() < 0.02, "{share}");
}

#[test]
fn what_waits_in_the_queue_when_the_link_goes_down_is_lost_as_it_leaves() {
    let mut link = link("rate=1mbit, queue=none, outage=at 50ms for 60ms");
    let fates: Vec<_> =
        (0..12).map(|_| matches!(link.push(Time::ZERO, PAYLOAD, false), Verdict::Delivered(..))).collect();
    // Packet i leaves at 12(i + 1) ms.
    let expected: Vec<_> = (1..=12).map(|i| !(50..110).contains(&(12 * i))).collect();
    assert_eq!(fates, expected);
}

#[test]
fn jitter_swings_the_delay_and_keeps_the_order() {
    let mut link = link("delay=50ms, jitter=20ms");
    let arrivals = stream(&mut link, ms(100), 10_000);
    let delays: Vec<_> =
        arrivals.iter().zip(0..).map(|(arrival, i)| arrival.at.since(at(ms(100) * i))).collect();
    assert!(delays.iter().all(|delay| (ms(30)..=ms(70)).contains(delay)));
    let mean = delays.iter().sum::<Duration>() / 10_000;
    assert!(mean.abs_diff(ms(50)) < ms(1), "{mean:?}");
    let dense = stream(&mut Link::new(link.config().clone(), 2), ms(1), 10_000);
    assert!(dense.is_sorted_by_key(|arrival| arrival.at));
}

#[test]
fn reordering_holds_back_only_those_it_picks() {
    let mut link = link("delay=5ms, reorder=10%, reorder_by=3ms");
    let arrivals = stream(&mut link, ms(1), 10_000);
    let late = arrivals.iter().zip(0..).filter(|(arrival, i)| arrival.at != at(ms(1) * *i + ms(5))).count();
    assert_eq!(late as u64, link.stats().reordered);
    assert!((800..1200).contains(&late), "{late}");
}

#[test]
fn duplicates_and_damage_are_as_frequent_as_asked() {
    let mut link = link("duplicate=10%, corrupt=10%");
    let arrivals = stream(&mut link, ms(1), 10_000);
    assert_eq!(arrivals.len() as u64, 10_000 + link.stats().duplicated);
    assert_eq!(
        arrivals.iter().filter(|arrival| arrival.flip.is_some()).count() as u64,
        link.stats().corrupted
    );
    assert!((800..1200).contains(&link.stats().duplicated) && (900..1350).contains(&link.stats().corrupted));
    for flip in arrivals.iter().filter_map(|arrival| arrival.flip) {
        let mut payload = [0; PAYLOAD];
        flip.apply(&mut payload);
        assert_eq!(payload.iter().filter(|byte| **byte != 0).count(), 1);
    }
}

#[test]
fn an_empty_payload_cannot_be_damaged() {
    assert_eq!(only(link("corrupt=100%").push(Time::ZERO, 0, false)).flip, None);
}

#[test]
fn the_mtu_counts_headers() {
    let mut link = link("mtu=1400");
    assert_eq!(link.push(Time::ZERO, 1373, false), Verdict::Dropped(DropReason::TooBig));
    assert!(matches!(link.push(Time::ZERO, 1372, false), Verdict::Delivered(..)));
}

#[test]
fn only_capable_packets_that_wait_are_marked() {
    let mut link = link("rate=1mbit, queue=none, ecn_mark=20ms");
    let marks: Vec<_> = (0..4).map(|_| only(link.push(Time::ZERO, PAYLOAD, true)).ce).collect();
    assert_eq!(marks, [false, false, true, true]);
    assert!(!only(link.push(Time::ZERO, PAYLOAD, false)).ce);
}

#[test]
fn the_same_seed_gives_the_same_fates_and_another_seed_others() {
    let run = |seed| {
        let config =
            "rate=10mbit, jitter=3ms, loss=10%, reorder=1%, duplicate=1%, corrupt=1%".parse().unwrap();
        stream(&mut Link::new(config, seed), ms(1), 1000)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn the_two_directions_of_a_link_share_its_outages_but_not_its_losses() {
    let fates = |config: &str| {
        let config: LinkConfig = config.parse().unwrap();
        Link::pair(config.clone(), config, 7)
            .map(|mut link| (0..2000).map(|i| link.push(at(ms(10) * i), 100, false)).collect::<Vec<_>>())
    };
    let [up, down] = fates("outage=exp:2s/1s");
    assert!(up == down && up.contains(&Verdict::Dropped(DropReason::Outage)));
    let [up, down] = fates("loss=20%");
    assert_ne!(up, down);
}

#[test]
fn losses_do_not_depend_on_the_other_settings() {
    let lost = |config: &str| {
        let mut link = link(config);
        (0..1000)
            .map(|i| link.push(at(ms(1) * i), 100, false) == Verdict::Dropped(DropReason::Loss))
            .collect::<Vec<_>>()
    };
    assert_eq!(lost("loss=10%"), lost("loss=10%, jitter=5ms, duplicate=10%, delay=10ms"));
}

#[test]
fn a_link_can_change_under_way() {
    let mut link = link("delay=10ms");
    link.push(Time::ZERO, 100, false);
    link.reconfigure("delay=1ms".parse().unwrap());
    assert_eq!(only(link.push(Time::ZERO, 100, false)).at, at(ms(10)), "still in order");
    assert_eq!(only(link.push(at(ms(20)), 100, false)).at, at(ms(21)));
}

/// The text form refuses these settings, but code can build them.
#[test]
fn settings_without_any_time_end() {
    let (none, loss) = (Duration::ZERO, 0.5);
    let bursts = Loss::Bursts { good: none, bad: none, loss_bad: loss, loss_good: loss };
    let outage = Outage::Exponential { on: none, off: none };
    for config in
        [LinkConfig { loss: bursts, ..Default::default() }, LinkConfig { outage, ..Default::default() }]
    {
        let mut link = Link::new(config, 1);
        let now = at(Duration::from_micros(50));
        let arrived = (0..100).filter(|_| link.push(now, PAYLOAD, false).deliveries().count() > 0).count();
        assert!(arrived <= 100);
        assert_eq!(link.stats().offered, 100, "{:?}", link.stats());
    }
}

#[test]
fn what_would_arrive_in_a_suspension_arrives_at_its_end() {
    let mut link = Link::new("delay=10ms, hold=150ms every 1s".parse().unwrap(), 1);
    let mut arrives = |ms: u64| {
        let at = Time::ZERO + Duration::from_millis(ms);
        link.push(at, 100, false).deliveries().next().unwrap().at.since(Time::ZERO).as_millis()
    };
    assert_eq!(arrives(0), 10);
    assert_eq!(arrives(839), 849, "just before it");
    assert_eq!(arrives(840), 1_000, "it begins");
    assert_eq!(arrives(985), 1_000, "all at once");
    assert_eq!(arrives(990), 1_000);
    assert_eq!(arrives(1_000), 1_010);
}

#[test]
fn a_policer_lets_its_rate_through_and_has_no_queue() {
    // 125,000 bytes a second, and 10 packets at once.
    let mut link = Link::new("delay=5ms, police=1mbit/10000b".parse().unwrap(), 1);
    let mut passed = 0;
    for ms in 0..10_000 {
        let at = Time::ZERO + Duration::from_millis(ms);
        for _ in 0..2 {
            if let Some(delivery) = link.push(at, 972, false).deliveries().next() {
                assert_eq!(delivery.at, at + Duration::from_millis(5), "nothing waits");
                passed += 1;
            }
        }
    }
    assert_eq!(
        passed,
        1_250 + 9,
        "the bucket is full at first, and one packet of its size is gained while it empties"
    );
    assert_eq!(link.stats().policed, 20_000 - passed);
}

#[test]
fn bursts_by_the_clock_come_at_the_end_of_each_time() {
    let mut link = Link::new("loss=clock:2s/150ms".parse().unwrap(), 1);
    let lost: Vec<u64> = (0..6_000)
        .filter(|ms| {
            link.push(Time::ZERO + Duration::from_millis(*ms), 100, false).deliveries().next().is_none()
        })
        .collect();
    let expected: Vec<u64> = [1_850..2_000, 3_850..4_000, 5_850..6_000].into_iter().flatten().collect();
    assert_eq!(lost, expected);
}

#[test]
fn a_range_of_reordering_is_drawn_from() {
    let mut link = Link::new("delay=50ms, reorder=100%, reorder_by=10ms..30ms".parse().unwrap(), 1);
    let held: Vec<u128> = (0..1_000)
        .map(|ms| {
            let at = Time::ZERO + Duration::from_millis(ms);
            link.push(at, 100, false).deliveries().next().unwrap().at.since(at).as_millis()
        })
        .collect();
    assert!(held.iter().all(|held| (60..=80).contains(held)), "{held:?}");
    assert!(held.contains(&61) && held.contains(&78), "all of the range is used");
}
