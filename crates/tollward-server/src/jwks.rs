//! The keys of users' tokens: read from where the configuration says, and again from time to time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use tollward_engine::Engine;
use tollward_gateway::Forwarder;
use tollward_http::{MAX_JWKS_BYTES, Proofs};
use tollward_policy::config::{HostHeader, Protocol};
use tollward_policy::{JwksSource, Target, Upstream, UpstreamTls};
use tracing::{info, warn};

/// How often the keys are read again.
const REFRESH: Duration = Duration::from_secs(300);
/// How soon after a failure.
const RETRY: Duration = Duration::from_secs(10);
/// How often it is looked whether the configuration names another place, or a token an unknown key.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At the soonest so long after the last time are keys fetched because a token names an unknown one.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);
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
        let changed = named != source;
        if changed {
            // The keys of another place prove nothing any more, nor will they when it is named again.
            proofs.forget();
        }
        if let Some(from) = &named
            && (changed || is_due(age, next, &proofs))
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

/// Whether the keys are to be read again, so long after the last time.
fn is_due(age: Duration, next: Duration, proofs: &Proofs) -> bool {
    // Not asked too early: it would be forgotten.
    let unknown = age >= UNKNOWN_KEY_PAUSE && proofs.take_missed();
    unknown || age >= next
}

async fn load(forwarder: &Forwarder, from: &JwksSource, proofs: &Proofs) -> anyhow::Result<()> {
    let text = match from {
        JwksSource::File(path) => tokio::fs::read(path).await?.into(),
        JwksSource::Url(url) => fetch(forwarder, url).await?,
    };
    proofs.set_jwks(from.clone(), &text)?;
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
    let body = Limited::new(response.into_body(), MAX_JWKS_BYTES).collect();
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use tollward_http::{AuthFailure, Peer, identify};
    use tollward_policy::compile;

    use super::*;

    /// Somebody shows a token whose key is not known.
    fn miss(proofs: &Proofs) {
        let config = b"identity: { user: { jwt: { jwks: keys.json } } }";
        let policy = compile(config).unwrap().policy;
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","kid":"new"}"#);
        let request = Request::get("/").header("authorization", format!("Bearer {header}.e30.AA"));
        let (head, ()) = request.body(()).unwrap().into_parts();
        let peer = Peer::new(([192, 0, 2, 1], 50_000).into(), false);
        let sender = identify(policy.identity(), proofs, &policy, peer, &head, 0);
        assert_eq!(sender, Err(AuthFailure::NoProofs));
    }

    #[test]
    fn an_unknown_key_is_looked_for_after_a_pause() {
        let proofs = Proofs::default();
        let secs = Duration::from_secs;
        assert!(!is_due(secs(299), REFRESH, &proofs));
        assert!(is_due(secs(300), REFRESH, &proofs));
        assert!(is_due(secs(10), RETRY, &proofs));
        miss(&proofs);
        // It is not forgotten meanwhile.
        for early in [0, 1, 29] {
            assert!(!is_due(secs(early), REFRESH, &proofs), "{early}");
        }
        assert!(is_due(secs(30), REFRESH, &proofs));
        assert!(!is_due(secs(31), REFRESH, &proofs));
    }
}
