use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use futures_util::stream;
use tollward_testkit::certificates::Certificates;
use tollward_tower::{Address, RateLimitLayer};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Code, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::{ONE, OTHER, PER_IP, assert_told_once, layer, log};

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
