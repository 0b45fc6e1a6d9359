//! Whose requests an upstream failed.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use tollward_engine::{Engine, SystemClock};
use tollward_gateway::{Forwarder, Gateway, Stats};
use tollward_http::Peer;
use tollward_policy::Protocol;
use tollward_store::MemoryStore;
use tollward_tower::Gate;

use crate::fixtures::{Answer, serve};

fn status(status: u16) -> Answer {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

#[tokio::test]
async fn failures_of_the_upstream_are_told_and_nothing_else_is() {
    let (address, _) = serve(Protocol::Http1, |request| async move {
        status(request.uri().path()[1..].parse().unwrap())
    })
    .await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = nobody.local_addr().unwrap();
    drop(nobody);
    let config = format!(
        "
identity: {{ anonymous: {{ plan: free }} }}
plans: {{ free: {{ rate_limit: {{ sustained: {{ rate: 100 }}, scope: ip }} }} }}
routes: [ {{ match: /**, upstream: app }}, {{ match: /gone, upstream: gone }}, {{ match: /shut, deny: true }} ]
upstreams: {{ app: {{ url: http://{address} }}, gone: {{ url: http://{closed} }} }}
"
    );
    let policy = tollward_policy::compile(config.as_bytes()).unwrap().policy;
    let store = Arc::new(MemoryStore::new(100));
    let engine = Engine::new(policy, store, Arc::new(SystemClock::new()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    let gateway = Arc::new(Gateway {
        gate: Gate::new(Arc::new(engine)).routed(true),
        forwarder: Forwarder::new(),
        log: None,
        stats: Arc::new(Stats::default()),
        failed: Some(Arc::new(move |tenant, plan, route| {
            let owned = [tenant, plan, route].map(|it| it.map(str::to_owned));
            telling.lock().unwrap().push(owned);
        })),
    });
    for (method, path, expected, route) in [
        ("GET", "/200", 200, None),
        ("GET", "/404", 404, None),
        ("GET", "/500", 500, Some("/**")),
        ("GET", "/503", 503, Some("/**")),
        ("GET", "/gone", 502, Some("/gone")),
        ("GET", "/shut", 403, None),
        ("CONNECT", "/200", 501, None),
    ] {
        let peer = Peer::new("192.0.2.1:7".parse().unwrap(), false);
        let request = Request::builder().method(method).uri(path);
        let request = request.header("host", "a.test").body(Empty::new()).unwrap();
        let answer = gateway.clone().answer(peer, request).await;
        assert_eq!(answer.status(), expected, "{path}");
        let told = std::mem::take(&mut *told.lock().unwrap());
        let owned = |text: &str| Some(text.to_owned());
        let expected: Vec<_> = route
            .map(|it| [None, owned("free"), owned(it)])
            .into_iter()
            .collect();
        assert_eq!(told, expected, "{method} {path}");
    }
}
