//! Writing blocks other than DATA.

use super::out_blocks::Notice;
use crate::expected::Expected;
use crate::session::message::Carried;
use crate::session::state::Session;
use crate::wire::Writer;
use crate::wire::credit::Grant;
use crate::wire::stream_end::StreamEnd;

impl Session {
    /// Writes control blocks while there is room.
    pub(in crate::session) fn fill_control(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        while let Some(notice) = self.out_blocks.notices.front() {
            if out.remaining() < 1 + 8 + 8 + 8 {
                return;
            }
            self.out_blocks.notices.pop();
            self.write_notice(notice, out, carried);
        }
        if self.out_blocks.verdicts.is_due() {
            self.fill_verdicts(out, carried);
        }
        self.out_blocks.fill_ranges(&self.streams, out, carried);
    }

    fn write_notice(&mut self, notice: Notice, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        match notice {
            Notice::MaxStreams => {
                Grant::Streams(self.counts.granted()).write(out);
                carried.push(Carried::MaxStreams);
            }
            Notice::MaxStreamData(key) => {
                let Some(stream) = self.streams.still_mut(key) else { return };
                let Some(limit) = stream.recv_credit.grant() else { return };
                Grant::StreamData { stream: stream.id.0, limit }.write(out);
                carried.push(Carried::MaxStreamData { key });
                self.account.grant_delay.on_sent(self.clock, key);
            }
            Notice::Reset(key) => {
                let Some(stream) = self.streams.still(key) else { return };
                let reset = stream
                    .content
                    .bytes_out()
                    .expected("a byte stream")
                    .and_then(|bytes| bytes.reset_notice());
                let Some((code, final_size)) = reset else { return };
                StreamEnd::Reset { stream: stream.id.0, code, final_size }.write(out);
                carried.push(Carried::Reset { key });
            }
            Notice::Stop(key) => {
                let Some(stream) = self.streams.still(key) else { return };
                let half = stream.content.bytes_in().expected("a byte stream");
                let Some(code) = half.and_then(|half| half.stop_notice()) else { return };
                StreamEnd::Stop { stream: stream.id.0, code }.write(out);
                carried.push(Carried::Stop { key });
            }
            Notice::End(key) => {
                let Some(stream) = self.streams.still(key) else { return };
                StreamEnd::End { stream: stream.id.0, final_size: stream.send_credit.used() }.write(out);
                carried.push(Carried::End { key });
            }
        }
    }
}
