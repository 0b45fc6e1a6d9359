//! A request finds its upstream's connections, and is sent.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use tollward_policy::{Protocol, Upstream};

use super::attempt::Attempt;
use super::body::UpstreamBody;
use super::clock::{Clock, locked};
use super::error::ForwardError;
use super::head::{
    Addressee, announce_te, asks_for_upgrade, drop_hop_by_hop, frame_answer, frame_http1,
    frame_http2, is_hop_by_hop, take_expectation,
};
use super::pools::Pools;
use super::upload::RequestBody;
use crate::ticks::{TICK, ticks};

/// Sends requests to upstreams, over connections that it keeps.
///
/// Made for a worker with a thread of its own: connections are not shared between forwarders. Clones
/// are the same forwarder.
#[derive(Clone, Default)]
pub struct Forwarder(Arc<Inner>);

#[derive(Default)]
struct Inner {
    clock: Arc<Clock>,
    is_swept: AtomicBool,
    /// As many as there are upstreams, and for a while those that a reload has replaced.
    upstreams: Mutex<Vec<(Arc<Upstream>, Arc<Pools>)>>,
}

impl Forwarder {
    /// One without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a request to an upstream, and returns its answer as soon as the head is there.
    ///
    /// The request has its final path, and its final fields but for `Host` and those that concern one
    /// connection only; see [`drop_hop_by_hop`]. It is sent once: only where certainly nothing of it
    /// has been sent, another target or another connection is tried. Dropping the future gives the
    /// request up. Must be called within a Tokio runtime.
    pub async fn forward<B>(
        &self,
        upstream: &Arc<Upstream>,
        mut request: Request<B>,
    ) -> Result<Response<UpstreamBody>, ForwardError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if request.method() == Method::CONNECT {
            return Err(ForwardError::Unsupported);
        }
        let pools = self.0.pools(upstream);
        let client = prepare(upstream.protocol, &mut request);
        let is_expected = take_expectation(&mut request);
        let addressee = Addressee::take(&mut request);
        let (mut parts, body) = request.into_parts();
        // Nothing that others have noted there is meant for the connection.
        parts.extensions.clear();
        let (body, upload) = RequestBody::new(body, &self.0.clock);
        let mut request = Request::from_parts(parts, body);
        match upstream.protocol {
            Protocol::Http1 => frame_http1(&mut request),
            Protocol::Http2 => frame_http2(&mut request),
        }
        if let (true, Protocol::Http1, Some(upload)) = (is_expected, upstream.protocol, &upload) {
            let held = upload.clone();
            held.hold();
            request
                .headers_mut()
                .insert(EXPECT, HeaderValue::from_static("100-continue"));
            hyper::ext::on_informational(&mut request, move |response| {
                if response.status() == StatusCode::CONTINUE {
                    held.release();
                }
            });
        }
        let attempt = Attempt {
            clock: &self.0.clock,
            is_head: request.method() == Method::HEAD,
            upstream,
            pools: &pools,
            upload,
        };
        attempt.send(request, addressee, client).await
    }
}

/// Rids a request of what is not for the upstream. Returns the client's side of an upgrade, if the
/// request asks for one.
fn prepare<B>(protocol: Protocol, request: &mut Request<B>) -> Option<OnUpgrade> {
    if !request.headers().keys().any(is_hop_by_hop) {
        return None;
    }
    drop_hop_by_hop(request.headers_mut());
    if protocol == Protocol::Http1 && asks_for_upgrade(request) {
        return Some(hyper::upgrade::on(request));
    }
    // HTTP/2 has no upgrades; a server may always answer as if none had been asked for.
    request.headers_mut().remove(UPGRADE);
    request.headers_mut().remove(CONNECTION);
    if protocol == Protocol::Http1 {
        announce_te(request.headers_mut());
    }
    None
}

/// The answer as it is passed on, to a request for no more than the head of it or for all.
pub(super) fn answer<B>(
    response: Response<B>,
    body: UpstreamBody,
    is_head: bool,
) -> Response<UpstreamBody> {
    let (mut parts, _) = response.into_parts();
    // These say how long a body would be that they do not have.
    if !is_head && parts.status != StatusCode::NOT_MODIFIED {
        frame_answer(&mut parts.headers, body.size_hint().exact());
    }
    parts.version = Version::HTTP_11;
    if parts.headers.keys().any(is_hop_by_hop) {
        drop_hop_by_hop(&mut parts.headers);
        // Servers advertise what they could be upgraded to; that is between them and us.
        if !matches!(
            parts.status,
            StatusCode::SWITCHING_PROTOCOLS | StatusCode::UPGRADE_REQUIRED
        ) {
            parts.headers.remove(UPGRADE);
            parts.headers.remove(CONNECTION);
        }
    }
    Response::from_parts(parts, body)
}

/// Ticks between two looks at the connections that nobody uses.
const SWEEP: u64 = 10;

/// How long an upstream without requests is remembered, at least.
const MEMORY: Duration = Duration::from_secs(60);

impl Inner {
    /// The connections of an upstream: also if it is a copy of the one that was asked for last, as
    /// after a reload.
    fn pools(self: &Arc<Self>, upstream: &Arc<Upstream>) -> Arc<Pools> {
        if !self.is_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep(Arc::downgrade(self), Arc::downgrade(&self.clock)));
        }
        let mut upstreams = locked(&self.upstreams);
        if let Some((_, pools)) = upstreams.iter().find(|(of, _)| Arc::ptr_eq(of, upstream)) {
            return pools.clone();
        }
        if let Some((of, pools)) = upstreams.iter_mut().find(|(of, _)| of == upstream) {
            *of = upstream.clone();
            return pools.clone();
        }
        let pools = Arc::new(Pools::new(upstream, self.clock.now()));
        upstreams.push((upstream.clone(), pools.clone()));
        pools
    }

    fn sweep(&self) {
        let now = self.clock.now();
        locked(&self.upstreams).retain(|(_, pools)| {
            pools.sweep(now);
            let memory = pools.limits.idle.max(ticks(MEMORY));
            now < memory || !pools.is_unused_since(now - memory)
        });
    }
}

/// Closes what a forwarder does not need, as long as there is one, and counts its time as long as there
/// is an answer on its way.
async fn sweep(inner: Weak<Inner>, clock: Weak<Clock>) {
    let mut interval = tokio::time::interval(TICK);
    interval.tick().await;
    loop {
        interval.tick().await;
        let Some(clock) = clock.upgrade() else {
            return;
        };
        clock.advance();
        if let (Some(inner), true) = (inner.upgrade(), clock.now().is_multiple_of(SWEEP)) {
            inner.sweep();
        }
    }
}
