//! Secrets leave no copy in freed memory: each block that is freed is searched for parts of them.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use whimbrel::{Config, Endpoint, Identity, SealError, Secret, SuspendMode, SuspendedMocket};
use whimbrel_service::ListenOptions;
use whimbrel_service::key::{load, read_psk, save_new};
use whimbrel_testing::searching::{self, LENGTH, Searching};

#[global_allocator]
static ALLOCATOR: Searching = Searching;

const KEY: [u8; 32] = *b"\x01secret key of who listens, 32b\x02";
const CLIENT_KEY: [u8; 32] = *b"\x01secret key of who connects, 32\x02";
const PSK: [u8; 32] = *b"\x01a pre-shared key for both ends\x02";
const SALT: [u8; 32] = *b"\x01the salt of the reset tokens, \x02";
const PASSPHRASE: &str = "open sesame and the door will do so";

const fn digits(secret: &[u8; 32]) -> [u8; 64] {
    let mut text = [0; 64];
    let mut at = 0;
    while at < text.len() {
        let half = if at % 2 == 0 { secret[at / 2] >> 4 } else { secret[at / 2] & 0xf };
        text[at] = b"0123456789abcdef"[half as usize];
        at += 1;
    }
    text
}

/// Searches for the middle of a secret and for its end.
fn watch(secret: &[u8]) {
    let middle = &secret[secret.len() / 2..];
    searching::watch([middle.first_chunk().unwrap(), secret.last_chunk::<LENGTH>().unwrap()]);
}

fn require_none(step: &str) {
    assert_eq!(searching::hits(), 0, "{step} left secrets in freed memory");
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("whimbrel-wiped-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a private file from parts, without a copy of them.
    fn write(&self, name: &str, parts: &[&[u8]]) -> PathBuf {
        let path = self.0.join(name);
        let mut file = File::create(&path).unwrap();
        parts.iter().for_each(|part| file.write_all(part).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn files(folder: &Folder) {
    let key = folder.0.join("key");
    save_new(&key, &Identity::from_secret(KEY)).unwrap();
    assert_eq!(load(&key).unwrap().secret(), &KEY);
    require_none("the key file");
    let psk = folder.write("psk", &[&digits(&PSK), b"\n"]);
    assert!(read_psk(Some(&psk)).unwrap().is_some());
    require_none("the pre-shared key");
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    // On the stack, because the runtime would box it, and what is moved out of a future leaves a copy there. The tasks
    // end with the runtime.
    runtime.block_on(pin!(work))
}

/// A configuration with these secrets. This test's own copies of them lie on the stack, and what is moved from there
/// into a block could take them along: they are overwritten.
fn config(key: [u8; 32]) -> Config {
    #[inline(never)]
    fn build(key: [u8; 32]) -> Config {
        Config::default().identity(Identity::from_secret(key)).psk(Some(Secret::new(PSK)))
    }
    let config = build(key);
    clear_stack();
    config
}

#[inline(never)]
fn clear_stack() {
    black_box(&mut [0_u8; 256 * 1024]);
}

/// An endpoint without connections, which is freed whole.
async fn endpoint(config: Config) {
    drop(Endpoint::bind(config, "127.0.0.1:0").await.unwrap());
}

/// A whole handshake, with everything from files at the end that listens. The other end suspends the session.
async fn connection(config: Config, folder: &Path, port: u16) -> SuspendedMocket {
    let options = ListenOptions::new(Config::default()).address(([127, 0, 0, 1], port).into());
    let server = options.key(folder.join("key")).psk(folder.join("psk")).listen(drop).await.unwrap();
    let client = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let near = client.connect(&server.url.to_string()).await.unwrap();
    let far = server.endpoint.accept().await.unwrap();
    near.send("hello").await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload, "hello");
    let suspended = near.suspend(SuspendMode::Snapshot).await.unwrap();
    drop((near, far));
    client.close(0, "", Duration::from_secs(1)).await;
    server.endpoint.close(0, "", Duration::from_secs(1)).await;
    suspended
}

/// The place of the session's secret in the bytes of a suspended session.
const SECRET: std::ops::Range<usize> = 29..61;

fn states(suspended: SuspendedMocket) {
    let mut bytes = suspended.to_bytes();
    watch(&bytes[SECRET]);
    clear_stack();
    assert_eq!(SuspendedMocket::from_bytes(&bytes).unwrap().peer_key(), suspended.peer_key());
    *bytes.last_mut().unwrap() ^= 1;
    assert!(SuspendedMocket::from_bytes(&bytes).is_err());
    // It is the caller's to wipe.
    bytes.fill(0);
    require_none("reading a suspended session");
    let sealed = suspended.seal(PASSPHRASE).unwrap();
    require_none("sealing a suspended session");
    assert_eq!(SuspendedMocket::open(&sealed, "another").err(), Some(SealError::DoesNotOpen));
    drop(SuspendedMocket::open(&sealed, PASSPHRASE).unwrap());
    drop(suspended);
    require_none("opening a sealed session");
}

#[test]
fn secrets_leave_no_copy_in_freed_memory() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for secret in [KEY, CLIENT_KEY, PSK, SALT] {
        watch(&secret);
        watch(&digits(&secret));
    }
    watch(PASSPHRASE.as_bytes());
    clear_stack();
    let folder = Folder::new();
    files(&folder);
    let salt = format!("key.salt-127.0.0.1-{port}");
    folder.write(&salt, &[b"whimbrel-reset-salt ", &digits(&SALT), b"\n"]);
    clear_stack();
    run(endpoint(config(KEY).reset_salt(Some(Secret::new(SALT)))));
    require_none("an endpoint");
    let suspended = run(connection(config(CLIENT_KEY), &folder.0, port));
    require_none("a connection");
    states(suspended);

    // The search finds what is there.
    drop(KEY.to_vec());
    assert_eq!(searching::hits(), 1);
}
