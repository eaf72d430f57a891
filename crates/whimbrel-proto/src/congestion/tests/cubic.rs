//! Tests that CUBIC behaves like TCP: well enough to be compared with and to be chosen.

use std::time::Duration;

use super::link::Link;
use super::world::{Flow, World, jain};
use crate::congestion::Congestion;

const SPAN: Duration = Duration::from_secs(20);

#[test]
fn clean_link_is_filled() {
    let world = World::run(&Link::new(10_000_000, 40, 40, 0), &[Flow::bulk(Congestion::Cubic)], SPAN, 1);
    assert!(world.goodput(SPAN) > 0.97, "{:.3}", world.goodput(SPAN));
    assert!(world.drop_share() < 0.01);
}

#[test]
fn loss_is_taken_for_congestion() {
    let world = World::run(&Link::new(10_000_000, 40, 40, 20), &[Flow::bulk(Congestion::Cubic)], SPAN, 1);
    assert!(world.goodput(SPAN) < 0.6, "{:.3}", world.goodput(SPAN));
}

#[test]
fn two_flows_share() {
    let flows = [Flow::bulk(Congestion::Cubic); 2];
    let world = World::run(&Link::new(10_000_000, 40, 40, 0), &flows, SPAN * 3, 1);
    let shares = world.delivered(SPAN, SPAN * 3);
    assert!(jain(&shares) > 0.9, "{shares:?}");
}

#[test]
fn fixed_sends_at_its_rate() {
    let kind = Congestion::Fixed { bytes_per_s: 250_000 };
    let world = World::run(&Link::new(4_000_000, 50, 100, 100), &[Flow::bulk(kind)], SPAN, 1);
    let rate = world.bottleneck.passed as f64 / (SPAN.as_secs_f64() - 0.05);
    assert!((245e3..255e3).contains(&rate), "{rate}");
}
