//! Limits that make requests wait or let them through more cheaply, and costs that change afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollward_engine::{Action, Count, Decision, Engine, Mode, Reason, Receipt};
use tollward_policy::{Charges, Facts, compile};
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::at_once;

/// What is looked at of a decision.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    action: Action,
    wait_ms: Option<u64>,
    remaining: Option<u32>,
}

struct Decided<'a, 'p> {
    decision: Decision<'p>,
    charges: Option<&'a Charges<'p>>,
}

impl Decided<'_, '_> {
    /// What is left of each limit.
    fn left(&self) -> Vec<u32> {
        self.decision.limits.iter().map(|it| it.remaining).collect()
    }

    fn receipt(&self) -> Option<Receipt> {
        Receipt::new(&self.decision, self.charges?)
    }
}

struct Scene {
    engine: Engine,
    clock: Arc<ManualClock>,
}

impl Scene {
    fn new(config: &str) -> Self {
        let policy = compile(config.as_bytes()).expect("valid").policy;
        let clock = Arc::new(ManualClock::new());
        let store = Arc::new(MemoryStore::new(10_000));
        Self {
            engine: Engine::new(policy, store, clock.clone()),
            clock,
        }
    }

    fn decide<T>(&self, cost: u32, look: impl FnOnce(&Decided<'_, '_>) -> T) -> T {
        self.decide_at(None, cost, look)
    }

    fn decide_at<T>(
        &self,
        path: Option<&str>,
        cost: u32,
        look: impl FnOnce(&Decided<'_, '_>) -> T,
    ) -> T {
        let active = self.engine.active();
        let facts = Facts {
            tenant: Some("acme"),
            cost,
            path,
            ..Facts::default()
        };
        let request = active.policy().request(&facts).unwrap();
        let charges = request.payable();
        let charges = charges.as_ref();
        let decided = self.engine.decide(&active, &request, charges, Mode::Charge);
        look(&Decided {
            decision: at_once(decided),
            charges,
        })
    }

    fn ask(&self, cost: u32) -> Seen {
        self.decide(cost, |decided| Seen {
            action: decided.decision.action,
            wait_ms: decided.decision.wait_us.map(|wait| wait.div_ceil(1000)),
            remaining: decided.decision.shown().map(|it| it.remaining),
        })
    }

    fn advance_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }
}

fn allowed(remaining: u32) -> Seen {
    Seen {
        action: Action::Allow,
        wait_ms: None,
        remaining: Some(remaining),
    }
}

fn queued(wait_ms: u64) -> Seen {
    Seen {
        action: Action::Queue,
        wait_ms: Some(wait_ms),
        remaining: Some(0),
    }
}

fn denied(wait_ms: u64) -> Seen {
    Seen {
        action: Action::Deny,
        wait_ms: Some(wait_ms),
        remaining: Some(0),
    }
}

const QUEUE: &str = "limits: { q: { sustained: { rate: 10 }, burst: { capacity: 2 }, strategy: queue, \
                     queue: { max_wait: 300ms, max_queue: 100 } } }";

#[test]
fn an_empty_bucket_makes_requests_wait_their_turn() {
    let scene = Scene::new(QUEUE);
    assert_eq!(scene.ask(1), allowed(1));
    assert_eq!(scene.ask(1), allowed(0));
    assert_eq!(scene.ask(1), queued(100));
    assert_eq!(scene.ask(1), queued(200));
    assert_eq!(scene.ask(1), queued(300));
    // 300 ms are the most. In 100 ms there is room for one more.
    assert_eq!(scene.ask(1), denied(100));
    scene.advance_ms(100);
    assert_eq!(scene.ask(1), queued(300));
    assert_eq!(scene.ask(1), denied(100));
    // All who waited are served by then, and one token is back.
    scene.advance_ms(400);
    assert_eq!(scene.ask(1), allowed(0));
}

#[test]
fn a_queue_is_no_longer_than_it_may_be() {
    let config = QUEUE.replace("max_queue: 100", "max_queue: 2");
    let scene = Scene::new(&config.replace("300ms", "1h"));
    for seen in [
        allowed(1),
        allowed(0),
        queued(100),
        queued(200),
        denied(100),
    ] {
        assert_eq!(scene.ask(1), seen);
    }
}

#[test]
fn what_costs_more_than_a_limit_holds_does_not_wait_for_it() {
    let scene = Scene::new(&QUEUE.replace("300ms", "1h"));
    scene.decide(3, |decided| {
        assert_eq!(decided.decision.reason, Some(Reason::CostExceedsCapacity));
    });
    assert_eq!(scene.ask(1), allowed(1));
}

#[test]
fn a_peek_says_the_wait_and_takes_nothing() {
    let scene = Scene::new(QUEUE);
    let (_, _) = (scene.ask(1), scene.ask(1));
    for _ in 0..3 {
        let active = scene.engine.active();
        let facts = Facts {
            tenant: Some("acme"),
            ..Facts::default()
        };
        let decision = at_once(scene.engine.check(&active, &facts, Mode::Peek)).unwrap();
        assert_eq!(decision.action, Action::Queue);
        assert_eq!(decision.retry_after_ms(), Some(100));
    }
}

#[test]
fn whoever_leaves_the_queue_gives_its_tokens_back() {
    let scene = Scene::new(QUEUE);
    let (_, _) = (scene.ask(1), scene.ask(1));
    let mut receipt = scene.decide(1, |decided| decided.receipt().unwrap());
    assert_eq!(scene.ask(1), queued(200));
    let active = scene.engine.active();
    at_once(scene.engine.settle(&active, &receipt.change_to(0))).unwrap();
    assert_eq!(scene.ask(1), queued(200));
}

const DEGRADE: &str = "limits: { cheap: { sustained: { rate: 10 }, burst: { capacity: 2 }, strategy: degrade }, \
                       hard: { sustained: { rate: 1 }, burst: { capacity: 4 } } }";

#[test]
fn an_empty_degrading_limit_lets_through_uncharged_and_the_others_decide() {
    let scene = Scene::new(DEGRADE);
    let degraded = |decided: &Decided<'_, '_>| {
        let decision = &decided.decision;
        let name = decision
            .degraded
            .map(|index| &*decision.limits[index].limit.name);
        (decision.action, name.map(str::to_owned))
    };
    let cheap = Some("limit:cheap".to_owned());
    assert_eq!(scene.decide(1, degraded), (Action::Allow, None));
    assert_eq!(scene.decide(1, degraded), (Action::Allow, None));
    assert_eq!(scene.decide(1, degraded), (Action::Degrade, cheap.clone()));
    assert_eq!(scene.decide(1, degraded), (Action::Degrade, cheap));
    // The other limit is empty now, and a refusal is not degraded.
    assert_eq!(scene.decide(1, degraded), (Action::Deny, None));
    // Nothing was charged to the degrading one while it was empty: in 200 ms it is full.
    scene.advance_ms(1000);
    scene.decide(1, |decided| {
        assert_eq!(decided.decision.action, Action::Allow);
        assert_eq!(decided.decision.limits[0].remaining, 1);
    });
}

#[test]
fn more_than_a_degrading_limit_holds_is_refused() {
    let scene = Scene::new(DEGRADE);
    scene.decide(3, |decided| {
        assert_eq!(decided.decision.reason, Some(Reason::CostExceedsCapacity));
    });
}

/// The name of the limit to show, and what is left of it.
fn shown(decided: &Decided<'_, '_>) -> Option<(String, u32)> {
    let status = decided.decision.shown()?;
    Some((status.limit.name.to_string(), status.remaining))
}

#[test]
fn a_degrading_limit_is_shown_like_any_other() {
    let scene = Scene::new(DEGRADE);
    let cheap = |remaining| Some(("limit:cheap".to_owned(), remaining));
    assert_eq!(scene.decide(0, shown), cheap(2));
    assert_eq!(scene.decide(1, shown), cheap(1));
    assert_eq!(scene.decide(1, shown), cheap(0));
    assert_eq!(scene.decide(1, shown), cheap(0));
    assert_eq!(scene.decide(1, shown), cheap(0));
    // It has tokens again, but `hard` has none and refuses.
    scene.advance_ms(200);
    assert_eq!(scene.decide(1, shown), Some(("limit:hard".to_owned(), 0)));
    // `hard` admits one request now, `cheap` two.
    scene.advance_ms(800);
    assert_eq!(scene.decide(0, shown), Some(("limit:hard".to_owned(), 1)));
}

#[test]
fn shadow_limits_are_never_the_limit_to_show() {
    let scene = Scene::new(&format!("enforcement: shadow\n{DEGRADE}"));
    for _ in 0..6 {
        assert_eq!(scene.decide(1, shown), None);
    }
    let scene = Scene::new(
        "limits: { trial: { sustained: { rate: 1 }, shadow: true }, \
         cheap: { sustained: { rate: 9 }, strategy: degrade } }",
    );
    for remaining in (0..9).rev() {
        let cheap = Some(("limit:cheap".to_owned(), remaining));
        assert_eq!(scene.decide(1, shown), cheap);
    }
}

#[test]
fn in_shadow_nothing_waits_and_nothing_degrades() {
    for config in [QUEUE, DEGRADE] {
        let scene = Scene::new(&format!("enforcement: shadow\n{config}"));
        for _ in 0..10 {
            scene.decide(1, |decided| {
                assert_eq!(decided.decision.action, Action::Allow);
                assert_eq!(decided.decision.degraded, None);
            });
        }
    }
}

const PRICED: &str =
    "limits: { l: { sustained: { rate: 1, window: hour }, burst: { capacity: 100 }, cost: 2 } }";

#[test]
fn a_cost_that_turns_out_otherwise_is_charged_or_given_back() {
    let scene = Scene::new(PRICED);
    let active = scene.engine.active();
    let mut receipt = scene.decide(10, |decided| decided.receipt().unwrap());
    let remaining = || scene.ask(0).remaining.unwrap();
    let mut settle = |cost: u64| {
        let change = receipt.change_to(cost);
        at_once(scene.engine.settle(&active, &change)).unwrap();
    };
    assert_eq!(remaining(), 80);
    settle(25);
    assert_eq!(remaining(), 50);
    settle(25);
    assert_eq!(remaining(), 50);
    settle(3);
    assert_eq!(remaining(), 94);
    // More than there is: a debt, of 40 beyond the capacity.
    settle(70);
    assert_eq!(remaining(), 0);
    settle(50);
    assert_eq!(remaining(), 0);
    settle(45);
    assert_eq!(remaining(), 10);
    settle(0);
    assert_eq!(remaining(), 100);
}

#[test]
fn a_request_that_asked_for_nothing_can_be_charged_afterwards() {
    let scene = Scene::new(PRICED);
    let active = scene.engine.active();
    let mut receipt = scene.decide(0, |decided| decided.receipt().unwrap());
    at_once(scene.engine.settle(&active, &receipt.change_to(5))).unwrap();
    assert_eq!(scene.ask(0).remaining, Some(90));
}

/// The settled cost is absolute: the route's cost was a first estimate and does not multiply it.
#[test]
fn a_settled_cost_is_not_multiplied_by_the_route() {
    let config = "
limits:
  tokens: { scope: global, sustained: { rate: 1, window: hour }, burst: { capacity: 10000 } }
  double: { scope: global, sustained: { rate: 1, window: hour }, burst: { capacity: 10000 }, cost: 2 }
routes: [{ match: /generate, cost: 4000 }, { match: /free, cost: 0 }]
";
    let scene = Scene::new(config);
    let active = scene.engine.active();
    let left = || scene.decide(0, |decided| decided.left());
    let pay = |path| scene.decide_at(Some(path), 1, |decided| decided.receipt().unwrap());
    let settle = |receipt: &mut Receipt, tokens| {
        at_once(scene.engine.settle(&active, &receipt.change_to(tokens))).unwrap();
        assert_eq!(receipt.tokens(), tokens);
    };
    let mut receipt = pay("/generate");
    assert_eq!((receipt.tokens(), left()), (4000, vec![6000, 2000]));
    settle(&mut receipt, 1200);
    assert_eq!(left(), [8800, 7600]);
    settle(&mut receipt, 4500);
    assert_eq!(left(), [5500, 1000]);
    settle(&mut receipt, 0);
    assert_eq!(left(), [10_000, 10_000]);
    // A route that costs nothing at first can cost something in the end.
    let mut receipt = pay("/free");
    assert_eq!((receipt.tokens(), left()), (0, vec![10_000, 10_000]));
    settle(&mut receipt, 7);
    assert_eq!(left(), [9993, 9986]);
    settle(&mut receipt, 0);
    assert_eq!(left(), [10_000, 10_000]);
}

/// Costs beyond what a bucket can hold are capped, and the cap is given back once, not twice.
#[test]
fn a_settled_cost_beyond_all_bounds_is_given_back_as_it_was_charged() {
    let config = "limits: { l: { scope: global, sustained: { rate: 1, window: hour }, burst: { capacity: 100 }, cost: 1000 } }";
    let scene = Scene::new(config);
    let active = scene.engine.active();
    let mut receipt = scene.decide(0, |decided| decided.receipt().unwrap());
    let mut settle = |tokens| {
        at_once(scene.engine.settle(&active, &receipt.change_to(tokens))).unwrap();
        scene.ask(0).remaining
    };
    assert_eq!(settle(u64::MAX), Some(0));
    // Still more than any bucket holds, so still all of the debt.
    assert_eq!(settle(u64::from(u32::MAX)), Some(0));
    assert_eq!(settle(1), Some(0));
    assert_eq!(settle(0), Some(100));
}

#[test]
fn what_was_not_taken_is_not_given_back() {
    let scene = Scene::new(DEGRADE);
    let active = scene.engine.active();
    let (_, _) = (scene.ask(1), scene.ask(1));
    let mut receipt = scene.decide(1, |decided| decided.receipt().unwrap());
    at_once(scene.engine.settle(&active, &receipt.change_to(0))).unwrap();
    scene.decide(0, |decided| {
        assert_eq!(decided.left(), [0, 2]);
    });
}

#[test]
fn wrong_keys_are_counted_by_address_and_by_nothing_else() {
    let scene = Scene::new(PRICED);
    let active = scene.engine.active();
    let wrong = |ip: &str| {
        let ip: IpAddr = ip.parse().unwrap();
        at_once(scene.engine.wrong_key(&active, ip)).allowed
    };
    for _ in 0..20 {
        assert!(wrong("2001:db8::1"));
    }
    assert!(!wrong("2001:db8::1"));
    assert!(!wrong("2001:db8::ffff"));
    assert!(wrong("2001:db8:0:1::1"));
    scene.advance_ms(6_000);
    assert!(wrong("2001:db8::2"));
    assert!(!wrong("2001:db8::1"));
    assert_eq!(scene.ask(0).remaining, Some(100));
}

#[test]
fn what_is_settled_later_is_taken_however_much_it_is() {
    let config = "
limits:
  dear: { sustained: { rate: 1, window: hour }, burst: { capacity: 100 }, cost: 1000000 }
  cheap: { sustained: { rate: 1, window: hour }, burst: { capacity: 1000 } }
  window: { algorithm: sliding_window, sustained: { rate: 100, window: hour } }
";
    let scene = Scene::new(config);
    let active = scene.engine.active();
    let mut receipt = scene.decide(0, |decided| decided.receipt().unwrap());
    // More than any bucket can tell for the first, and more than the window has.
    at_once(scene.engine.settle(&active, &receipt.change_to(500))).unwrap();
    scene.decide(0, |decided| {
        assert_eq!(decided.left(), [0, 500, 100]);
    });
    at_once(scene.engine.settle(&active, &receipt.change_to(50_000))).unwrap();
    scene.decide(0, |decided| {
        assert_eq!(decided.decision.limits[0].remaining, 0);
        assert_eq!(decided.decision.limits[1].remaining, 0);
    });
}

#[test]
fn of_several_that_degrade_the_one_that_knows_where_counts() {
    let config = "
upstreams: { cheap: { url: http://127.0.0.1:1 } }
limits:
  a: { sustained: { rate: 1 }, strategy: degrade }
  b: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: cheap } }
  q: { sustained: { rate: 10 }, burst: { capacity: 1 }, strategy: queue }
";
    let scene = Scene::new(config);
    scene.ask(1);
    scene.decide(1, |decided| {
        let decision = &decided.decision;
        let index = decision.degraded.unwrap();
        assert_eq!(&*decision.limits[index].limit.name, "limit:b");
        assert_eq!(decision.action, Action::Queue);
    });
    let active = scene.engine.active();
    let degraded = |name: &str| {
        let (_, tally) = active.tallies().find(|(it, _)| *it == name).unwrap();
        tally.sum(Count::Degraded)
    };
    assert_eq!((degraded("limit:a"), degraded("limit:b")), (1, 1));
}
