use serde_json::{Value, json};

use super::*;

pub(in crate::top) fn report(service: &str, more: Value, sessions: Value) -> StatusReport {
    let report = json!({
        "service": service, "version": "0.1.0", "pid": 42, "uptime_s": 75.0,
        "public_key": whimbrel::new_identity().public().to_string(), "address": "127.0.0.1:4433",
        "sessions": sessions, "more": more,
    });
    serde_json::from_value(report).unwrap()
}

/// A broker with so many subscribers, the first of which are slow.
pub(in crate::top) fn broker(subscribers: usize, slow: usize) -> StatusReport {
    let subscriber = |at: usize| {
        let is_slow = at < slow;
        json!({
            "client": format!("client{at}"), "filter": "prices/#", "kind": "semi-durable", "slow": is_slow,
            "slow_s": is_slow.then_some(7.0), "lag": if is_slow { 900 } else { at }, "delivered_per_s": 10.0 * at as f64,
        })
    };
    let list: Vec<Value> = (0..subscribers).map(subscriber).collect();
    let partitions = json!([{ "messages": 500, "room": 1000, "overwritten": 3, "oldest_s": 12.5 }]);
    let channels = json!([{ "name": "all", "arrived_per_s": 250.0, "delivered_per_s": 5000.0, "partitions": partitions }]);
    let brokers = json!([
        { "name": "b2", "linked": true, "state": "linked", "linked_s": 60.0, "rtt_ms": 2.5, "behind": 3, "address": "127.0.0.1:9" },
        { "name": "b3", "linked": false, "state": "waiting", "away_s": 7.0, "next_attempt_s": 0.5, "trouble": "no answer from b3:4433: is it there?" },
    ]);
    let more = json!({
        "name": "b1", "subscriptions": subscribers, "linked": 1, "channels": channels, "brokers": brokers,
        "subscribers": { "slow": slow, "list": list, "rest": { "number": 5 } },
    });
    report("broker", more, json!([]))
}

fn session(sent_bytes: u64, state: &str) -> Value {
    let path = json!({
        "id": 0, "state": "active", "primary": true, "local": "127.0.0.1", "remote": "127.0.0.1:9", "rtt_ms": 20.5, "loss": 0.125,
        "rate": 125_000, "mtu": 1400, "sent_bytes": 0, "received_bytes": 0,
    });
    json!({
        "peer": null, "address": "127.0.0.1:9", "state": state, "silent_s": 0.1, "sent_bytes": sent_bytes, "received_bytes": 0,
        "sent_messages": 0, "received_messages": 0, "queue_bytes": 0, "unread_messages": 0, "paths": [path],
    })
}

pub(in crate::top) fn model_of(looked: Vec<(&str, Result<StatusReport, String>)>) -> Model {
    let mut model = Model::new();
    for (control, looked) in looked {
        model.watch(Path::new(control));
        model.take(Path::new(control), Duration::from_secs(1), looked);
    }
    model
}

fn texts(sheet: &Sheet) -> Vec<Vec<&str>> {
    sheet.rows.iter().map(|row| row.cells.iter().map(|cell| cell.text.as_str()).collect()).collect()
}

#[test]
fn the_overview_has_a_row_for_each_service_and_says_what_is_wrong() {
    let flows = json!({ "running": 2, "list": [{ "protocol": "tcp", "target": "web:443", "peer": "home", "state": "running" }] });
    let more = json!({ "peers": [{ "name": "home", "state": "connected" }], "flows": flows });
    let proxy = report("proxy", more, json!([session(0, "connected")]));
    let mut model = model_of(vec![
        ("/run/a.sock", Ok(broker(3, 1))),
        ("/run/b.sock", Ok(proxy)),
        ("/run/c.sock", Err("no service answers".to_owned())),
    ]);
    let sheet = model.sheet();
    let alarms: Vec<bool> = sheet.rows.iter().map(|row| row.is_alarm).collect();
    assert_eq!(alarms, [true, false, true]);
    let rows = texts(&sheet);
    assert_eq!(rows[0], ["a.sock", "broker", "75 s", "0", "250/s", "5.00 k/s", "1 slow of 3, 1/2 linked"]);
    assert_eq!(rows[1][6], "2 flows, 1/1 peers");
    assert_eq!(rows[2][6], "no service answers");
    model.handle(Wish::NextView);
    let sheet = model.sheet();
    assert_eq!(
        texts(&sheet)[0],
        ["a.sock", "all 0", "50 % full", "250/s", "5.00 k/s", "3 overwritten, oldest 12.50 s"]
    );
    assert_eq!(texts(&sheet)[1][..3], ["b.sock", "tcp web:443", "running"]);
    // What was known of a service stays when it does not answer, with the reason.
    model.take(Path::new("/run/a.sock"), Duration::from_secs(2), Err("it is gone".to_owned()));
    model.handle(Wish::View(View::Overview));
    assert_eq!(texts(&model.sheet())[0][5..], ["5.00 k/s", "it is gone"]);
    model.forget(Path::new("/run/a.sock"));
    assert_eq!(model.sheet().rows.len(), 2);
}

#[test]
fn brokers_that_are_not_linked_come_first_with_the_reason() {
    let mut model = model_of(vec![("/run/a.sock", Ok(broker(3, 0)))]);
    model.handle(Wish::View(View::Brokers));
    let sheet = model.sheet();
    let why = "not linked for 7.00 s: no answer from b3:4433: is it there?; the next attempt is in 500.00 ms";
    assert_eq!(
        texts(&sheet),
        [
            ["a.sock", "b3", "-", "-", "-", why],
            ["a.sock", "b2", "127.0.0.1:9", "2.50 ms", "3", "linked for 60.00 s"],
        ]
    );
    assert!(sheet.rows[0].is_alarm && !sheet.rows[1].is_alarm);
}

#[test]
fn rates_come_from_two_reports_of_one_process() {
    let perf = |sent| report("perf serve", json!({ "measurements": 1 }), json!([session(sent, "connected")]));
    let mut model = model_of(vec![("/run/p", Ok(perf(1_000)))]);
    let sent = |model: &Model| model.sheet().rows[0].cells[5].text.clone();
    assert_eq!(sent(&model), "-");
    model.take(Path::new("/run/p"), Duration::from_secs(3), Ok(perf(251_000)));
    assert_eq!(sent(&model), "1.00 Mbit/s");
    // Sessions that ended take their sums along.
    model.take(Path::new("/run/p"), Duration::from_secs(4), Ok(perf(0)));
    assert_eq!(sent(&model), "0 bit/s");
    model.handle(Wish::View(View::Paths));
    let path = [
        "p",
        "127.0.0.1:9",
        "127.0.0.1 - 127.0.0.1:9",
        "active, primary",
        "20.50 ms",
        "12.5 %",
        "1.00 Mbit/s",
    ];
    assert_eq!(texts(&model.sheet())[0], path);
}

#[test]
fn views_are_sorted_by_each_column_in_turn_and_the_worst_are_first_otherwise() {
    let mut model = model_of(vec![("/run/a", Ok(broker(12, 0))), ("/run/b", Ok(broker(3, 2)))]);
    model.handle(Wish::View(View::Subscribers));
    let column = |model: &Model, at: usize| -> Vec<String> {
        model.sheet().rows.iter().map(|row| row.cells[at].text.clone()).collect()
    };
    assert_eq!(column(&model, 4)[..3], ["900", "900", "0"], "the slow ones of any broker");
    assert_eq!(model.sheet().more, "and 10 more that lag less");
    (0..5).for_each(|_| model.handle(Wish::Sort));
    assert_eq!(model.sorting(), Some((4, false)));
    assert_eq!(column(&model, 4)[..4], ["900", "900", "11", "10"], "numbers, not texts");
    model.handle(Wish::Reverse);
    assert_eq!(column(&model, 4)[..3], ["0", "1", "2"]);
    (0..3).for_each(|_| model.handle(Wish::Sort));
    assert_eq!(model.sorting(), None);
    // Scrolling ends with the last row.
    model.handle(Wish::Scroll(1_000));
    assert_eq!(model.scrolled(), 14);
    model.handle(Wish::Scroll(-1_000));
    assert_eq!(model.scrolled(), 0);
}
