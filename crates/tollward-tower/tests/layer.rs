//! The layer around services, called as a server would call it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollward_engine::{Count, Engine};
use tollward_http::Peer;
use tollward_policy::compile;
use tollward_store::MemoryStore;
use tollward_testkit::clock::ManualClock;
use tollward_tower::{Address, Body, Gate, RateLimit, RateLimitLayer, Toll};
use tower_layer::Layer;
use tower_service::Service;

type Answer = Response<Body<Full<Bytes>>>;

fn engine(config: &str) -> (Arc<Engine>, Arc<ManualClock>) {
    let compiled = compile(config.as_bytes()).unwrap_or_else(|faults| panic!("{faults:?}"));
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(MemoryStore::new(10_000));
    let engine = Engine::new(compiled.policy, store, clock.clone());
    (Arc::new(engine), clock)
}

fn from(ip: &str) -> Request<()> {
    let mut request = Request::new(());
    let address = SocketAddr::new(ip.parse().unwrap(), 50_000);
    request.extensions_mut().insert(Peer::new(address, false));
    request
}

/// A service that does `work` with the toll of each request.
fn service<W, F>(layer: &RateLimitLayer, work: W) -> RateLimit<Worker<W>>
where
    W: Fn(Toll) -> F + Clone,
    F: Future<Output = ()> + Send + 'static,
{
    layer.layer(Worker(work))
}

#[derive(Clone)]
struct Worker<W>(W);

impl<W, F> Service<Request<()>> for Worker<W>
where
    W: Fn(Toll) -> F + Clone,
    F: Future<Output = ()> + Send + 'static,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = futures_util::future::BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let toll = request.extensions().get::<Toll>().unwrap().clone();
        let work = (self.0)(toll);
        Box::pin(async move {
            work.await;
            Ok(Response::new(Full::from("served")))
        })
    }
}

async fn nothing(_: Toll) {}

async fn text(answer: Answer) -> String {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

const PER_IP: &str =
    "limits: { per-ip: { scope: ip, sustained: { rate: 1 }, burst: { capacity: 2 } } }";

#[tokio::test]
async fn what_the_engine_refuses_does_not_reach_the_service() {
    let (engine, clock) = engine(PER_IP);
    let mut service = service(&RateLimitLayer::new(engine), nothing);
    for remaining in ["1", "0"] {
        let answer = service.call(from("192.0.2.1")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["x-ratelimit-remaining"], remaining);
        assert_eq!(text(answer).await, "served");
    }
    let answer = service.call(from("192.0.2.1")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "1");
    assert!(text(answer).await.contains("quota-exceeded"));
    let other = service.call(from("192.0.2.2")).await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
    clock.advance(Duration::from_secs(1));
    let again = service.call(from("192.0.2.1")).await.unwrap();
    assert_eq!(again.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_without_an_address_is_an_error() {
    let (engine, _) = engine("limits: { all: { scope: global, sustained: { rate: 1 } } }");
    let mut service = service(&RateLimitLayer::new(engine), nothing);
    let answer = service.call(Request::new(())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    assert!(text(answer).await.contains("no_address"));
    // Nothing was charged.
    let answer = service.call(from("192.0.2.1")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn callers_without_an_address_share_a_bucket_if_that_is_wanted() {
    let (engine, _) = engine(PER_IP);
    let layer = RateLimitLayer::new(engine).address(Address::Unknown);
    let mut service = service(&layer, nothing);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let answer = service.call(Request::new(())).await.unwrap();
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
    // It is theirs alone: 0.0.0.0 is an address like any other.
    let answer = service.call(from("0.0.0.0")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn callers_without_an_address_have_few_guesses_together() {
    let (engine, _) = engine("");
    let layer = RateLimitLayer::new(engine).address(Address::Unknown);
    let mut service = service(&layer, nothing);
    let mut guess = async |mut request: Request<()>| {
        let key = http::HeaderValue::from_static("guess");
        request.headers_mut().insert("x-api-key", key);
        service.call(request).await.unwrap().status().as_u16()
    };
    for _ in 0..20 {
        assert_eq!(guess(Request::new(())).await, 401);
    }
    assert_eq!(guess(Request::new(())).await, 429);
    assert_eq!(guess(from("192.0.2.1")).await, 401);
}

#[tokio::test]
async fn in_shadow_everything_is_served_and_counted() {
    let (engine, _) = engine(PER_IP);
    let layer = RateLimitLayer::new(engine.clone()).shadow(true);
    let mut service = service(&layer, nothing);
    for _ in 0..5 {
        let answer = service.call(from("192.0.2.1")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    let active = engine.active();
    let (_, tally) = active.tallies().next().unwrap();
    assert_eq!(
        (tally.sum(Count::Allowed), tally.sum(Count::Denied)),
        (2, 3)
    );
}

#[tokio::test]
async fn in_shadow_what_is_denied_stays_denied_and_guesses_stay_few() {
    let (engine, _) = engine("routes: [{ match: /internal, deny: true }]");
    let layer = RateLimitLayer::new(engine).shadow(true);
    let mut service = service(&layer, nothing);
    let mut request = from("192.0.2.1");
    *request.uri_mut() = "/internal".parse().unwrap();
    let answer = service.call(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let mut statuses = Vec::new();
    for _ in 0..21 {
        let mut request = from("192.0.2.1");
        let key = http::HeaderValue::from_static("guess");
        request.headers_mut().insert("x-api-key", key);
        statuses.push(service.call(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses[..20], [401; 20]);
    assert_eq!(statuses[20], 429);
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
async fn in_shadow_nobody_waits_and_nothing_is_degraded() {
    let config = format!(
        "{QUEUE}\nroutes: [{{ match: /d, rate_limit: {{ sustained: {{ rate: 1 }}, strategy: degrade }} }}]"
    );
    let (engine, _) = engine(&config);
    let layer = RateLimitLayer::new(engine).shadow(true);
    let start = tokio::time::Instant::now();
    let mut service = service(&layer, async |toll: Toll| assert!(!toll.degraded()));
    for _ in 0..30 {
        let mut request = from("192.0.2.1");
        *request.uri_mut() = "/d".parse().unwrap();
        let answer = service.call(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_call_of_grpc_is_refused_in_its_own_words() {
    let (engine, _) = engine(PER_IP);
    let mut service = service(&RateLimitLayer::new(engine), nothing);
    let call = || {
        let mut request = from("192.0.2.1");
        *request.method_mut() = http::Method::POST;
        let grpc = http::HeaderValue::from_static("application/grpc");
        request.headers_mut().insert("content-type", grpc);
        request
    };
    for _ in 0..2 {
        service.call(call()).await.unwrap();
    }
    let answer = service.call(call()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["grpc-status"], "8");
    assert_eq!(answer.headers()["content-type"], "application/grpc");
    assert_eq!(text(answer).await, "");
}

#[tokio::test]
async fn strangers_are_asked_who_they_are_and_guesses_are_few() {
    let (engine, _) = engine(
        "tenants: { acme: {} }
keys: [{ sha256: \"fcf730b6d95236ecd3c9fc2d92d7b6b2bb061514961aec041d6c7a7192f592e4\", tenant: acme }]",
    );
    let layer = RateLimitLayer::new(engine).refuse_strangers();
    let mut service = service(&layer, async |toll: Toll| {
        assert_eq!(toll.tenant(), Some("acme"));
    });
    let with = |key: &str| {
        let mut request = from("192.0.2.1");
        request
            .headers_mut()
            .insert("x-api-key", key.parse().unwrap());
        request
    };
    let answer = service.call(from("192.0.2.1")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    for _ in 0..20 {
        let answer = service.call(with("guess")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }
    let answer = service.call(with("guess")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "6");
    // The right key works even so.
    let answer = service.call(with("secret123")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_handler_says_afterwards_what_its_request_was_worth() {
    let (engine, _) = engine(
        "limits: { tokens: { scope: global, sustained: { rate: 1, window: hour }, burst: { capacity: 100 } } }",
    );
    let layer = RateLimitLayer::new(engine);
    let mut service = service(&layer, async |toll: Toll| {
        assert_eq!(toll.cost(), Some(1));
        toll.settle(60).await.unwrap();
        assert_eq!(toll.cost(), Some(60));
    });
    let first = service.call(from("192.0.2.1")).await.unwrap();
    assert_eq!(first.headers()["x-ratelimit-remaining"], "99");
    let second = service.call(from("192.0.2.1")).await.unwrap();
    assert_eq!(second.headers()["x-ratelimit-remaining"], "39");
    // The second came to 20 more than there was: nobody gets through until that is paid.
    let third = service.call(from("192.0.2.1")).await.unwrap();
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        third.headers()["retry-after"],
        (21 * 3600).to_string().as_str()
    );
}

const QUEUE: &str = "limits: { q: { scope: global, sustained: { rate: 10 }, burst: { capacity: 1 }, \
                     strategy: queue, queue: { max_wait: 2s } } }";

/// When each of so many callers that come together is served, in milliseconds; none if it is refused.
#[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
async fn turns(callers: usize) -> (Vec<Option<u64>>, Vec<usize>) {
    let (engine, _) = engine(QUEUE);
    let layer = RateLimitLayer::new(engine);
    let order = Mutex::new(Vec::new());
    let start = tokio::time::Instant::now();
    let calls = (0..callers).map(|index| {
        let mut service = service(&layer, nothing);
        let order = &order;
        async move {
            let answer = service.call(from("192.0.2.1")).await.unwrap();
            if answer.status() != StatusCode::OK {
                return None;
            }
            order.lock().unwrap().push(index);
            u64::try_from(start.elapsed().as_millis()).ok()
        }
    });
    let turns = join_all(calls).await;
    (turns, order.into_inner().unwrap())
}

#[tokio::test(start_paused = true)]
async fn fifty_callers_are_served_in_order_and_evenly_or_not_at_all() {
    let (turns, order) = turns(50).await;
    // One at once, twenty within two seconds, and no place for the others.
    assert_eq!(order, (0..21).collect::<Vec<_>>());
    for (index, turn) in turns.into_iter().enumerate() {
        match turn {
            Some(ms) => {
                let due = u64::try_from(index).unwrap() * 100;
                assert!(
                    (due..=due + 2).contains(&ms),
                    "{index} was served at {ms} ms"
                );
            }
            None => assert!(index > 20, "{index} was refused"),
        }
    }
}

/// Lets other tasks go as far as they get.
async fn others() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
async fn hang_up(layer: impl FnOnce(Gate) -> Gate) {
    let (engine, _) = engine(QUEUE);
    let layer = RateLimitLayer::from(layer(Gate::new(engine)));
    let start = tokio::time::Instant::now();
    let served = |mut service: RateLimit<_>| async move {
        let answer: Answer = Service::call(&mut service, from("192.0.2.1"))
            .await
            .unwrap();
        let tenths = start.elapsed().as_millis() / 100;
        (answer.status().as_u16(), tenths)
    };
    let mut tasks: Vec<_> = Vec::new();
    for _ in 0..21 {
        tasks.push(tokio::spawn(served(service(&layer, nothing))));
        others().await;
    }
    // The line is full.
    assert_eq!(served(service(&layer, nothing)).await.0, 429);
    // The third of those who wait leaves; everybody behind moves up, and there is a place at the end.
    tasks.remove(3).abort();
    others().await;
    tasks.push(tokio::spawn(served(service(&layer, nothing))));
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.unwrap());
    }
    let due: Vec<(u16, u128)> = (0..21).map(|tenths| (200, tenths)).collect();
    assert_eq!(seen, due);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_hangs_up_frees_its_place() {
    hang_up(|gate| gate).await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_is_finished_anyway_frees_its_place_too() {
    hang_up(|gate| gate.finishes(true)).await;
}

/// The estimate is the route's cost, and what is settled replaces it.
#[tokio::test]
async fn what_a_handler_settles_is_not_multiplied_by_the_route() {
    let (engine, _) = engine(
        "
limits: { tokens: { scope: global, sustained: { rate: 1, window: hour }, burst: { capacity: 10000 } } }
routes: [{ match: /generate, cost: 4000 }, { match: /free, cost: 0 }]
",
    );
    let layer = RateLimitLayer::new(engine);
    let call = async |path: &str, costs: u64, settled: u64| {
        let mut service = service(&layer, move |toll: Toll| async move {
            assert_eq!(toll.cost(), Some(costs));
            toll.settle(settled).await.unwrap();
            assert_eq!(toll.cost(), Some(settled));
        });
        let mut request = from("192.0.2.1");
        *request.uri_mut() = path.parse().unwrap();
        let answer = service.call(request).await.unwrap();
        answer.headers()["x-ratelimit-remaining"].to_owned()
    };
    assert_eq!(call("/generate", 4000, 1200).await, "6000");
    assert_eq!(call("/free", 0, 300).await, "8800");
    assert_eq!(call("/generate", 4000, 5000).await, "4500");
    assert_eq!(call("/free", 0, 0).await, "3500");
}
