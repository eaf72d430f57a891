//! Faults that random operations once found.

fn play(tape: &str) {
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// The server was resumed at another address, and data went over the second network, which the client then left. When
/// everything went dark, the client dialled where that path had led and the server's first address, but not where its
/// other path led.
#[test]
fn regression_the_peer_is_dialled_wherever_a_path_led_to() {
    let tape = "kind operations\n\
        seed 1000134528\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 84 0 6\n\
        operation 60 88 0 0 0 0 50 0 0 25\n\
        operation 0 84 0 5\n\
        operation 0 88 0 0 0 30 8\n\
        finale 0 0";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// The client left a network and returned to it. Its NAT on the other rebound at once, while the server had a new
/// address as well. The client's last id was on a path that could not work, while the only working address pair would
/// have needed another id.
#[test]
fn regression_the_last_id_is_not_kept_for_a_path_that_cannot_work() {
    let tape = "kind operations\n\
        seed 9000000000046675\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 84 0 12 0\n\
        operation 0 92 22\n\
        operation 0 84 0 5\n\
        operation 0 92 2\n\
        operation 0 82\n\
        finale 0 60 50";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// A fault of the checker: unread messages of a released stream keep their own arrival times, whenever the common
/// queue was last empty.
#[test]
fn regression_what_was_unread_when_its_stream_was_released_is_not_late() {
    let tape = "kind operations\n\
        seed 5000000115971\n\
        begin 0 0 0 30 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 84 0 6\n\
        operation 60 53 0 0 30 50 50 0 0\n\
        operation 60 0 20 0 0 60 1 0 40 0 25 0 0\n\
        operation 0 80 23\n\
        operation 0 0 0 1 0 0 60 1 0 40 0 25 0 0\n\
        operation 0 0 20 0 0 60 1 1 40 60 0 0 1 0 0\n\
        operation 60 71 30 0\n\
        operation 60 56 1\n\
        operation 0 88 0 1870 0 30 6 0\n\
        operation 60 57 70 1\n\
        finale 0 0";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// Data waited through an outage of seconds, then both NATs rebound. The server followed, but the tail probes had
/// gone to the old address and the next were seconds away, while the client's reports kept arriving. It took half a
/// minute instead of a round trip.
#[test]
fn regression_a_path_that_moved_is_probed_at_once() {
    let tape = "kind operations\n\
        seed 5000000319071\n\
        begin 0 40 30 30 0 0 0 0 0 0 0 0 0 5 2 0 51 0 0 50 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 25 0 10 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 75\n\
        operation 0 80 3350\n\
        operation 0 83 38\n\
        operation 60 82\n\
        operation 0 82\n\
        finale 0 0";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// The answer that proved the client's address on its second path was delayed until recovery had forgotten its
/// packet. So the client never knew that the server might send there. It did not report that it had closed the first
/// path, and the server probed that for ever.
#[test]
fn regression_an_answer_that_was_held_up_proves_an_address() {
    play(
        "kind operations\n\
        seed 9000000000133284\n\
        begin 0 40 30 30 0 0 25 0 4 209878 0 0 0 46 1 2 0 69 0 0 0 0 0 0 15 0 0 0 40 0 25 0 0 0 10\n\
        operation 0 75\n\
        operation 0 84 0 12 0\n\
        operation 0 99 0\n\
        operation 0 89 0 12 0 1 192 102 25\n\
        operation 0 92 0\n\
        operation 0 83 75\n\
        operation 0 89 0 16 622 0 0\n\
        operation 60 82\n\
        operation 0 82\n\
        finale 0 0",
    );
}

/// A fault of the checker: a copy of SUSPEND arrived after the client was back, and before the client had shown that
/// it was.
#[test]
fn regression_a_server_that_waits_prefers_no_path() {
    play(
        "kind operations\n\
        seed 9000000000098369\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 89 0 6 0 0 3 4 0\n\
        operation 0 84 60 11 0\n\
        finale 0 0",
    );
}

/// The server left a network, and its NAT on the other rebound before it had proven the client's address there. The
/// client had closed the path on the first network, and could not report it. The server took answers from there for a
/// working path, and neither found the other again.
#[test]
fn regression_a_path_is_kept_until_the_peer_may_send_on_another() {
    play(
        "kind operations\n\
        seed 9000000000162385\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 60 82\n\
        operation 0 76 1 70 85 0 60 0 0 25 15 20 15 10 0\n\
        operation 0 84 0 12 0\n\
        operation 0 83 0\n\
        operation 0 84 60 5\n\
        operation 0 83 0\n\
        finale 0 60 50",
    );
}

/// The client left a network and returned to it, while the server's NAT on the other rebound. The client had closed
/// its path there and could not report it. The server took answers from there for a working path, and neither found
/// the other again.
#[test]
fn regression_a_closed_path_is_tried_again_where_the_peer_goes_on() {
    play(
        "kind operations\n\
        seed 1000248371\n\
        begin 48 73 71 68 1 29 49 0 0 1 49 1 70 0 3 31 38 7 23 45 133 88 3 1 39 0 65 92 63 48 29 86 76 45 3 86 6703 84 3 3 37 1 17 13 381 62 48 69 76 72 99 0 45\n\
        operation 5 94 54\n\
        operation 60 0 20 80 4697 40 0 73 76 91 84 30 1 29\n\
        operation 0 92 7\n\
        operation 0 0 0 28 15 289 0 2 0 0 60 101 25 0 0 0\n\
        operation 0 84 0 6\n\
        operation 0 0 0 24 15 231 0 0 40 0 25 0 10 0\n\
        operation 0 80 3864\n\
        operation 0 92 43\n\
        operation 0 92 54\n\
        operation 0 88 0 1034 0 0 0 0 0 0\n\
        operation 0 80 1307\n\
        operation 0 92 8\n\
        operation 0 76 1 0 19 0 0 0 40 25 15 20 0 0 10 0\n\
        operation 0 84 0 8 1 0 0\n\
        operation 0 92 40\n\
        operation 0 82\n\
        operation 0 92 36\n\
        operation 0 76 2 0 28 99 0 0 40 25 0 0 20 15 10 0\n\
        operation 60 85 0 7 3 0 0 0 0 40 0 25 0 10\n\
        operation 0 92 51\n\
        operation 0 0 0 24 60 493 0 1 40 0 25 0 0 0\n\
        operation 0 85 75 0 3 1 0 0 60 0 0 40 0 25 0 0\n\
        operation 0 0 20 0 0 60 0 0 0 0 0 25 0 0\n\
        operation 60 85 75 0 1 4 0 0 60 0 0 40 0 25 0 0\n\
        operation 0 82\n\
        operation 0 76 1 0 0 0 60 40 25 15 0 0 15 10 0\n\
        operation 0 84 0 5\n\
        operation 0 92 30\n\
        operation 0 76 0 70 107 0 0 13 40 25 15 0 4 15 10 0\n\
        operation 0 92 25\n\
        operation 60 0 0 0 0 0 0 0 0 0 0 25 0 0\n\
        operation 0 83 73\n\
        operation 0 84 60 5\n\
        operation 0 80 99\n\
        operation 0 99 0\n\
        finale 0 60 50",
    );
}

/// CLOSE_PATH was in flight on a slow link when the client used the path again. Its arrival closed the path only at
/// the server. The client acknowledged the server's FIN-ACK on that path and nowhere else.
#[test]
fn regression_a_closing_that_arrives_when_the_path_is_used_again() {
    play(
        "kind operations\n\
        seed 9000000000112377\n\
        begin 0 40 30 30 0 0 0 0 4 35304 0 19 1 40 10 1 3 27 6 24 98 18202 20 1 24 2 65 93 55 94 2 23 52\n\
        operation 0 92 42\n\
        operation 0 84 0 12 0\n\
        operation 0 80 99\n\
        operation 0 76 0 70 99 0 60 40 25 15 20 0 0 10 0\n\
        operation 60 82\n\
        operation 0 0 20 80 1834 0 0 40 60 0 25 0 0 0\n\
        operation 0 84 0 5\n\
        operation 0 92 51\n\
        operation 0 92 30\n\
        finale 0 0",
    );
}

/// The NATs of both ends rebound, one after the other. Of two paths between the same addresses, only one had shown it
/// in between. On the other, each end kept sending to the peer's former address.
#[test]
fn regression_where_one_path_shows_that_the_peer_moved_the_others_look_there_too() {
    play(
        "kind operations\n\
        seed 9000000000054471\n\
        begin 0 40 30 30 0 50 0 0 2 0 0 4 0 0 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 0 0 0 0 0 0 0 40 60 0 25 0 0\n\
        operation 0 80 54\n\
        operation 0 92 17\n\
        operation 0 80 39\n\
        operation 0 89 0 6 1 0 0 4 30\n\
        operation 60 82\n\
        operation 0 82\n\
        finale 0 0",
    );
}

/// The client's NAT rebound after packets that an attacker had held made its round trip seem to be seconds. The server's
/// SACKs had gone to the address before, and were not said again where the client was: it waited for a timer as long as
/// that round trip.
#[test]
fn regression_sacks_are_said_again_where_the_peer_is_now() {
    play(
        "kind operations\n\
        seed 9000000000178989\n\
        begin 0 0 0 0 14 75172 46227 58 1 70 1 2 3 21 3 28 13 2 36 26 64 71 65 35 1 69 69 125 25 49 9 8 57 55 41 28\n\
        operation 0 0 0 0 0 0 0 0 40 0 25 0 0\n\
        operation 0 89 0 12 2 0 914 500 0\n\
        operation 0 80 800\n\
        operation 0 0 20 0 0 60 0 0 0 0 60 0 25 0 0\n\
        operation 0 99 2\n\
        operation 0 99 0\n\
        operation 0 99 0\n\
        operation 0 0 20 0 0 0 0 40 60 0 25 0 0\n\
        operation 0 80 3240\n\
        operation 0 0 0 13 80 1958 60 0 0 0 0 60 0 25 0 0 0\n\
        operation 0 80 3200\n\
        operation 0 99 0\n\
        operation 0 89 0 6 1 0 2 27 0\n\
        operation 0 80 1590\n\
        operation 0 82\n\
        finale 0 0",
    );
}

/// The client aimed a path at another network under the same id. The server followed it there, and the server's packets
/// from before then made the client follow the server back: each went where the other had just left, without end.
#[test]
fn regression_a_client_that_aims_a_path_elsewhere_is_not_drawn_back() {
    play(
        "kind operations\n\
        seed 5000000009388\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 60 88 0 0 0 30 0 0 25\n\
        operation 0 76 1 0 26 0 60 40 25 0 0 20 15 10 0\n\
        operation 0 82\n\
        operation 0 84 60 5\n\
        operation 0 85 0 6 5 0 0 0 0 0 0 0 25 0 0\n\
        operation 0 80 1743\n\
        operation 0 99 28\n\
        operation 0 92 37\n\
        operation 0 80 2210\n\
        operation 0 89 0 6 1 0 0 0 30\n\
        finale 0 0",
    );
}

/// An attacker held a SUSPEND back that the server never got, until the client was on its way back. The server waited,
/// and moved before the client's first packet: the client gave up, and the server went on waiting, as it should.
#[test]
fn regression_a_suspension_that_is_heard_late_leaves_nobody_but_who_waits() {
    play(
        "kind operations\n\
        seed 5000000235298\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 89 0 6 0 0 3 4 0\n\
        finale 0 60 50",
    );
}

/// The client used a closed path again after its CLOSE_PATH had arrived. The server had forgotten the path and answered
/// with a stateless reset, which must not count there.
#[test]
fn regression_a_reset_on_a_path_used_again_does_not_end_the_connection() {
    play(
        "kind operations\n\
        seed 9000000000323536\n\
        begin 75 11 328881 60 15 38 1 0 92 1 4 403378 3 77 1 65 14 3 49 81 1883 99 5 97 84 5513 31 3 65 5 3 455 42 25 13 98 72 94 1 85\n\
        operation 83 24 94 15 246 71 3 2 7 0 81 70 14 130 40 73 58\n\
        operation 38 84 48 6\n\
        operation 4 75\n\
        operation 58 77 4 38 14 157 25 5 37 19 84 55 8 27 30 48 43\n\
        operation 82 83 15\n\
        operation 80 89 1 15 2 4 670 529 49\n\
        operation 99 40 31 35 249 15 0 95 6 54 67 50 97\n\
        operation 60 94 31\n\
        operation 70 3 45 81 1459 84 3 1 92 42 32 2 2 4\n\
        operation 11 84 32 12 2\n\
        operation 6 84 85 4 25 81\n\
        operation 47 99 58\n\
        operation 20 82\n\
        operation 89 85 96 0 5 0 31 94 90 2 0 94 11 61 83 16 20\n\
        operation 0 80 474\n\
        finale 0 70",
    );
}
