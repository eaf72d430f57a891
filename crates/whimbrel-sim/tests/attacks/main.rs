//! Attacks by hostile networks and peers, one file for each: every test states what the attacker must not gain.

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
mod ticket_thief;
mod unread_streams;
