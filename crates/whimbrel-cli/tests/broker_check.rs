//! Checks files of which the broker could not be run.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brokers;
mod common;

use std::os::unix::fs::PermissionsExt;

use brokers::{Broker, key};
use common::{Home, assert_fails, free_ports, whimbrel};

/// Checks a file with this text. Fails unless the mistake is in this place, and these words are said.
fn refused(home: &Home, text: &str, place: &str, hint: &str) {
    let file = home.file("broker.toml");
    std::fs::write(&file, text).unwrap();
    let output = whimbrel(home).args(["broker", "check"]).arg(&file).output().unwrap();
    assert_fails(&output, &format!("broker.toml:{place}: "));
    assert_fails(&output, hint);
    assert_eq!(output.status.code(), Some(2));
}

fn accepted(home: &Home, text: &str) {
    let file = home.file("broker.toml");
    std::fs::write(&file, text).unwrap();
    let output = whimbrel(home).args(["broker", "check"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn regression_a_key_that_cannot_be_used_is_refused_where_it_is_named() {
    let home = Home::new("check-key");
    let listen =
        |name: &str| format!("[listen]\naddress = '127.0.0.1:0'\nkey = '{}'\n", home.file(name).display());
    refused(&home, &listen("nowhere/key"), "3:7", "make it first");
    accepted(&home, &listen("new.key"));
    assert!(!home.file("new.key").exists(), "a check makes nothing");
    std::fs::write(home.file("other"), "no key").unwrap();
    refused(&home, &listen("other"), "3:7", "is not a whimbrel key file");
    let own = key(&home, "own");
    accepted(&home, &listen("own.key"));
    let peer = format!("{}[broker]\ncluster = 'c'\n[[peer]]\nkey = '{own}'\n", listen("own.key"));
    refused(&home, &peer, "7:7", "is this broker itself");
    std::fs::set_permissions(home.file("own.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&home, &listen("own.key"), "3:7", "chmod 600");
    refused(&home, "[listen]\npsk = 'nowhere.psk'\n", "2:7", "whimbrel key psk");
}

#[test]
fn regression_a_store_that_cannot_be_used_is_refused_where_it_is_named() {
    let home = Home::new("check-store");
    let durable = "[[channel]]\nname = 'all'\ndurable = true\n";
    let store = |name: &str| format!("{durable}[store]\nfolder = '{}'\n", home.file(name).display());
    std::fs::write(home.file("file"), "x").unwrap();
    refused(&home, &store("file"), "5:10", "has to be a folder");
    refused(&home, &format!("{durable}[store]\nfolder = ''\n"), "5:10", "the folder has no name");
    accepted(&home, &store("new"));
    assert!(!home.file("new").exists(), "a check makes nothing");
    // Without `folder`, the store is below HOME.
    std::fs::create_dir(home.file(".local")).unwrap();
    std::fs::write(home.file(".local/state"), "x").unwrap();
    refused(&home, durable, "3:11", "cannot use ");
    refused(&home, "[[channel]]\nname = 'all'\nkeep_retained = true\n", "3:17", "cannot use ");
    accepted(&home, "");
    // One that another broker has.
    let broker = Broker::new(&home, "other", free_ports(1)[0], "c", durable).started();
    refused(&home, &store("other.store"), "5:10", "another broker uses this folder");
    // The broker of the file itself may run.
    let output = whimbrel(&home).args(["broker", "check"]).arg(home.file("other.toml")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drop(broker);
}

#[test]
fn regression_a_control_socket_or_activity_log_in_no_folder_is_refused() {
    let home = Home::new("check-service");
    for setting in ["control", "activity"] {
        let service = |place: &str| format!("[service]\n{setting} = '{}'\n", home.file(place).display());
        refused(&home, &service("nowhere/file"), &format!("2:{}", setting.len() + 4), "make it first");
        accepted(&home, &service("file"));
    }
    accepted(&home, "[service]\ncontrol = 'broker.sock'\n");
}

#[test]
fn regression_what_run_refuses_check_refuses() {
    let home = Home::new("check-run");
    let bridge =
        "[[channel]]\nname = 'fish'\ntopics = 'fish/#'\n[[bridge]]\nname = 'b'\nurl = 'mqtt://127.0.0.1:1'\n";
    let text = format!("{bridge}out = [{{ filter = 'birds/#' }}]\n");
    refused(&home, &text, "7:19", "no channel of this broker has topics that match `birds/#`");
    let output = whimbrel(&home).args(["broker", "run", "--config"]).arg(home.file("broker.toml")).output();
    assert_fails(&output.unwrap(), "broker.toml:7:19: ");
    refused(&home, "[listen]\naddress = '0.0.0.0:4433'\n", "2:11", "no client may do anything");
    refused(&home, "[[channel]]\nname = 'a'\nreplicas = 2\n", "3:12", "durable = true");
}
