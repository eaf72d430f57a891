//! Programs that some steps need and a machine may lack.

use std::env;
use std::path::Path;

use crate::process::{cargo, program, root, works};

/// Makes sure of tshark, which tests the packet dissector: installs Debian's package when run as root.
///
/// # Errors
/// Why the tests that need it will be skipped.
pub(crate) fn tshark() -> Result<(), String> {
    package("tshark", || works(program("tshark", &["--version"])))
}

/// As [`tshark`], Python's X25519 and AEADs, for the test vectors.
///
/// # Errors
/// Why they will not be checked.
pub(crate) fn cryptography() -> Result<(), String> {
    package("python3-cryptography", || works(program("python3", &["-c", "import cryptography"])))
}

fn package(name: &str, there: impl Fn() -> bool) -> Result<(), String> {
    if there() {
        return Ok(());
    }
    if !works(program("apt-get", &["--version"])) || !is_root() {
        return Err(format!("{name} is not installed (as root on Debian this command would install it)"));
    }
    let outcome = install(name);
    if there() { Ok(()) } else { Err(outcome) }
}

/// What SCTP, one of the laboratory's peers, is built with, and how to tell that it is there.
const SCTP: (&str, &str) = ("libusrsctp-dev", "/usr/include/usrsctp.h");

/// Makes sure of SCTP, as root on Debian: without it that peer is a gap in the laboratory's report.
pub(crate) fn sctp() {
    let (package, header) = SCTP;
    if is_root() && !Path::new(header).exists() && works(program("apt-get", &["--version"])) {
        let outcome = install(package);
        if !Path::new(header).exists() {
            eprintln!("{outcome}");
        }
    }
}

/// The other emulator of links, for the laboratory's cross-check, and where the laboratory looks for it.
const RATTAN: (&str, &str) = ("rattan@0.1.1", "lab/target/rattan");

/// Makes sure of rattan: builds it, which takes minutes. Without it the cross-check is a gap in the laboratory's report.
pub(crate) fn rattan() {
    let (package, folder) = RATTAN;
    let binary = root().join(folder).join("bin/rattan");
    if binary.exists() {
        return;
    }
    println!("building {package} for the cross-check; this takes some minutes");
    // Its own settings keep all there is for a debugger: 170 MB.
    let bare = "profile.release.debug=false";
    let built =
        cargo(&["install", "--locked", "--quiet", "--config", bare, "--root", folder, package]).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("{package} could not be built: the cross-check is left out");
    }
}

/// Makes sure of what the laboratory needs of Debian, as root; what is missing then, and why.
pub(crate) fn lab_packages() -> Vec<(&'static str, String)> {
    let needed = [("iproute2", ["ip", "-V"]), ("util-linux", ["unshare", "--version"])];
    let mut missing = Vec::new();
    for (package, [name, version]) in needed {
        let there = || works(program(name, &[version]));
        if there() {
            continue;
        }
        let reason =
            if is_root() { install(package) } else { format!("as root `apt-get install {package}`") };
        if !there() {
            missing.push((package, reason));
        }
    }
    missing
}

/// Why the laboratory's links cannot be tested here; none if they can.
pub(crate) fn no_links() -> Option<String> {
    if !is_root() {
        return Some("it takes root".into());
    }
    if let Some((package, reason)) = lab_packages().pop() {
        return Some(format!("{package} is missing: {reason}"));
    }
    let namespaces = works(program("unshare", &["--net", "--pid", "--fork", "test", "-c", "/dev/net/tun"]));
    (!namespaces).then(|| "no network namespaces, or no /dev/net/tun".into())
}

/// Installs a Debian package; what came of it.
fn install(package: &str) -> String {
    println!("installing {package}");
    let mut install = program("apt-get", &["install", "--yes", "--no-install-recommends", package]);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    let updated = works(program("apt-get", &["update"]));
    let installed = works(install);
    format!(
        "{package} could not be installed (apt-get update {}, install {})",
        word(updated),
        word(installed)
    )
}

/// Makes sure of cargo-deny: builds it, which takes minutes, if asked to, in CI, or as root, whose machine this is.
///
/// # Errors
/// Why licences, bans and sources will not be checked.
pub(crate) fn cargo_deny(install: bool) -> Result<(), String> {
    let there = || works(cargo(&["deny", "--version"]));
    if there() {
        return Ok(());
    }
    if !install && !in_ci() && !is_root() {
        return Err("cargo-deny is not installed (`cargo xtask test --install` builds it, in minutes)".into());
    }
    println!("installing cargo-deny; this takes some minutes");
    let built = cargo(&["install", "--locked", "--quiet", "cargo-deny"]).status();
    if built.is_ok_and(|status| status.success()) && there() {
        return Ok(());
    }
    Err("cargo-deny could not be built".into())
}

/// Makes sure of the newest security advisories.
///
/// # Errors
/// Why dependencies will not be checked against them.
pub(crate) fn advisories() -> Result<(), String> {
    let fetched = works(cargo(&["deny", "fetch", "db"]));
    fetched.then_some(()).ok_or_else(|| "the database of RustSec cannot be reached".into())
}

/// Makes sure of cargo-fuzz: builds it, which takes a minute.
///
/// # Errors
/// Why nothing can be fuzzed.
pub(crate) fn cargo_fuzz() -> Result<(), String> {
    let there = || works(cargo(&["fuzz", "--version"]));
    if there() {
        return Ok(());
    }
    println!("installing cargo-fuzz");
    let built = cargo(&["install", "--locked", "--quiet", "cargo-fuzz"]).status();
    if built.is_ok_and(|status| status.success()) && there() {
        return Ok(());
    }
    Err("cargo-fuzz is not installed and could not be built".into())
}

/// Makes sure of a nightly compiler: installs it by rustup, which takes a minute.
///
/// # Errors
/// Why there can be no sanitizer.
pub(crate) fn nightly() -> Result<(), String> {
    let there = || works(program("cargo", &["+nightly", "--version"]));
    if there() {
        return Ok(());
    }
    println!("installing a nightly compiler");
    works(program("rustup", &["toolchain", "install", "nightly", "--profile", "minimal"]));
    let install = "sanitizers take a nightly compiler: `rustup toolchain install nightly --profile minimal`";
    there().then_some(()).ok_or_else(|| install.into())
}

/// What libFuzzer is compiled with.
///
/// # Errors
/// Why the fuzz targets will not be checked.
pub(crate) fn cpp_compiler() -> Result<(), String> {
    let named = env::var("CXX").ok();
    let there = || {
        let known = named.as_deref().into_iter().chain(["c++", "clang++"]);
        known.into_iter().any(|name| works(program(name, &["--version"])))
    };
    package("g++", there)
}

fn in_ci() -> bool {
    env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "0" && ci != "false")
}

fn is_root() -> bool {
    let id = program("id", &["-u"]).output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn word(success: bool) -> &'static str {
    if success { "worked" } else { "failed" }
}
