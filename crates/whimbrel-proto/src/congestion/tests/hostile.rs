//! Tests that no sample, however absurd, makes a controller panic, stop or overflow.

use std::time::Duration;

use super::link::Dice;
use crate::Time;
use crate::congestion::{AckSample, Congestion, Pacer, RateSample, RateSampler, Remembered};

/// Returns zero, a small, an ordinary, a huge or the largest number.
fn any(dice: &mut Dice) -> u64 {
    match dice.next() % 6 {
        0 => 0,
        1 => 1,
        2 => dice.next() % 2000,
        3 => dice.next() % 1_000_000_000,
        4 => dice.next(),
        _ => u64::MAX,
    }
}

fn any_span(dice: &mut Dice) -> Duration {
    Duration::from_nanos(any(dice))
}

fn any_sample(dice: &mut Dice, now: Time) -> AckSample {
    AckSample {
        now,
        acked: any(dice),
        lost: any(dice),
        in_flight: any(dice),
        prior_in_flight: any(dice),
        rtt: Some(any_span(dice)),
        srtt: any_span(dice),
        min_rtt: any_span(dice),
        rate: RateSample {
            progress: any(dice),
            delivered: any(dice),
            send_limited: dice.permille(500),
            app_limited: dice.permille(500),
            since: Time::from_nanos(any(dice)),
            newest: any(dice),
            sent: any(dice),
        },
        largest_sent_at: Time::from_nanos(any(dice)),
        ecn_ce: any(dice),
    }
}

#[test]
fn controllers_survive_anything() {
    for kind in [Congestion::Gauge, Congestion::Cubic, Congestion::Fixed { bytes_per_s: 0 }] {
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let mut controller = kind.build(any(&mut dice), Time::ZERO);
            let mut now = Time::ZERO;
            for _ in 0..100 {
                // Time may stand still, and may even turn back.
                now = if dice.permille(20) {
                    Time::from_nanos(any(&mut dice))
                } else {
                    now + any_span(&mut dice)
                };
                match dice.next() % 8 {
                    0 => controller.on_sent(now, any(&mut dice), any(&mut dice)),
                    1 => controller.on_loss(now, any(&mut dice), any(&mut dice), dice.permille(300)),
                    2 => controller.on_spurious_loss(now, any(&mut dice)),
                    3 => controller.on_restart(now),
                    4 => controller.set_packet_size(any(&mut dice)),
                    5 => controller.recall(Remembered { rate: any(&mut dice), rtt: any_span(&mut dice) }),
                    _ => controller.on_ack(&any_sample(&mut dice, now)),
                }
                assert!(controller.pacing_rate() > 0 && controller.window() > 0, "{controller:?}");
                let _state = controller.state();
            }
        }
    }
}

#[test]
fn sampler_survives_anything() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let mut sampler = RateSampler::new();
        let mut snapshots = Vec::new();
        for _ in 0..100 {
            let now = Time::from_nanos(any(&mut dice));
            match dice.next() % 4 {
                0 => snapshots.push(sampler.on_sent(now, any(&mut dice), any(&mut dice))),
                1 => sampler.on_app_limited(any(&mut dice)),
                2 => {
                    if let Some(snapshot) = snapshots.pop() {
                        sampler.on_acked(now, Time::from_nanos(any(&mut dice)), any(&mut dice), &snapshot);
                    }
                }
                _ => {
                    sampler.finish(now);
                }
            }
        }
    }
}

#[test]
fn pacer_keeps_the_rate_through_late_timers() {
    for rate in [500_000u64, 2_500_000, 12_500_000] {
        let (mut pacer, mut now, mut sent) = (Pacer::new(1500), Time::ZERO, 0);
        while now < Time::from_nanos(10_000_000_000) {
            let ready = pacer.ready_at(now, 1500);
            if ready > now {
                // The next millisecond's tick, at the earliest one tick away.
                now = Time::from_nanos((ready.as_nanos() / 1_000_000 + 1) * 1_000_000);
            }
            pacer.on_sent(now, 1500, rate);
            sent += 1500;
        }
        let reached = sent / 10;
        assert!(reached > rate * 99 / 100 && reached <= rate * 101 / 100 + 1500, "{reached} of {rate}");
    }
}

#[test]
fn pacer_is_no_limit_on_fast_links() {
    // 15 Gbit/s, woken once a millisecond.
    let rate = 1_875_000_000;
    let (mut pacer, mut sent) = (Pacer::new(1500), 0u64);
    for tick in 0..100 {
        let now = Time::from_nanos(tick * 1_000_000);
        while pacer.ready_at(now, 1500) == now {
            pacer.on_sent(now, 1500, rate);
            sent += 1500;
        }
    }
    assert!(sent * 10 >= rate * 98 / 100, "{sent}");
}

#[test]
fn little_to_send_does_not_slow_what_follows() {
    let rtt = Duration::from_millis(50);
    let mut controller = Congestion::Gauge.build(1500, Time::ZERO);
    controller.on_rtt(Time::ZERO, rtt);
    let initial = controller.pacing_rate();
    let mut sampler = RateSampler::new();
    for n in 0..200u64 {
        // 100 packets a second, each acknowledged alone.
        let now = Time::from_nanos(n * 10_000_000);
        let snapshot = sampler.on_sent(now, 0, 200);
        sampler.on_app_limited(200);
        controller.on_sent(now, 200, 0);
        let acked = now + rtt;
        sampler.on_acked(acked, now, 200, &snapshot);
        let mut sample = any_sample(&mut Dice(n), acked);
        sample =
            AckSample { acked: 200, lost: 0, in_flight: 0, prior_in_flight: 200, rtt: Some(rtt), ..sample };
        sample = AckSample {
            srtt: rtt,
            min_rtt: rtt,
            rate: sampler.finish(acked),
            largest_sent_at: now,
            ..sample
        };
        controller.on_ack(&AckSample { ecn_ce: 0, ..sample });
    }
    assert!(controller.pacing_rate() >= initial, "{controller:?}");
    assert!(controller.window() >= 32 * 1500);
}
