//! The whole engine: facts, policy, store, clock, counters.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollward_engine::{Engine, Mode, SystemClock};
use tollward_policy::Facts;
use tollward_store::MemoryStore;

use crate::keys::Keys;
use crate::policy::{AS_SHIPPED, DEFAULT_MAX_BUCKETS, USERS, compiled, generous};
use crate::store::THREADS;
use crate::table::{Row, Table};
use crate::turns::{Effort, interleave, throughput};

pub(crate) fn run(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let admitting = engine(&generous()?)?;
    let refusing = engine(AS_SHIPPED)?;
    for threads in THREADS {
        let [admitted, refused] = interleave(
            effort.rounds,
            [&|| drive(&admitting, threads, effort), &|| {
                drive(&refusing, threads, effort)
            }],
        );
        for (what, per_second) in [
            ("engine, admitted", admitted),
            ("engine, nearly all refused", refused),
        ] {
            table.push(Row::time(what, per_second).grid(USERS, threads));
        }
    }
    Ok(())
}

fn engine(policy: &str) -> anyhow::Result<Engine> {
    let store = Arc::new(MemoryStore::new(DEFAULT_MAX_BUCKETS));
    let clock = Arc::new(SystemClock::new());
    Ok(Engine::new(compiled(policy)?, store, clock))
}

fn drive(engine: &Engine, threads: usize, effort: Effort) -> f64 {
    throughput(threads, effort.turn, |thread| {
        let mut users = Keys::new(USERS, thread);
        move || {
            let facts = Facts {
                plan: Some("free"),
                user: Some(users.next()),
                method: Some("POST"),
                path: Some("/v1/chat/completions"),
                ..Facts::default()
            };
            let active = engine.active();
            let decision = at_once(engine.check(&active, &facts, Mode::Charge));
            assert!(black_box(decision).is_some_and(|decision| decision.is_ok()));
        }
    })
}

/// The answer of a future that has nothing to wait for.
pub(crate) fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
