//! Trailers of requests, through a whole gateway.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::BodyExt;
use tollward_engine::{Engine, SystemClock};
use tollward_gateway::{Forwarder, Gateway, Stats};
use tollward_http::Peer;
use tollward_policy::Protocol;
use tollward_store::MemoryStore;
use tollward_tower::Gate;

use crate::fixtures::{serve, text};
use crate::script::{Script, Step};

fn gateway(upstream: std::net::SocketAddr, protocol: Protocol) -> Arc<Gateway> {
    let config = format!(
        "
identity:
  anonymous: allow
  user: {{ header: X-User-Id }}
  client: {{ header: X-Client-Id }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: http://{upstream}, protocol: {} }} }}
",
        protocol.word()
    );
    let policy = tollward_policy::compile(config.as_bytes()).unwrap().policy;
    let store = Arc::new(MemoryStore::new(100));
    let engine = Engine::new(policy, store, Arc::new(SystemClock::new()));
    Arc::new(Gateway {
        gate: Gate::new(Arc::new(engine)).routed(true),
        forwarder: Forwarder::new(),
        log: None,
        stats: Arc::new(Stats::default()),
        failed: None,
    })
}

#[tokio::test]
async fn trailers_of_a_request_say_nothing_that_only_a_head_may() {
    const KEPT: &str = "x-sum, x-tollward, forwarded-by";
    const DROPPED: &str = "x-tollward-user, X_Tollward_Plan, x-forwarded-for, x_forwarded-proto, \
        x-ratelimit-limit, ratelimit, ratelimit-policy, forwarded, x-real-ip, x_real_ip, \
        cookie, authorization, proxy-authorization, x-user-id, x_client_id, X-Api-Key, \
        x-http-method-override";
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (address, _) = serve(protocol, |request| async move {
            let body = request.into_body().collect().await.unwrap();
            let trailers = body.trailers().cloned().unwrap_or_default();
            let mut names: Vec<_> = trailers.keys().map(|name| name.as_str()).collect();
            names.sort_unstable();
            text(names.join(" "))
        })
        .await;
        let gateway = gateway(address, protocol);
        for (sent, expected) in [
            (
                format!("{KEPT}, {DROPPED}"),
                "forwarded-by x-sum x-tollward",
            ),
            (DROPPED.to_owned(), ""),
        ] {
            let mut trailers = HeaderMap::new();
            for name in sent.split(", ") {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                trailers.append(name.clone(), HeaderValue::from_static("1"));
                trailers.append(name, HeaderValue::from_static("2"));
            }
            let body = Script::new([Step::Data("data".into()), Step::Trailers(trailers)]);
            // HTTP/1.1 carries only what has been announced.
            let request = Request::post("/").header("trailer", &sent).body(body);
            let peer = Peer::new("192.0.2.1:50000".parse().unwrap(), false);
            let response = gateway.clone().answer(peer, request.unwrap()).await;
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, expected, "{protocol:?}: {sent}");
        }
    }
}
