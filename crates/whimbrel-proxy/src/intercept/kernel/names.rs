//! The names, marks and numbers of tables that an instance calls its own in the kernel. Several instances can run at once, so each has its
//! own names, and these identify their owner.

use std::net::SocketAddr;

/// The most instances in one network namespace.
pub(in crate::intercept) const MOST_INSTANCES: u8 = 16;
/// The first routing table of ours; an instance has two.
const TABLES: u32 = 7_700;
/// The port of locks. Nobody uses it since the remote job entry of the ARPANET.
const LOCK_PORT: u16 = 77;
/// The mark, above the first, of sockets that answer in the name of others.
const REPLIES: u32 = 0xff;

/// The names of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::intercept) struct Names {
    number: u8,
    mark: u32,
}

impl Names {
    /// Instance `number`, with marks from `mark` on.
    pub(in crate::intercept) fn new(number: u8, mark: u32) -> Self {
        debug_assert!(number < MOST_INSTANCES);
        Self { number, mark }
    }

    /// Instance `number`, as another process says. None: there is none of that number.
    pub(in crate::intercept) fn known(number: u8, mark: u32) -> Option<Self> {
        (number < MOST_INSTANCES).then(|| Self::new(number, mark))
    }

    /// Returns its number and its first mark.
    pub(in crate::intercept) fn parts(&self) -> (u8, u32) {
        (self.number, self.mark)
    }

    /// The number of the instance.
    pub(in crate::intercept) fn number(&self) -> u8 {
        self.number
    }

    /// Its address on loopback: whoever has bound a TCP socket to it is the instance. Only root may have that port.
    pub(in crate::intercept) fn lock(&self) -> SocketAddr {
        ([127, 87, 72, self.number], LOCK_PORT).into()
    }

    /// Its interface, into which the kernel routes what is intercepted.
    pub(in crate::intercept) fn tun(&self) -> String {
        format!("whimbrel{}", self.number)
    }

    /// Its nft table.
    pub(in crate::intercept) fn table(&self) -> String {
        format!("whimbrel{}", self.number)
    }

    /// Its nft table that stays when the process is killed.
    pub(in crate::intercept) fn kill_switch(&self) -> String {
        format!("whimbrel_kill{}", self.number)
    }

    /// The mark of packets that are handed to a socket of the proxy.
    pub(in crate::intercept) fn deliver(&self) -> u32 {
        self.mark + u32::from(self.number) * 4 + 1
    }

    /// The mark of SYNs that are held.
    pub(in crate::intercept) fn hold(&self) -> u32 {
        self.mark + u32::from(self.number) * 4 + 2
    }

    /// The mark of what proxies send by themselves, of any instance.
    pub(in crate::intercept) fn own(&self) -> u32 {
        self.mark
    }

    /// The mark of replies that proxies send in the name of others, of any instance.
    pub(in crate::intercept) fn reply(&self) -> u32 {
        self.mark + REPLIES
    }

    /// The routing table, and the priority of the rule, of packets with this mark of ours.
    pub(in crate::intercept) fn deliver_table(&self) -> u32 {
        TABLES + u32::from(self.number) * 2
    }

    /// See [`Names::deliver_table`].
    pub(in crate::intercept) fn hold_table(&self) -> u32 {
        self.deliver_table() + 1
    }

    /// Both of these.
    pub(in crate::intercept) fn tables(&self) -> [u32; 2] {
        [self.deliver_table(), self.hold_table()]
    }

    /// Those of routes that stay when the process is killed. Their rules come after those of every instance.
    pub(in crate::intercept) fn kill_tables(&self) -> [u32; 2] {
        self.tables().map(|table| table + u32::from(MOST_INSTANCES) * 2)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_instances_share_a_number() {
        let all: Vec<_> = (0..MOST_INSTANCES).map(|number| Names::new(number, 0x100)).collect();
        let mut marks = BTreeSet::from([all[0].own(), all[0].reply()]);
        let mut tables = BTreeSet::new();
        for names in &all {
            assert!(marks.insert(names.deliver()) && marks.insert(names.hold()), "{names:?}");
            assert!(tables.insert(names.deliver_table()) && tables.insert(names.hold_table()), "{names:?}");
            assert!(names.kill_tables().into_iter().all(|table| tables.insert(table)), "{names:?}");
            assert_eq!((names.own(), names.reply()), (0x100, 0x1ff));
        }
        assert!(marks.iter().all(|mark| (0x100..0x200).contains(mark)));
    }
}
