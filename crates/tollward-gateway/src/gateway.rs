use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{COOKIE, HOST, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, Uri};
use tollward_http::{
    Asker, CrossOrigin, DEGRADED, Peer, Problem, add_forwarded, client_ip, cross_origin,
    identity_headers, problem_response, strip,
};
use tollward_tower::{Admitted, Body, Gate};

use crate::access_log::{AccessLog, Entry, Logged};
use crate::forward::{ForwardError, Forwarder, UpstreamBody, drop_hop_by_hop};
use crate::stats::Stats;
use crate::trailers::Trailing;

/// One worker's way from a request to its answer: a gate, and the upstreams behind it.
#[derive(Clone)]
pub struct Gateway {
    /// Who may pass.
    pub gate: Gate,
    /// Where those who may are sent.
    pub forwarder: Forwarder,
    /// Who came by.
    pub log: Option<AccessLog>,
    /// What is counted.
    pub stats: Arc<Stats>,
    /// Who is told of requests that an upstream failed.
    pub failed: Option<UpstreamFailed>,
}

/// Told the tenant, the plan and the route of an admitted request to which its upstream answered with a
/// status of 5xx, or not at all. It must not block.
pub type UpstreamFailed = Arc<dyn Fn(Option<&str>, Option<&str>, Option<&str>) + Send + Sync>;

/// The answer to a client.
pub type Answer = Response<Logged<Body<UpstreamBody>>>;

impl Gateway {
    /// Answers a request.
    pub async fn answer<B>(self: Arc<Self>, peer: Peer, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let mut entry = self.log.as_ref().map(|log| log.entry(peer, &head));
        let (preflight, cors) = match self.cross_origin(&head, entry.as_deref_mut()) {
            Some(CrossOrigin::Preflight(answer, _)) => (Some(answer), None),
            Some(CrossOrigin::Request(headers, _)) => (None, Some(headers)),
            None => (None, None),
        };
        let admitted = match preflight {
            Some(answer) => Err(answer),
            None => self.gate.admit(Some(peer), &head).await,
        };
        let mut response = match admitted {
            Ok(admitted) => {
                if let Some(entry) = &mut entry {
                    entry.admitted(&admitted);
                }
                self.pass_on(peer, head, body, admitted).await
            }
            Err(refusal) => {
                if let Some(entry) = &mut entry {
                    let active = self.gate.engine().active();
                    let identity = active.policy().identity();
                    entry.refused(client_ip(identity, peer, &head.headers));
                }
                refusal.map(Body::Refusal)
            }
        };
        // Whatever the answer is: a page has to be able to read why it was refused, and until when.
        if let Some(cors) = cors {
            cors.write_to(response.headers_mut());
        }
        self.stats.answered(response.status());
        if let Some(entry) = &mut entry {
            entry.answered(response.status());
        }
        response.map(|body| Logged::new(body, entry))
    }

    /// What the policy says of a request from a page of another origin.
    fn cross_origin(&self, head: &Parts, entry: Option<&mut Entry>) -> Option<CrossOrigin> {
        let found = cross_origin(self.gate.engine().active().policy(), head)?;
        if let Some(entry) = entry {
            entry.cross_origin(found.outcome());
        }
        Some(found)
    }

    async fn pass_on<B>(
        &self,
        peer: Peer,
        mut head: Parts,
        body: B,
        mut admitted: Admitted,
    ) -> Response<Body<UpstreamBody>>
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let asker = Asker::from(&head);
        let forwarded = match admitted.upstream.take() {
            Some(upstream) => {
                outgoing(peer, &mut head, &mut admitted);
                let active = admitted.active;
                let request = Request::from_parts(head, Trailing { body, active });
                self.forwarder.forward(&upstream, request).await
            }
            // A gate of a gateway lets nothing through that is for no upstream.
            None => Err(ForwardError::Misconfigured),
        };
        let has_failed = match &forwarded {
            Ok(response) => response.status().is_server_error(),
            Err(error) => error.is_of_upstream(),
        };
        if let (true, Some(failed)) = (has_failed, &self.failed) {
            let (tenant, plan) = (admitted.tenant.as_deref(), admitted.plan.as_deref());
            failed(tenant, plan, admitted.route.as_deref());
        }
        let mut response = match forwarded {
            Ok(response) => response.map(Body::Service),
            Err(error) => {
                self.stats.failed(error);
                let problem = Problem::new(error.status(), error.detail());
                problem_response(&problem, asker).map(Body::Refusal)
            }
        };
        admitted.headers.write_to(response.headers_mut());
        response
    }
}

/// Makes the head of a request what its upstream is to see.
fn outgoing(peer: Peer, head: &mut Parts, admitted: &mut Admitted) {
    // By what it was known by: a key of then is a secret still.
    let identity = admitted.active.policy().identity();
    // First, so that a client cannot have us remove what we add by naming it in `Connection`.
    drop_hop_by_hop(&mut head.headers);
    strip(identity, peer.is_trusted(identity), &mut head.headers);
    join_cookies(&mut head.headers);
    // The front has put whatever authority there was into Host.
    let host = head.headers.get(HOST).cloned();
    add_forwarded(identity, peer, host.as_ref(), &mut head.headers);
    identity_headers(
        admitted.tenant.as_deref(),
        admitted.plan.as_deref(),
        admitted.user.as_deref(),
        &mut head.headers,
    );
    if admitted.degraded {
        let yes = HeaderValue::from_static("true");
        head.headers.insert(DEGRADED, yes);
    }
    if let Some(target) = admitted.target.take() {
        head.uri = Uri::from(target);
    }
}

/// Makes one line of the crumbs that HTTP/2 may send for a cookie: who speaks HTTP/1 may read but one.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    // Values and what we put between them: this is a value.
    if let Ok(cookie) = HeaderValue::try_from(crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, cookie);
    }
}
