//! Installs programs that some steps need and a machine may lack.

use std::env;
use std::path::Path;

use crate::process::{cargo, program, root, works};

/// Checks for tshark, which the tests of the packet dissector need. As root on Debian, installs it if it is missing.
///
/// # Errors
/// The reason why the tests that need it are skipped.
pub(crate) fn tshark() -> Result<(), String> {
    package("tshark", || works(program("tshark", &["--version"])))
}

/// Checks for Python's cryptography package, which verifies the test vectors. Installs it as [`tshark`] does.
///
/// # Errors
/// The reason why the vectors are not checked.
pub(crate) fn cryptography() -> Result<(), String> {
    package("python3-cryptography", || works(program("python3", &["-c", "import cryptography"])))
}

/// Checks for nftables, which the tests of interception use. Installs it as [`tshark`] does.
///
/// # Errors
/// The reason why these tests are skipped.
pub(crate) fn nftables() -> Result<(), String> {
    package("nftables", || works(program("nft", &["--version"])))
}

/// Checks for a Java compiler and Maven, which fetch and run another broker's selectors. Installs them as [`tshark`] does.
///
/// # Errors
/// The reason why selectors are not compared.
pub(crate) fn java() -> Result<(), String> {
    package("default-jdk-headless", || works(program("javac", &["--version"])))?;
    package("maven", || works(program("mvn", &["--version"])))
}

fn package(name: &str, there: impl Fn() -> bool) -> Result<(), String> {
    if there() {
        return Ok(());
    }
    if !works(program("apt-get", &["--version"])) || !is_root() {
        return Err(format!("{name} is not installed (as root on Debian, this command installs it)"));
    }
    let outcome = install(name);
    if there() { Ok(()) } else { Err(outcome) }
}

/// The package that SCTP, one of the laboratory's peers, is built with, and a file that shows that it is installed.
const SCTP: (&str, &str) = ("libusrsctp-dev", "/usr/include/usrsctp.h");

/// The package with SRT's library, and a file that it installs.
const SRT: (&str, &str) = ("libsrt-openssl-dev", "/usr/include/srt/srt.h");

/// Installs the package for SCTP, as root on Debian. Without it, the laboratory's report lacks that peer.
pub(crate) fn sctp() {
    library(SCTP);
}

/// Installs the package for SRT in the same way.
pub(crate) fn srt() {
    library(SRT);
}

fn library((package, header): (&str, &str)) {
    if is_root() && !Path::new(header).exists() && works(program("apt-get", &["--version"])) {
        let outcome = install(package);
        if !Path::new(header).exists() {
            eprintln!("{outcome}");
        }
    }
}

/// Another link emulator for the laboratory's cross-check, and the folder where the laboratory looks for it.
const RATTAN: (&str, &str) = ("rattan@0.1.1", "lab/target/rattan");

/// Builds rattan if it is missing, which takes minutes. Without it, the laboratory's report lacks the cross-check.
pub(crate) fn rattan() {
    let (package, folder) = RATTAN;
    let binary = root().join(folder).join("bin/rattan");
    if binary.exists() {
        return;
    }
    println!("building {package} for the cross-check; this takes some minutes");
    // By default its release build has 170 MB of debug information.
    let bare = "profile.release.debug=false";
    let built =
        cargo(&["install", "--locked", "--quiet", "--config", bare, "--root", folder, package]).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("{package} could not be built: the cross-check is left out");
    }
}

/// A rival of the proxy for the laboratory, and the folder where the laboratory looks for it.
const SING_BOX: (&str, &str, &str) =
    ("github.com/sagernet/sing-box/cmd/sing-box", "1.14.1", "lab/target/sing-box");

/// Builds sing-box if it is missing and Go is there, which takes minutes. Without it, the laboratory's report lacks its
/// rows.
pub(crate) fn sing_box() {
    let (package, version, folder) = SING_BOX;
    let folder = root().join(folder).join("bin");
    if folder.join("sing-box").exists() {
        return;
    }
    println!("building sing-box {version} beside the proxy; this takes some minutes");
    // The program knows its version only if the linker is told.
    let named = format!("-s -w -X github.com/sagernet/sing-box/constant.Version={version}");
    let place = format!("{package}@v{version}");
    let mut build =
        program("go", &["install", "-tags", "with_quic,with_gvisor,with_utls", "-ldflags", &named, &place]);
    build.env("GOBIN", &folder);
    if !works(build) {
        eprintln!("sing-box could not be built (is Go installed?): its rows are left out");
    }
}

/// The servers of NATS, beside which the laboratory measures the broker and over which its tests have brokers speak, and the folder where
/// both look for them.
const NATS: (&str, &str, &str) = ("github.com/nats-io/nats-server/v2", "2.15.2", "lab/target/nats-server");

/// Builds nats-server if it is missing and Go is there, and installs mosquitto and its clients, as root on Debian. Without them, the
/// laboratory's report lacks their rows, and tests say that they are skipped.
pub(crate) fn brokers() {
    let (package_path, version, folder) = NATS;
    let folder = root().join(folder).join("bin");
    if !folder.join("nats-server").exists() {
        println!("building nats-server {version} beside the broker; this takes some minutes");
        let place = format!("{package_path}@v{version}");
        let mut build = program("go", &["install", "-ldflags", "-s -w", &place]);
        build.env("GOBIN", &folder);
        if !works(build) {
            eprintln!("nats-server could not be built (is Go installed?): what needs it is left out");
        }
    }
    for (name, there) in [("mosquitto", "mosquitto"), ("mosquitto-clients", "mosquitto_pub")] {
        if let Err(reason) = package(name, || works(program("which", &[there]))) {
            eprintln!("{reason}");
        }
    }
}

/// Installs curl, iperf3 and shadowsocks-libev for experiments with the proxy, as root on Debian. Without them, these are left out.
pub(crate) fn proxy_programs() {
    let needed = [
        ("curl", "curl", "--version"),
        ("iperf3", "iperf3", "--version"),
        ("shadowsocks-libev", "ss-server", "-h"),
    ];
    for (name, there, argument) in needed {
        if let Err(reason) = package(name, || works(program(there, &[argument]))) {
            eprintln!("{reason}");
        }
    }
}

/// Installs the Debian packages that the laboratory needs, as root. Returns the packages still missing, with the reason
/// or the command to run.
pub(crate) fn lab_packages() -> Vec<(&'static str, String)> {
    let needed = [("iproute2", ["ip", "-V"]), ("util-linux", ["unshare", "--version"])];
    let mut missing = Vec::new();
    for (package, [name, version]) in needed {
        let there = || works(program(name, &[version]));
        if there() {
            continue;
        }
        let reason =
            if is_root() { install(package) } else { format!("run `apt-get install {package}` as root") };
        if !there() {
            missing.push((package, reason));
        }
    }
    missing
}

/// Returns the reason why the laboratory's links cannot be tested here. `None`: they can.
pub(crate) fn no_links() -> Option<String> {
    if !is_root() {
        return Some("it needs root".into());
    }
    if let Some((package, reason)) = lab_packages().pop() {
        return Some(format!("{package} is missing: {reason}"));
    }
    let namespaces = works(program("unshare", &["--net", "--pid", "--fork", "test", "-c", "/dev/net/tun"]));
    (!namespaces).then(|| "no network namespaces, or no /dev/net/tun".into())
}

/// Installs a Debian package. Returns a message for the case that it is still missing.
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

/// Checks for cargo-deny. Builds it, which takes minutes, on request, in CI or as root.
///
/// # Errors
/// The reason why licences, bans and sources are not checked.
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

/// Fetches the newest security advisories.
///
/// # Errors
/// The reason why dependencies are not checked against them.
pub(crate) fn advisories() -> Result<(), String> {
    let fetched = works(cargo(&["deny", "fetch", "db"]));
    fetched.then_some(()).ok_or_else(|| "the RustSec advisory database cannot be reached".into())
}

/// Builds cargo-fuzz if it is missing, which takes a minute.
///
/// # Errors
/// The reason why nothing can be fuzzed.
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

/// Installs a nightly compiler with rustup if it is missing, which takes a minute.
///
/// # Errors
/// The reason why no sanitizer can be used.
pub(crate) fn nightly() -> Result<(), String> {
    let there = || works(program("cargo", &["+nightly", "--version"]));
    if there() {
        return Ok(());
    }
    println!("installing a nightly compiler");
    works(program("rustup", &["toolchain", "install", "nightly", "--profile", "minimal"]));
    let install = "sanitizers need a nightly compiler: `rustup toolchain install nightly --profile minimal`";
    there().then_some(()).ok_or_else(|| install.into())
}

/// Checks for a C++ compiler, which compiles libFuzzer. Installs it as [`tshark`] does.
///
/// # Errors
/// The reason why the fuzz targets are not checked.
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
