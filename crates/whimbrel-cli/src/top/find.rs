//! Finds the control sockets of this user.
//!
//! A control socket is bound under a name of its own, `NAME.new-PID`, before it gets its place as `NAME.…` in the same folder. Linux goes on
//! listing that first name. So its own services are found, and other programs' sockets are left alone.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The most sockets that are looked at.
const MOST: usize = 64;
/// The sockets that are listened on have this flag.
const LISTENS: u64 = 0x1_0000;

/// Returns the control sockets of this user's services on this host. Empty where the system lists no sockets.
pub(super) fn control_sockets() -> BTreeSet<PathBuf> {
    let list = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let Ok(own) = fs::metadata("/proc/self").map(|own| own.uid()) else { return BTreeSet::new() };
    let sockets = drafts(&list).into_iter().filter_map(|(process, draft)| {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let is_own = fs::metadata(&folder).is_ok_and(|folder| folder.uid() == own);
        // A relative name counts from the service's folder.
        let base = fs::read_link(folder.join("cwd")).ok().filter(|_| is_own)?;
        Some(named_like(&base.join(draft), own))
    });
    sockets.flatten().take(MOST).collect()
}

/// Returns the names under which control sockets were bound that are listened on, with the process of each.
fn drafts(list: &str) -> Vec<(u32, PathBuf)> {
    let draft = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let flags = u64::from_str_radix(columns.nth(3)?, 16).ok()?;
        let inode = columns.nth(2)?;
        let (_, path) = line.split_once(&format!(" {inode} ")).filter(|_| flags & LISTENS != 0)?;
        let (_, process) = path.rsplit_once(".new-")?;
        Some((process.parse().ok()?, PathBuf::from(path.trim_start())))
    };
    list.lines().filter_map(draft).collect()
}

/// Returns the sockets of this user beside `draft` that differ from it in their ending only.
fn named_like(draft: &Path, own: u32) -> Vec<PathBuf> {
    let is_like =
        |path: &Path| path.file_stem() == draft.file_stem() && path.extension() != draft.extension();
    let is_own_socket = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket() && found.uid() == own)
    };
    let folder = draft.parent().and_then(|folder| fs::read_dir(folder).ok());
    let paths = folder.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| is_like(path) && is_own_socket(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bound_names_of_control_sockets_are_taken() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/user/1000/perf.new-42\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 4712 rel ative.new-43\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 4713 /run/user/1000/perf.new-42\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 4714 /run/user/1000/bus\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 4715 /tmp/x.new-y\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 4716\n";
        let found = [(42, "/run/user/1000/perf.new-42"), (43, "rel ative.new-43")];
        assert_eq!(drafts(list), found.map(|(process, path)| (process, PathBuf::from(path))));
        assert!(drafts("").is_empty());
    }
}
