//! A parcel on its way through a Unix socket, with its open files (SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::parcel::{Claimed, Parcel, SessionNote, SessionParcel};
use crate::flow::{Direction, InHand};
use crate::intercept::tproxy::{Interception, InterceptionNote, InterceptionParts, TproxyError};
use crate::intercept::tun::{TunError, TunInterception, TunNote, TunParts};
use crate::relay::{FlowNote, FlowParcel, OtherEnd, Saved, UdpParts};

/// The version of what follows. Both processes must have the same.
const VERSION: u32 = 4;
/// The longest note and the longest content of a piece. The other process is of the same user, but may be of another
/// version.
const LONGEST_NOTE: usize = 1 << 20;
const LONGEST_CONTENT: usize = 1 << 30;
/// The most files of a piece.
const FILES: usize = 6;

/// An error from handing over.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The connection between the processes failed.
    #[error("the other process is gone: {0}")]
    Gone(#[from] io::Error),
    /// The other process speaks another version.
    #[error(
        "the running proxy has a version that cannot hand over to this one: stop it, and start this one without \
         --replace"
    )]
    Version,
    /// The other process waited for too long.
    #[error("the running proxy continues by itself, since this one took too long: try again")]
    TookBack,
    /// The bytes that came are no parcel.
    #[error("the running proxy handed over something that cannot be read")]
    Malformed,
    /// Interception cannot be taken over.
    #[error(transparent)]
    Tproxy(#[from] TproxyError),
    /// Interception cannot be taken over.
    #[error(transparent)]
    Tun(#[from] TunError),
}

/// The kind of a piece of the parcel.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Note {
    Begin {
        version: u32,
        port: u16,
    },
    /// With its file.
    Listener(String),
    /// With the files of the instance, the TUN and the sockets for programs.
    Interception(InterceptionNote),
    /// With the pipes and the process of `nft`. It belongs to the interception, as sockets for replies do.
    Table,
    Reply(SocketAddr),
    /// With the files of the instance, the TUN and the listeners. Its content is the connections.
    Tun(TunNote),
    /// Its content is the state.
    Session(SessionNote),
    /// A context of datagrams of the last session. Its content is the announcement.
    Context,
    /// A UDP program of the last session, with its files.
    Program(SocketAddr),
    /// Its content is what is in hand to the peer, what a compressed flow has read and is writing, and then what is in hand to
    /// the program. With the program's file, and that of the target unless it has a stream.
    Flow(Box<NotedFlow>),
    End,
}

/// The note on a flow, its stream with the session's place in the parcel, and its state.
type NotedFlow = (FlowNote, Option<(usize, Saved)>, HandNote);

#[derive(Serialize, Deserialize)]
struct HandNote {
    out_length: usize,
    input_length: usize,
    pieces_length: usize,
    out: Direction,
    back: Direction,
    sent: u64,
    received: u64,
}

/// Sends a parcel. Blocks.
///
/// # Errors
/// The other process is gone.
pub(super) fn send(parcel: &Parcel, mut to: &UnixStream) -> Result<(), HandOverError> {
    let mut put =
        |note: &Note, content: &[&[u8]], files: &[BorrowedFd<'_>]| put(&mut to, note, content, files);
    put(&Note::Begin { version: VERSION, port: parcel.port }, &[], &[])?;
    for (name, file) in &parcel.listeners {
        put(&Note::Listener(name.clone()), &[], &[file.as_fd()])?;
    }
    if let Some(interception) = &parcel.interception {
        let InterceptionParts { note, sockets, table, replies } = interception.parts()?;
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        put(&Note::Interception(note), &[], &sockets)?;
        if let Some(table) = &table {
            put(&Note::Table, &[], &table.each_ref().map(AsFd::as_fd))?;
        }
        for (address, file) in &replies {
            put(&Note::Reply(*address), &[], &[file.as_fd()])?;
        }
    }
    if let Some(tun) = &parcel.tun {
        let TunParts { note, files, mappings } = tun.parts()?;
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let mappings = serde_json::to_vec(&mappings).map_err(io::Error::from)?;
        put(&Note::Tun(note), &[&mappings], &files)?;
    }
    for session in &parcel.sessions {
        put(&Note::Session(session.note.clone()), &[&session.state], &[])?;
        for context in &session.udp.contexts {
            put(&Note::Context, &[context], &[])?;
        }
        for (program, files) in &session.udp.programs {
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            put(&Note::Program(*program), &[], &files)?;
        }
    }
    let none = Bytes::new();
    for Claimed { flow: FlowParcel { program, other, hand, note }, .. } in &parcel.flows {
        let (stream, direct) = match other {
            OtherEnd::Stream(session, saved) => (Some((*session, saved.clone())), None),
            OtherEnd::Direct(file) => (None, Some(file.as_fd())),
        };
        let paused = match other {
            OtherEnd::Stream(_, saved) => saved.paused.as_ref(),
            OtherEnd::Direct(_) => None,
        };
        let (input, pieces) = paused.map_or((&none, &none), |paused| (&paused.input, &paused.pieces));
        let content: Vec<&[u8]> =
            [&hand.out, input, pieces].into_iter().chain(&hand.back).map(|bytes| &**bytes).collect();
        let files: Vec<_> = std::iter::once(program.as_fd()).chain(direct).collect();
        let hand = HandNote {
            out_length: hand.out.len(),
            input_length: input.len(),
            pieces_length: pieces.len(),
            out: hand.out_state,
            back: hand.back_state,
            sent: hand.sent,
            received: hand.received,
        };
        put(&Note::Flow(Box::new((note.clone(), stream, hand))), &content, &files)?;
    }
    put(&Note::End, &[], &[])
}

/// Receives a parcel. Blocks.
///
/// # Errors
/// The other process is gone, of another version, or sends something else.
pub(super) fn receive(mut from: &UnixStream) -> Result<Parcel, HandOverError> {
    let mut parcel = Parcel::default();
    match take(&mut from)? {
        (Note::Begin { version: VERSION, port }, ..) => parcel.port = port,
        (Note::Begin { .. }, ..) => return Err(HandOverError::Version),
        _ => return Err(HandOverError::Malformed),
    }
    let mut interception: Option<InterceptionParts> = None;
    loop {
        let (note, content, files) = take(&mut from)?;
        let mut files = files.into_iter();
        match note {
            Note::Begin { .. } => return Err(HandOverError::Malformed),
            Note::Listener(name) => {
                parcel.listeners.push((name, files.next().ok_or(HandOverError::Malformed)?));
            }
            Note::Interception(note) => {
                let sockets = files.collect();
                interception = Some(InterceptionParts { note, sockets, table: None, replies: Vec::new() });
            }
            Note::Table => {
                let parts = interception.as_mut().ok_or(HandOverError::Malformed)?;
                let files: Vec<_> = files.collect();
                parts.table = Some(files.try_into().map_err(|_| HandOverError::Malformed)?);
            }
            Note::Reply(address) => {
                let parts = interception.as_mut().ok_or(HandOverError::Malformed)?;
                parts.replies.push((address, files.next().ok_or(HandOverError::Malformed)?));
            }
            Note::Tun(note) => {
                let mappings = serde_json::from_slice(&content).map_err(|_| HandOverError::Malformed)?;
                let parts = TunParts { note, files: files.collect(), mappings };
                parcel.tun = Some(TunInterception::of(parts)?);
            }
            Note::Session(note) => {
                let udp = UdpParts::default();
                parcel.sessions.push(SessionParcel { note, state: content.into(), udp });
            }
            Note::Context => {
                let session = parcel.sessions.last_mut().ok_or(HandOverError::Malformed)?;
                session.udp.contexts.push(content);
            }
            Note::Program(program) => {
                let session = parcel.sessions.last_mut().ok_or(HandOverError::Malformed)?;
                session.udp.programs.push((program, files.collect()));
            }
            Note::Flow(flow) => {
                let (note, stream, hand) = *flow;
                let program = files.next().ok_or(HandOverError::Malformed)?;
                let lengths = [hand.out_length, hand.input_length, hand.pieces_length];
                let mut back = content;
                let [out, input, pieces] = parts(&mut back, lengths)?;
                let other = match stream {
                    Some((session, mut saved)) if session < parcel.sessions.len() => {
                        if let Some(paused) = &mut saved.paused {
                            (paused.input, paused.pieces) = (input, pieces);
                        }
                        OtherEnd::Stream(session, saved)
                    }
                    Some(_) => return Err(HandOverError::Malformed),
                    None => OtherEnd::Direct(files.next().ok_or(HandOverError::Malformed)?),
                };
                let hand = InHand {
                    out,
                    back: if back.is_empty() { Vec::new() } else { vec![back] },
                    out_state: hand.out,
                    back_state: hand.back,
                    sent: hand.sent,
                    received: hand.received,
                };
                let flow = FlowParcel { program, other, hand, note };
                parcel.flows.push(Claimed { flow, claim: None });
            }
            Note::End => {
                parcel.interception = interception.map(Interception::of).transpose()?;
                return Ok(parcel);
            }
        }
    }
}

/// Cuts parts of these lengths off.
fn parts<const N: usize>(content: &mut Bytes, lengths: [usize; N]) -> Result<[Bytes; N], HandOverError> {
    if lengths
        .iter()
        .try_fold(0_usize, |sum, length| sum.checked_add(*length))
        .is_none_or(|sum| sum > content.len())
    {
        return Err(HandOverError::Malformed);
    }
    Ok(lengths.map(|length| content.split_to(length)))
}

/// Sends a piece: the lengths of note and content with the files, then both.
fn put(
    to: &mut &UnixStream,
    note: &Note,
    content: &[&[u8]],
    files: &[BorrowedFd<'_>],
) -> Result<(), HandOverError> {
    let note = serde_json::to_vec(note).map_err(io::Error::from)?;
    let length: usize = content.iter().map(|bytes| bytes.len()).sum();
    let head = [(note.len() as u32).to_be_bytes(), (length as u32).to_be_bytes()].concat();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(HandOverError::Malformed);
    }
    let sent = sendmsg(*to, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL);
    let sent = sent.map_err(io::Error::from)?;
    to.write_all(&head[sent..])?;
    to.write_all(&note)?;
    for bytes in content {
        to.write_all(bytes)?;
    }
    Ok(())
}

fn take(from: &mut &UnixStream) -> Result<(Note, Bytes, Vec<OwnedFd>), HandOverError> {
    let mut head = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(*from, &mut [IoSliceMut::new(&mut head)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let received = received.map_err(io::Error::from)?.bytes;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    if received == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    from.read_exact(&mut head[received..])?;
    let [a, b, c, d, e, f, g, h] = head;
    let lengths = [[a, b, c, d], [e, f, g, h]].map(|length| u32::from_be_bytes(length) as usize);
    if lengths[0] > LONGEST_NOTE || lengths[1] > LONGEST_CONTENT {
        return Err(HandOverError::Malformed);
    }
    let (mut note, mut content) = (vec![0; lengths[0]], vec![0; lengths[1]]);
    from.read_exact(&mut note)?;
    from.read_exact(&mut content)?;
    let note = serde_json::from_slice(&note).map_err(|_| HandOverError::Malformed)?;
    Ok((note, content.into(), files))
}
