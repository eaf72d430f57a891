//! Tests of `whimbrel key`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::os::unix::fs::PermissionsExt;

use common::{Home, assert_fails, whimbrel};
use whimbrel::Identity;

// The code that the guide recommends.
include!("recipe/key_file.rs");

#[test]
fn a_new_key_is_private_is_shown_again_and_is_never_overwritten() {
    let home = Home::new("key-new");
    let file = home.file("whimbrel/key");
    let made = whimbrel(&home).args(["key", "new"]).output().unwrap();
    assert!(made.status.success());
    let public = String::from_utf8(made.stdout).unwrap();
    assert!(public.trim().parse::<whimbrel::PublicKey>().is_ok());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let line = std::fs::read_to_string(&file).unwrap();
    assert!(line.starts_with("whimbrel-secret-key ") && line.lines().count() == 1);
    let shown = whimbrel(&home).args(["key", "show"]).output().unwrap();
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), public);
    assert_fails(&whimbrel(&home).args(["key", "new"]).output().unwrap(), "not overwritten");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), line);
}

#[test]
fn a_folder_that_was_named_must_exist_and_the_default_one_is_made_for_its_owner_only() {
    let home = Home::new("key-folders");
    let make =
        |file: &str| whimbrel(&home).args(["key", "new", "--out"]).arg(home.file(file)).output().unwrap();
    let refused = make("mistyped/key");
    assert_fails(&refused, "mistyped: make it first");
    assert!(!home.file("mistyped").exists());
    std::fs::write(home.file("a file"), "").unwrap();
    assert_fails(&make("a file/key"), "cannot use the key file");

    assert!(!home.file("whimbrel").exists());
    assert!(whimbrel(&home).args(["key", "new"]).status().unwrap().success());
    assert_eq!(std::fs::metadata(home.file("whimbrel")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_is_no_key_file_is_said() {
    let home = Home::new("key-bad");
    let show = |file: &str| whimbrel(&home).args(["key", "show"]).arg(home.file(file)).output().unwrap();
    assert_fails(&show("missing"), "whimbrel key new --out");
    std::fs::write(home.file("noise"), "hello\n").unwrap();
    assert_fails(&show("noise"), "is not a whimbrel key file");
    let open = home.file("open");
    assert!(whimbrel(&home).args(["key", "new", "--out"]).arg(&open).status().unwrap().success());
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_fails(&show("open"), "chmod 600");
}

#[test]
fn a_pre_shared_key_is_private_and_what_is_none_is_said() {
    let home = Home::new("key-psk");
    let (file, other) = (home.file("psk"), home.file("other"));
    let make =
        |out: &std::path::Path| whimbrel(&home).args(["key", "psk", "--out"]).arg(out).output().unwrap();
    for out in [&file, &other] {
        assert!(make(out).status.success());
        assert_eq!(std::fs::metadata(out).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let digits = std::fs::read_to_string(&file).unwrap();
    assert!(digits.trim().len() == 64 && digits != std::fs::read_to_string(&other).unwrap());
    assert_fails(&make(&file), "not overwritten");

    let listen = || {
        let mut command = whimbrel(&home);
        command.args(["cat", "listen", "--listen", "127.0.0.1:0"]);
        command
    };
    let with = |file: &str| listen().arg("--psk").arg(home.file(file)).output().unwrap();
    assert_fails(&with("missing"), "whimbrel key psk --out");
    std::fs::write(home.file("noise"), "hello\n").unwrap();
    assert_fails(&with("noise"), "64 hexadecimal digits");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_fails(&with("other"), "chmod 600");
    let wrong = listen().env("WHIMBREL_PSK", &digits[1..]).output().unwrap();
    assert_fails(&wrong, "WHIMBREL_PSK");
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains(&digits[1..9]), "a secret is not shown");
}

#[test]
fn the_guide_reads_a_key_file_as_the_program_does() {
    let home = Home::new("key-recipe");
    let file = home.file("key");
    let made = whimbrel(&home).args(["key", "new", "--out"]).arg(&file).output().unwrap();
    let read = key_file(file.to_str().unwrap()).unwrap();
    assert_eq!(format!("{}\n", read.public()), String::from_utf8(made.stdout).unwrap());
    std::fs::write(&file, "hello\n").unwrap();
    assert!(key_file(file.to_str().unwrap()).unwrap_err().to_string().contains("not a key file"));
    assert!(
        include_str!("../../../docs/guide.md").contains(include_str!("recipe/key_file.rs")),
        "the same words"
    );
}
