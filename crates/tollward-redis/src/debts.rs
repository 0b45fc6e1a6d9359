//! What was spent while Redis was away is made good when it is back.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::key::KeyName;
use crate::local::Debt;
use crate::part::{Op, Part, PartCharge};
use crate::queue::{Failure, Job, Ticket};
use crate::store::Inner;

/// How often debts are looked at; whoever comes back is also looked at once.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Few enough not to be in the way of requests.
const AT_ONCE: usize = 512;

/// Settles debts for ever.
pub(crate) async fn settle(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = inner.shared.recovered.notified() => {}
        }
        while settle_some(&inner).await {}
    }
}

/// Whether there may be more.
async fn settle_some(inner: &Inner) -> bool {
    // The debts are locked while they are looked through, and decisions wait for them.
    let lanes = inner.shards.lanes();
    if !lanes.iter().any(|lane| lane.is_up()) {
        return false;
    }
    let all_up = lanes.iter().all(|lane| lane.is_up());
    let is_up = |key: &KeyName| {
        if all_up {
            return true;
        }
        let lane = inner.shards.lane(inner.shards.slot(key));
        lane.is_some_and(|lane| lane.is_up())
    };
    let now = (inner.shared.now)();
    let mut waiting = Vec::new();
    let debts = inner.local.take_debts(AT_ONCE, is_up);
    let taken = debts.len();
    let mut more = taken == AT_ONCE;
    for (key, debt) in debts {
        let cost = debt.tokens(now);
        if cost == 0 {
            continue;
        }
        match send(inner, key, &debt, cost) {
            Some(ticket) => waiting.push((ticket, key, debt, cost)),
            None => {
                more = false;
                owe_again(inner, key, &debt, cost);
            }
        }
    }
    for (ticket, key, debt, cost) in waiting {
        match ticket.answer.await {
            Ok(Ok(_)) => inner.shared.stats.settled.add(cost),
            // Not executed: later.
            Ok(Err(failure)) if failure != Failure::Unknown => {
                more = false;
                owe_again(inner, key, &debt, cost);
            }
            // Perhaps executed: never twice.
            _ => inner.shared.stats.debts_dropped.increment(),
        }
    }
    inner.local.arrived(taken);
    more
}

/// Puts a debt back that could not be made good, on top of what is owed since.
fn owe_again(inner: &Inner, key: KeyName, debt: &Debt, cost: u64) {
    let now = (inner.shared.now)();
    if !inner.local.owe_again(key, debt, cost, now) {
        inner.shared.stats.debts_dropped.increment();
    }
}

fn send(inner: &Inner, key: KeyName, debt: &Debt, cost: u64) -> Option<Ticket> {
    let slot = inner.shards.slot(&key);
    let charge = PartCharge {
        key,
        limit: debt.limit,
        cost,
        shadow: false,
    };
    let now = (inner.shared.now)();
    let sent = inner.shards.lane(slot)?.queue.push(|reply| Job {
        part: Part {
            op: Op::Settle,
            charges: SmallVec::from_slice(&[charge]),
            traces: Vec::new(),
        },
        slot,
        alone: false,
        asking: false,
        now,
        reply: Some(reply),
    });
    sent.ok()
}
