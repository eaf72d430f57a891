//! Attacks by hostile networks and peers, one file for each: every test states what the attacker must not gain.
//!
//! Not every attack needs a whole simulated network. This is where each one is held; `security_chapter.rs` checks that
//! the tests exist.
//!
//! | what is attacked | held by |
//! |---|---|
//! | early data: deliver it twice | `attacks::early_data_twice` |
//! | credit: freeze a direction by not reading | `attacks::stalled_readers`, `attacks::unread_streams` |
//! | reset tokens of another process of the same identity | `attacks::reset_oracle` |
//! | source and repair symbols: lies, and memory | `attacks::symbols`, `a_decoder_takes_no_more_than_it_says`, `hostile_symbols_and_repairs_are_bounded` |
//! | memory beyond what credit charges, and all of the budgets | `attacks::hoarders`, `attacks_memory` |
//! | processor time for key agreements | `attacks::key_agreements`, `of_many_at_once_each_is_let_in_and_heard_once`, `known_peers_go_first_and_each_kind_in_its_order`, `strangers_leave_room_for_known_peers` |
//! | the way back after a NAT has rebound, also for a server whose client resumed | `regression_a_server_asks_on_its_only_path_after_its_nat_rebound`, `a_nat_that_rebound_meanwhile_is_no_hindrance` |
//! | a message that a close leaves behind when it meets a resuming peer | `regression_a_close_that_meets_a_resuming_peer_is_a_close`, `regression_a_close_in_waiting_meets_a_resuming_peer` |
//! | connection ids: have them kept long after the end | `random_operations_keep_every_promise`, whose checker counts connections 20 s after each end |
//! | paths and answers, by copies and delays without keys | `attacks::replays`, `attacks::relayed`, `attacks::passed_on` |
//! | rights of a key that was revoked | `attacks::revoked_key` |
//! | other peers' share of the receive loop | `peers_with_a_backlog_have_the_same_time`, `who_sends_one_dear_datagram_at_a_time_gains_nothing`, `a_turn_to_send_is_short_in_company_and_long_alone` |
//! | the loop that all connections share, by very many streams | `session::tests::many`, `regression_a_long_backlog_costs_each_stream_the_same` |
//! | places: fill an open listener, or the memory of cookies | `attacks::crowding`, `attacks::cookies_full` |
//! | a message's buffer, by a part at its far end | `a_part_at_the_far_end_of_a_message` |
//! | counters, by a crafted snapshot | `regression_a_tag_that_is_counted_twice_is_refused` |
//! | reset tokens, by the time that comparing takes | no test: timing decides no test; `ResetToken` compares in constant time |
//! | tickets, by a thief | `attacks::ticket_thief` |
//! | secrets in a program's output | `nothing_that_holds_a_secret_prints_it` |
//! | files of secrets and of known peers, by others on the host | `what_is_replaced_is_private_and_whole`, `what_others_can_write_is_not_believed_and_what_is_written_is_private` |
//! | `perf serve`, by a stranger's stamps and plans | `a_stranger_neither_breaks_a_server_nor_learns_the_machine`, `no_rate_makes_a_time_that_is_none` |
//! | the terminal, by escape sequences in a peer's text | `words_of_the_peer_do_not_steer_the_terminal`, `a_terminal_is_not_steered_and_a_program_gets_all` |
//! | bytes in hand when a session is suspended | `bytes_that_came_and_were_not_taken_go_with_the_session` |
//! | the end of a stream: make an abrupt one look orderly | `a_reset_is_told_by_each_read`, `a_stream_that_is_dropped_is_reset_and_one_that_was_shut_down_is_not`, `a_writer_that_panics_does_not_end_well`, `writing_nothing_is_done_at_once` |
//! | patience: keep a program waiting for nothing | `bytes_at_one_end_only_is_said_at_both`, `who_comes_second_is_turned_away_and_the_first_goes_on`, `a_peer_that_never_comes_back_is_given_up_as_soon_as_was_said` |

mod cookies_full;
mod crowding;
mod early_data_twice;
mod hoarders;
mod key_agreements;
mod passed_on;
mod relayed;
mod replays;
mod reset_oracle;
mod revoked_key;
mod stalled_readers;
mod symbols;
mod ticket_thief;
mod unread_streams;
