//! The settings of a run.

use std::time::Duration;

use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::{CostPolicy, PrimaryRule, Scheduling, TransportConfig};

use super::dice::Dice;
use super::operation::DEAR;

pub(super) fn settings(dice: &mut dyn Dice) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.idle_timeout = Duration::from_secs(60);
    config.reattach = Some(Duration::from_secs(60));
    let session = &mut config.session;
    session.cross_sequencing = dice.chance(25);
    if dice.chance(40) {
        session.session_window = dice.below(400_000).into();
        session.stream_window = 262_144;
    }
    if dice.chance(30) {
        session.send_queue_messages = dice.between(1, 200) as usize;
        session.send_queue_bytes = dice.between(1_000, 300_000).into();
        session.stream_send_buffer = dice.between(100, 100_000).into();
        if session.send_queue_messages % 2 == 0 {
            // Each session and stream buffers what it is assured of.
            config.send_budget = 0;
        }
    }
    if dice.chance(30) {
        let longest = if dice.chance(50) { 10 } else { 300 };
        session.gap_wait = Duration::from_millis(dice.between(1, longest).into());
    }
    session.max_streams = [2, 8, 128][dice.below(3) as usize];
    if dice.chance(50) {
        config.key_update_packets = dice.between(10, 200).into();
    }
    config.repeats = match dice.below(3) {
        0 => whimbrel_proto::Repeats::Adaptive,
        other => whimbrel_proto::Repeats::Fixed(other as u8 - 1),
    };
    config.congestion = match dice.below(5) {
        0..3 => Congestion::Gauge,
        3 => Congestion::Cubic,
        // More than some links carry, and enough to send everything queued in time.
        _ => Congestion::Fixed { bytes_per_s: dice.between(300_000, 1_000_000).into() },
    };
    config.scheduler = match dice.below(4) {
        0 | 1 => Scheduling::Aggregate,
        2 => Scheduling::Primary,
        _ => Scheduling::Redundant,
    };
    config.primary_rule = if dice.chance(70) { PrimaryRule::LossAndRtt } else { PrimaryRule::MostReceived };
    config.cost_policy = match dice.below(4) {
        0 => CostPolicy::Ignore,
        1 => CostPolicy::NeverAbove(DEAR),
        _ => CostPolicy::CheapFirst,
    };
    config
}
