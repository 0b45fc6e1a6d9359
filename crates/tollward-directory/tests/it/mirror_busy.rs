//! Who asks a mirror, and who decides, never waits for what it is putting in force.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};

use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;
use tollward_core::Timestamp;
use tollward_directory::Mirror;
use tollward_engine::{Clock, Engine};
use tollward_policy::compile;
use tollward_store::MemoryStore;

use crate::node::{SOON, change, settings};
use crate::places::{NOW, Place, setting, token};

/// A clock that stands still. Held, whoever reads it waits, but not the thread that made it.
struct HeldClock {
    free: ThreadId,
    is_held: Mutex<bool>,
    released: Condvar,
    /// Somebody waits.
    is_waited_for: AtomicBool,
}

impl HeldClock {
    fn new() -> Self {
        Self {
            free: thread::current().id(),
            is_held: Mutex::new(false),
            released: Condvar::new(),
            is_waited_for: AtomicBool::new(false),
        }
    }

    fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.released.notify_all();
    }
}

impl Clock for HeldClock {
    fn now(&self) -> Timestamp {
        if thread::current().id() != self.free {
            let mut is_held = self.is_held.lock().unwrap();
            while *is_held {
                self.is_waited_for.store(true, SeqCst);
                is_held = self.released.wait(is_held).unwrap();
            }
        }
        Timestamp::from_micros(NOW.unsigned_abs() * 1000)
    }
}

/// By its clock, the mirror stands still in the midst of what comes about by time, as it does while that
/// takes long: on another thread than the only one that answers, and that one goes on.
#[tokio::test]
async fn what_comes_about_by_time_holds_up_nobody() {
    let directory = Place::memory().open().await;
    change(&directory, async |edit| {
        edit.put_token(token("t1")).await.unwrap();
        let off = setting("enforcement", "off");
        edit.put_setting(off).await.unwrap();
    })
    .await;
    let clock = Arc::new(HeldClock::new());
    let policy = compile(b"{}").unwrap().policy;
    let store = Arc::new(MemoryStore::new(10));
    let engine = Arc::new(Engine::new(policy, store, clock.clone()));
    let mirror = Mirror::start(directory, engine, &settings(false));
    timeout(SOON, mirror.caught_up(1)).await.unwrap();
    clock.hold(true);
    let waits = async {
        while !clock.is_waited_for.load(SeqCst) {
            yield_now().await;
        }
    };
    timeout(SOON, waits).await.unwrap();

    let asked = spawn_blocking({
        let mirror = mirror.clone();
        move || {
            let mut sha = [0; 32];
            sha[..2].copy_from_slice(b"t1");
            let token = mirror.token(&sha, NOW).map(|holder| holder.name);
            let mode = mirror.setting("enforcement").map(|it| it.value);
            (token, mode, mirror.oddities().len())
        }
    });
    let asked = timeout(SOON, asked).await;
    // Here the clock can be read.
    let health = mirror.health();
    clock.hold(false);
    let (token, mode, oddities) = asked.unwrap().unwrap();
    assert_eq!(
        (token.as_deref(), mode.as_deref()),
        (Some("ci"), Some("off"))
    );
    assert_eq!(oddities, 0);
    assert!(health.loaded && health.connected);
}
