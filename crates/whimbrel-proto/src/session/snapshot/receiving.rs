//! Saving the receiving side of a domain.

use super::{Partial, RecvDomain};
use crate::Service;
use crate::mutants::{Mutant, planted};
use crate::session::config::{MAX_SPAN, MESSAGE_CHARGE};
use crate::session::message::Message;
use crate::session::receive::assembly::Assembly;
use crate::session::receive::inbox::Unread;
use crate::session::receive::waiting::Parked;
use crate::session::receive::waiting::snapshot::One;
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};
use crate::wire::VARINT_MAX;
use crate::wire::data::Extras;

impl RecvDomain {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { sequenced: _, finished, partial, held, kept: _, skipped, passed, dropped: _, gap_at: _ } =
            self;
        out.window(finished);
        out.ranges(skipped);
        out.ranges(passed);
        out.list(held.in_order().into_iter(), |out, One { message, latest_reliable, since }| {
            message.save(out);
            out.int(latest_reliable);
            out.past(since);
        });
        out.list(partial.iter(), |out, (number, partial)| {
            out.int(*number);
            partial.save(out);
        });
    }

    /// Loads the domain with this index in its stream.
    pub(in crate::session) fn load(input: &mut In, index: usize) -> Loaded<Self> {
        let mut domain =
            Self::new(Service::ALL.iter().any(|service| service.index() == index && service.is_sequenced()));
        let finished = input.window()?;
        if domain.sequenced || !planted(Mutant::ResumedMessageTwice) {
            domain.finished = finished;
        }
        (domain.skipped, domain.passed) = (input.ranges()?, input.ranges()?);
        let (floor, top) = (domain.floor(), domain.floor() + MAX_SPAN);
        input.list(|input| {
            let message = Message::load(input)?;
            let (latest_reliable, since) = (input.int()?, input.past()?);
            let id = message.id;
            if !domain.sequenced || id <= floor || id >= top || !domain.finished.contains(id) {
                return Err(BROKEN);
            }
            domain.held.insert(Parked { unread: Unread::One(message), latest_reliable, since });
            Ok(())
        })?;
        input.list(|input| {
            let number = input.at_most(top - 1)?;
            let partial = Partial::load(input)?;
            if partial.dropped && number >= floor {
                return Err(BROKEN);
            }
            domain.dropped += usize::from(partial.dropped);
            domain.kept += partial.assembly.memory();
            match domain.partial.insert(number, partial) {
                None => Ok(()),
                Some(_) => Err(BROKEN),
            }
        })?;
        Ok(domain)
    }
}

impl Partial {
    fn save(&self, out: &mut Out<'_>) {
        let Self { assembly, extras, length, highest, charged, early, dropped, forgotten } = self;
        out.option(extras.as_ref(), |out, extras| save_extras(extras, out));
        out.optional_int(*length);
        for value in [*highest, *charged] {
            out.int(value);
        }
        out.flag(*early);
        out.flag(*dropped);
        out.flag(*forgotten);
        assembly.save(out);
    }

    fn load(input: &mut In) -> Loaded<Self> {
        let (extras, length) = (input.option(load_extras)?, input.optional_int()?);
        let (highest, charged) = (input.at_most(VARINT_MAX / 4)?, input.int()?);
        let end = length.unwrap_or(highest);
        if highest > end || end > VARINT_MAX / 4 || charged > end + MESSAGE_CHARGE {
            return Err(BROKEN);
        }
        let (early, dropped, forgotten) = (input.flag()?, input.flag()?, input.flag()?);
        let assembly = Assembly::load(input, 0, highest)?;
        // A message that is whole is not kept in parts.
        if length.is_some_and(|length| assembly.is_whole(length)) && extras.is_none() {
            return Err(BROKEN);
        }
        Ok(Self { assembly, extras, length, highest, charged, early, dropped, forgotten })
    }
}

fn save_extras(extras: &Extras, out: &mut Out<'_>) {
    let Extras { tag, priority, ppid, latest_reliable, bytes: _, opening: _, confirm } = extras;
    out.optional_int(*tag);
    out.byte(*priority);
    out.optional_int(ppid.map(u64::from));
    out.optional_int(*latest_reliable);
    out.flag(*confirm);
}

fn load_extras(input: &mut In) -> Loaded<Extras> {
    Ok(Extras {
        tag: input.optional_int()?,
        priority: input.byte()?,
        ppid: input.option(In::small)?,
        latest_reliable: input.optional_int()?,
        bytes: false,
        opening: false,
        confirm: input.flag()?,
    })
}
