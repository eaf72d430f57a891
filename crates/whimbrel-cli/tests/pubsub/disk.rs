//! A small disk, which is soon full.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Home, Running};

/// A folder on a small disk of its own, as long as this lives.
pub(crate) struct Disk {
    holder: Running,
    pub(crate) folder: PathBuf,
}

impl Disk {
    /// `None`: the test may not make one, and says so.
    pub(crate) fn new(home: &Home) -> Option<Self> {
        let may = Command::new("unshare").args(["--mount", "true"]).status();
        if !may.is_ok_and(|status| status.success()) {
            whimbrel_testing::skipped("a mount namespace needs root and unshare");
            return None;
        }
        let folder = home.file("disk");
        std::fs::create_dir_all(&folder).unwrap();
        let script = "mount -t tmpfs -o size=4m none \"$0\" && echo listening there && exec sleep 600";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&folder);
        Some(Self { holder: Running::listening(&mut command), folder })
    }

    /// The program where the disk is.
    pub(crate) fn whimbrel(&self, home: &Home) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.id().to_string()]);
        command.arg(env!("CARGO_BIN_EXE_whimbrel")).env("XDG_CONFIG_HOME", &home.0).env("HOME", &home.0);
        command
    }

    /// A file on it, from here.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root", self.holder.id());
        Path::new(&root).join(self.folder.strip_prefix("/").unwrap()).join(name)
    }
}
