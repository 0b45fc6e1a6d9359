use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use futures_util::stream;
use tollward_testkit::certificates::Certificates;
use tollward_tower::{Address, RateLimitLayer, Toll};
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Code, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::{ONE, OTHER, OWN, PER_IP, assert_told_once, layer, log};

type Answer = Result<Response<HealthCheckResponse>, Status>;

/// Serves the health service on a free port, behind a layer.
async fn serve(layer: RateLimitLayer) -> SocketAddr {
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let mut server = Server::builder().layer(layer);
    tokio::spawn(server.add_service(health).serve_with_incoming(incoming));
    address
}

fn endpoint(to: SocketAddr, from: [u8; 4]) -> Endpoint {
    let endpoint = Endpoint::from_shared(format!("http://{to}")).unwrap();
    endpoint.local_address(Some(from.into()))
}

async fn check(endpoint: Endpoint) -> Answer {
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    client.check(HealthCheckRequest::default()).await
}

/// The status codes of calls from these addresses.
async fn codes(endpoint: impl Fn([u8; 4]) -> Endpoint, from: &[[u8; 4]]) -> Vec<Code> {
    let mut codes = Vec::new();
    for from in from {
        let answer = check(endpoint(*from)).await;
        codes.push(answer.map_or_else(|status| status.code(), |_| Code::Ok));
    }
    codes
}

#[tokio::test]
async fn a_server_with_a_layer() {
    let address = serve(layer(PER_IP)).await;
    for left in ["1", "0"] {
        let answer = check(endpoint(address, ONE)).await.unwrap();
        let remaining = answer.metadata().get("x-ratelimit-remaining");
        assert_eq!(remaining.unwrap(), left);
    }
    let refused = check(endpoint(address, ONE)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "1");
}

const SIX: [[u8; 4]; 6] = [ONE, ONE, ONE, OTHER, OTHER, OTHER];
const TWO_EACH: [Code; 6] = [
    Code::Ok,
    Code::Ok,
    Code::ResourceExhausted,
    Code::Ok,
    Code::Ok,
    Code::ResourceExhausted,
];

#[tokio::test]
async fn each_address_has_its_own_bucket() {
    let address = serve(layer(PER_IP)).await;
    let seen = codes(|from| endpoint(address, from), &SIX).await;
    assert_eq!(seen, TWO_EACH);
}

#[tokio::test]
async fn each_address_has_its_own_bucket_over_tls() {
    let made = Certificates::make();
    let read = |path: &Path| fs::read(path).unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let own = Identity::from_pem(read(&made.cert), read(&made.key));
    let server = Server::builder().tls_config(ServerTlsConfig::new().identity(own));
    let mut server = server.unwrap().layer(layer(PER_IP));
    tokio::spawn(server.add_service(health).serve_with_incoming(incoming));
    let ca = Certificate::from_pem(read(&made.ca));
    let tls = ClientTlsConfig::new().ca_certificate(ca);
    let endpoint = |from: [u8; 4]| {
        let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
        let endpoint = endpoint.local_address(Some(from.into()));
        endpoint.tls_config(tls.clone()).unwrap()
    };
    assert_eq!(codes(endpoint, &SIX).await, TWO_EACH);
}

/// Serves the health service on a Unix socket, whose callers have no address.
async fn serve_without_addresses(layer: RateLimitLayer, name: &str) -> (Endpoint, PathBuf) {
    let (_, health) = tonic_health::server::health_reporter();
    let name = format!("tollward-{}-{name}.socket", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let incoming = stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let mut server = Server::builder().layer(layer);
    tokio::spawn(server.add_service(health).serve_with_incoming(incoming));
    let endpoint = Endpoint::from_shared(format!("unix://{}", path.display())).unwrap();
    (endpoint, path)
}

#[tokio::test]
async fn a_missing_address_is_an_error_that_is_logged_once() {
    let (log, _logging) = log();
    let layer = layer(PER_IP);
    let (endpoint, socket) = serve_without_addresses(layer, "refused").await;
    let seen = codes(|_| endpoint.clone(), &[ONE, ONE, ONE]).await;
    fs::remove_file(socket).unwrap();
    assert_eq!(seen, [Code::Internal; 3]);
    assert_told_once(&log, "Address::Unknown");
}

#[tokio::test]
async fn without_addresses_all_share_a_bucket_if_that_is_wanted() {
    let layer = layer(PER_IP).address(Address::Unknown);
    let (endpoint, socket) = serve_without_addresses(layer, "shared").await;
    let seen = codes(|_| endpoint.clone(), &[ONE, ONE, ONE]).await;
    fs::remove_file(socket).unwrap();
    assert_eq!(seen, [Code::Ok, Code::Ok, Code::ResourceExhausted]);
}

#[tokio::test]
async fn a_method_is_a_route() {
    let config = "
limits: { all: { scope: global, sustained: { rate: 1 }, burst: { capacity: 7 } } }
routes:
  - { match: POST /grpc.health.v1.Health/Check, cost: 5 }
  - { match: /grpc.health.v1.Health/Watch, deny: true }
";
    let address = serve(layer(config)).await;
    let channel = endpoint(address, ONE).connect().await.unwrap();
    let mut client = HealthClient::new(channel);
    let answer = client.check(HealthCheckRequest::default()).await.unwrap();
    let left = answer.metadata().get("x-ratelimit-remaining").unwrap();
    assert_eq!(left, "2");
    let refused = client.watch(HealthCheckRequest::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
}

/// A handler that finds out what a call costs.
async fn settling(request: Request, next: Next) -> axum::response::Response {
    let toll = request.extensions().get::<Toll>().unwrap().clone();
    let response = next.run(request).await;
    toll.settle(1200).await.unwrap();
    response
}

#[tokio::test]
async fn a_settled_cost_is_not_multiplied_by_the_route() {
    let config = "
limits: { tokens: { scope: global, sustained: { rate: 1, window: hour }, burst: { capacity: 10000 } } }
routes: [{ match: /grpc.health.v1.Health/Check, cost: 4000 }]
";
    let (_, health) = tonic_health::server::health_reporter();
    let routes = Routes::new(health).into_axum_router();
    let routes = Routes::from(routes.layer(from_fn(settling)));
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let mut server = Server::builder().layer(layer(config));
    tokio::spawn(server.add_routes(routes).serve_with_incoming(incoming));
    for left in ["6000", "4800", "3600"] {
        let answer = check(endpoint(address, ONE)).await.unwrap();
        assert_eq!(
            answer.metadata().get("x-ratelimit-remaining").unwrap(),
            left
        );
    }
}

/// A call with these metadata.
async fn check_with(address: SocketAddr, metadata: &[(&'static str, &str)]) -> Answer {
    let channel = endpoint(address, ONE).connect().await.unwrap();
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    for (name, value) in metadata {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    HealthClient::new(channel).check(request).await
}

#[tokio::test]
async fn an_interceptor_says_who_calls() {
    fn authenticate(mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        let session = request.metadata().get("x-session").cloned();
        if let Some(session) = session {
            let user = session.to_str().unwrap_or_default().to_owned();
            let identity = tollward_tower::Identity::new().user(user).plan("free");
            request.extensions_mut().insert(identity);
        }
        Ok(request)
    }
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let outer = InterceptorLayer::new(authenticate);
    let mut server = Server::builder().layer(outer).layer(layer(OWN));
    tokio::spawn(server.add_service(health).serve_with_incoming(incoming));
    let call = async |metadata| {
        let answer = check_with(address, metadata).await;
        answer.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    let alice = &[("x-session", "alice"), ("x-api-key", "of the service")][..];
    assert_eq!(call(alice).await, Code::Ok);
    assert_eq!(call(alice).await, Code::ResourceExhausted);
    assert_eq!(call(&[("x-session", "bob")]).await, Code::Ok);
    assert_eq!(call(&[]).await, Code::Unauthenticated);
    assert_eq!(call(&[("x-api-key", "guess")]).await, Code::Unauthenticated);
}

#[tokio::test]
async fn functions_say_who_calls_what_it_costs_and_how_it_is_refused() {
    let text = |head: &http::request::Parts, name| {
        let value = head.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let layer = layer("limits: { per-user: { scope: user, sustained: { rate: 10 } } }")
        .identify(move |head| {
            tollward_tower::Identity::new().user(text(head, "x-user").unwrap_or_default())
        })
        .cost(move |head| {
            text(head, "x-tokens")
                .and_then(|it| it.parse().ok())
                .unwrap_or(1)
        })
        .on_refusal(|refusal, _| {
            assert!(refusal.is_grpc && refusal.status == 429);
            let response = http::Response::builder().header("content-type", "application/grpc");
            let response = response.header("grpc-status", "14");
            response.header("grpc-message", "busy").body("").ok()
        });
    let address = serve(layer).await;
    let alice = [("x-user", "alice"), ("x-tokens", "6")];
    let answer = check_with(address, &alice).await.unwrap();
    assert_eq!(answer.metadata().get("x-ratelimit-remaining").unwrap(), "4");
    let answer = check_with(address, &[("x-user", "bob")]).await.unwrap();
    assert_eq!(answer.metadata().get("x-ratelimit-remaining").unwrap(), "9");
    let refused = check_with(address, &alice).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::Unavailable, "busy")
    );
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "1");
}
