//! `whimbrel cat`: messages or bytes between standard input and output and a peer.
//!
//! Messages are lines, unless `--bytes` asks for a byte stream or `--message-size` for pieces. Each end sends its
//! input until that ends, and writes what it receives until the peer's input has ended too. Then both close
//! gracefully.

mod command;
mod ending;
mod event_report;
mod input;
mod kind;
mod messages;
mod options;
mod out;
mod progress;
mod reader;
mod session_file;
mod stream;
mod suspend;
mod writer;

pub use command::CatCommand;
