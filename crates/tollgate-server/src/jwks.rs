//! The keys of users' tokens: read from where the configuration says, and again from time to time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use tollgate_engine::Engine;
use tollgate_gateway::Forwarder;
use tollgate_http::Proofs;
use tollgate_policy::config::{HostHeader, Protocol};
use tollgate_policy::{JwksSource, Target, Upstream, UpstreamTls};
use tracing::{info, warn};

/// How often the keys are read again.
const REFRESH: Duration = Duration::from_secs(300);
/// How soon after a failure.
const RETRY: Duration = Duration::from_secs(10);
/// How often it is looked whether the configuration names another place, or a token an unknown key.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At the soonest so long after the last time are keys fetched because a token names an unknown one.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);
/// The longest key set.
const MAX_BYTES: usize = 256 * 1024;
const TIMEOUT: Duration = Duration::from_secs(5);

/// Keeps `proofs` supplied with the keys that the policy names, for ever.
pub(crate) async fn follow(engine: Arc<Engine>, proofs: Arc<Proofs>) {
    let forwarder = Forwarder::new();
    let mut source: Option<JwksSource> = None;
    let mut age = Duration::ZERO;
    let mut next = Duration::ZERO;
    loop {
        let named = {
            let active = engine.active();
            active
                .policy()
                .identity()
                .jwt
                .as_ref()
                .map(|jwt| jwt.jwks.clone())
        };
        let unknown = proofs.take_missed() && age >= UNKNOWN_KEY_PAUSE;
        let changed = named != source;
        if changed {
            // The keys of another place prove nothing any more.
            proofs.forget();
        }
        if let Some(from) = &named
            && (changed || age >= next || unknown)
        {
            age = Duration::ZERO;
            next = match load(&forwarder, from, &proofs).await {
                Ok(()) => {
                    if changed {
                        info!(from = %shown(from), "keys of tokens read");
                    }
                    REFRESH
                }
                Err(error) => {
                    warn!(from = %shown(from), "cannot read the keys of tokens: {error:#}");
                    RETRY
                }
            };
        }
        source = named;
        tokio::time::sleep(LOOK_EVERY).await;
        age += LOOK_EVERY;
    }
}

async fn load(forwarder: &Forwarder, from: &JwksSource, proofs: &Proofs) -> anyhow::Result<()> {
    let text = match from {
        JwksSource::File(path) => tokio::fs::read(path).await?.into(),
        JwksSource::Url(url) => fetch(forwarder, url).await?,
    };
    proofs.set_jwks(&text)?;
    Ok(())
}

async fn fetch(forwarder: &Forwarder, url: &str) -> anyhow::Result<Bytes> {
    let uri: Uri = url.parse().context("not a URL")?;
    let tls = uri.scheme_str() == Some("https");
    let host = uri.host().context("a URL without a host")?;
    let upstream = Arc::new(Upstream {
        name: "jwks".into(),
        targets: vec![Target {
            tls,
            host: host.trim_matches(['[', ']']).into(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            prefix: "".into(),
        }],
        connect_timeout: TIMEOUT,
        response_timeout: TIMEOUT,
        idle_timeout: TIMEOUT,
        protocol: Protocol::Http1,
        host: HostHeader::Target,
        tls: UpstreamTls::default(),
        max_connections: 1,
    });
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::get(target).body(Empty::<Bytes>::new())?;
    let response = match forwarder.forward(&upstream, request).await {
        Ok(response) => response,
        Err(error) => bail!("{}", error.detail()),
    };
    let status = response.status();
    ensure!(status == StatusCode::OK, "the answer was {status}");
    let body = Limited::new(response.into_body(), MAX_BYTES).collect();
    match tokio::time::timeout(TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => bail!("the answer broke off: {error}"),
        Err(_) => bail!("the answer did not end within {TIMEOUT:?}"),
    }
}

/// A URL's query may be a secret.
fn shown(from: &JwksSource) -> String {
    match from {
        JwksSource::File(path) => path.display().to_string(),
        JwksSource::Url(url) => url.split('?').next().unwrap_or_default().to_owned(),
    }
}
