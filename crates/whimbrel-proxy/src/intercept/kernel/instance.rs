//! The lock that makes a process an instance.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use socket2::{Domain, Socket, Type};

use super::error::KernelError;
use super::names::{MOST_INSTANCES, Names};

/// An instance: names that nobody else has. The kernel takes them back when the process ends, however it ends.
#[derive(Debug)]
pub(in crate::intercept) struct Instance {
    pub(in crate::intercept) names: Names,
    lock: Socket,
}

impl Instance {
    /// An instance that another process is, too. It is one until both have let go.
    pub(in crate::intercept) fn of(names: Names, lock: OwnedFd) -> Self {
        Self { names, lock: lock.into() }
    }

    /// Returns what another process needs to be the same instance.
    pub(in crate::intercept) fn file(&self) -> io::Result<OwnedFd> {
        self.lock.as_fd().try_clone_to_owned()
    }

    /// Becomes the first instance that is not running.
    pub(in crate::intercept) fn claim(mark: u32) -> Result<Self, KernelError> {
        for number in 0..MOST_INSTANCES {
            if let Some(instance) = Self::claim_number(number, mark)? {
                return Ok(instance);
            }
        }
        Err(KernelError::TooMany)
    }

    /// Becomes this instance. `None`: it is running.
    pub(in crate::intercept) fn claim_number(number: u8, mark: u32) -> Result<Option<Self>, KernelError> {
        let names = Names::new(number, mark);
        match lock(names) {
            Ok(lock) => Ok(Some(Self { names, lock })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(KernelError::system("becoming an instance failed")(error)),
        }
    }
}

/// Binds the address of an instance. It belongs to the network namespace, as tables and routes do, and goes with the
/// process. An abstract Unix socket would do, too, if other users could not have it.
fn lock(names: Names) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // Loopback may be down.
    socket.set_freebind_v4(true)?;
    socket.bind(&names.lock().into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    /// Some user who is not root.
    const STRANGER: u32 = 65_534;

    /// Tries to have the lock in the process that the next test starts. Alone it does nothing.
    #[test]
    fn child() {
        if std::env::var_os("WHIMBREL_TEST_LOCK").is_some() {
            println!("tried: {:?}", lock(Names::new(15, 0)).map_err(|error| error.kind()).err());
        }
    }

    #[test]
    fn regression_no_other_user_keeps_proxies_from_running() {
        let program = std::env::temp_dir().join(format!("whimbrel-lock-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let name = format!("{}::child", module_path!().split_once("::").unwrap().1);
        let mut child = Command::new(&program);
        child.args(["--exact", &name, "--nocapture"]).env("WHIMBREL_TEST_LOCK", "1").current_dir("/");
        let tried = child.uid(STRANGER).gid(STRANGER).output();
        std::fs::remove_file(&program).unwrap();
        match tried {
            Ok(tried) => {
                let said = String::from_utf8(tried.stdout).unwrap();
                assert!(said.contains("tried: Some(PermissionDenied)"), "{said}");
            }
            Err(_) => eprintln!("skipped: only root can act as another user"),
        }
    }
}
