//! The configuration file of commands that listen, as those who run them see it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::path::PathBuf;
use std::process::Output;

use common::{Home, Running, whimbrel};
use whimbrel::{CloseReason, Config, Endpoint, Mocket, PublicKey, new_identity};

fn write(home: &Home, text: &str) -> PathBuf {
    let path = home.file("settings.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn check(home: &Home, text: &str) -> Output {
    whimbrel(home).arg("check").arg(write(home, text)).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file with a control socket that lets this key in, and more lines of `[listen]`.
fn letting_in(home: &Home, key: PublicKey, more: &str) -> String {
    let control = home.file("control");
    format!(
        "[listen]\naddress = '127.0.0.1:0'\nallow = ['{key}']\n{more}\n[service]\ncontrol = '{}'\n",
        control.display()
    )
}

fn serve(home: &Home, more: &[&str]) -> Running {
    let mut command = whimbrel(home);
    command.args(["perf", "serve", "--config"]).arg(home.file("settings.toml")).args(more);
    Running::listening(&mut command)
}

fn reload(home: &Home) -> Output {
    whimbrel(home).arg("reload").arg(home.file("control")).output().unwrap()
}

#[test]
fn a_file_is_checked_and_its_mistakes_are_shown() {
    let home = Home::new("config-check");
    let good = check(&home, include_str!("../../../docs/whimbrel.toml"));
    assert_eq!((good.status.code(), text(&good.stderr)), (Some(0), String::new()));
    assert!(text(&good.stdout).ends_with("settings.toml has no mistake\n"), "{good:?}");
    let bad = check(&home, "[transport]\n# Too short.\nidle_timeout = 5\n");
    let shown = text(&bad.stderr);
    assert_eq!((bad.status.code(), text(&bad.stdout)), (Some(2), String::new()));
    assert!(shown.contains("settings.toml:3:16: `5` is not a duration") && shown.contains("50ms"), "{shown}");
    assert!(shown.ends_with("3 | idle_timeout = 5\n  |                ^\n"), "{shown}");
    let missing = whimbrel(&home).args(["check", "nowhere.toml"]).output().unwrap();
    assert!(
        missing.status.code() == Some(2) && text(&missing.stderr).contains("nowhere.toml"),
        "{missing:?}"
    );
    // The commands themselves say the same.
    for line in [["perf", "serve"], ["cat", "listen"]] {
        let refused =
            whimbrel(&home).args(line).arg("--config").arg(home.file("settings.toml")).output().unwrap();
        assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(2), shown.clone()), "{line:?}");
    }
}

#[test]
fn a_file_says_where_to_listen_and_the_command_line_wins() {
    let home = Home::new("config-wins");
    let key = home.file("key");
    assert!(whimbrel(&home).args(["key", "new", "--out"]).arg(&key).status().unwrap().success());
    let shown = whimbrel(&home).args(["key", "show"]).arg(&key).output().unwrap();
    let public = text(&shown.stdout).trim().to_owned();
    let file =
        format!("[listen]\naddress = '127.0.0.2:0'\nkey = '{}'\n[transport]\nmax_paths = 1\n", key.display());
    write(&home, &file);
    let server = serve(&home, &[]);
    assert!(server.listening.starts_with(&format!("whimbrel://{public}@127.0.0.2:")), "{}", server.listening);
    let run = whimbrel(&home).args(["perf", "run", &server.listening, "--bytes", "1000"]).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let other = serve(&home, &["--listen", "127.0.0.1:0"]);
    assert!(other.listening.starts_with(&format!("whimbrel://{public}@127.0.0.1:")), "{}", other.listening);
    let mut cat = whimbrel(&home);
    let cat = Running::noting(cat.args(["cat", "listen", "--config"]).arg(home.file("settings.toml")));
    assert!(cat.listening.contains("@127.0.0.2:"), "{}", cat.listening);
}

async fn connect(identity: &whimbrel::Identity, url: &str) -> (Endpoint, Mocket) {
    let endpoint = Endpoint::bind(Config::default().identity(identity.clone()), "127.0.0.1:0").await.unwrap();
    let mocket = endpoint.connect(url).await.unwrap();
    (endpoint, mocket)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reload_changes_who_may_connect_and_says_what_needs_a_restart() {
    let home = Home::new("config-reload");
    let [first, second] = [new_identity(), new_identity()];
    write(&home, &letting_in(&home, first.public(), ""));
    let server = serve(&home, &[]);
    let same = reload(&home);
    assert_eq!(text(&same.stdout).trim(), "nothing has changed", "{same:?}");
    let (_endpoint, mocket) = connect(&first, &server.listening).await;

    write(&home, "[listen]\nallow = 'everybody'\n");
    let refused = reload(&home);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("settings.toml:2:9: "), "{refused:?}");
    assert!(!mocket.is_closed(), "a file with a mistake changes nothing");

    write(&home, &letting_in(&home, second.public(), "max_per_key = 7"));
    let reloaded = reload(&home);
    let wanted = "1 key may connect now; 1 session ended; a restart is needed for listen.max_per_key";
    assert_eq!((reloaded.status.code(), text(&reloaded.stdout).trim()), (Some(0), wanted));
    assert!(matches!(mocket.closed().await, CloseReason::Aborted(whimbrel::Cause::Refused, _)));
    let (_endpoint, mocket) = connect(&second, &server.listening).await;

    // SIGHUP does the same; a denied key is out even if it is on the list.
    let deny = format!("deny = ['{}']", second.public());
    write(&home, &letting_in(&home, second.public(), &deny));
    server.signal("-HUP");
    assert!(matches!(mocket.closed().await, CloseReason::Aborted(whimbrel::Cause::Refused, _)));
    server.signal("-TERM");
    let (code, _, errors) = server.end();
    assert!(
        code == Some(0) && errors.contains("1 key may connect now and 1 is denied; 1 session ended"),
        "{errors}"
    );
}

#[test]
fn the_page_on_services_shows_the_example_that_is_compiled() {
    let example = include_str!("../../whimbrel-service/examples/greeter.rs");
    assert!(
        include_str!("../../../docs/service.md").contains(example),
        "docs/service.md has another `greeter`"
    );
}
