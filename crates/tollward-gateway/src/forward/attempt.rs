//! One request, at one target after the other until one of them has it.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use tollward_policy::{Protocol, Upstream};

use super::body::UpstreamBody;
use super::clock::Clock;
use super::connect::{Link, connect};
use super::error::ForwardError;
use super::forwarder::answer;
use super::head::{Addressee, is_plain_or_chunked};
use super::http1::{Failure, Http1};
use super::http2::Http2;
use super::patience::Patience;
use super::pools::Pools;
use super::server::{Flight, Server, Slot};
use super::tunnel;
use super::upload::{RequestBody, Upload};

/// What is the same at every target.
pub(super) struct Attempt<'a> {
    pub(super) clock: &'a Arc<Clock>,
    /// Whether only the head of the answer is asked for.
    pub(super) is_head: bool,
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) pools: &'a Pools,
    pub(super) upload: Option<Arc<Upload>>,
}

impl Attempt<'_> {
    /// Sends the request to the target whose turn it is; to another one, or on another connection, only
    /// if certainly nothing has been sent.
    pub(super) async fn send(
        &self,
        mut request: Request<RequestBody>,
        mut addressee: Addressee,
        mut client: Option<OnUpgrade>,
    ) -> Result<Response<UpstreamBody>, ForwardError> {
        let mut tried = Vec::new();
        let mut must_be_new = false;
        let mut reason = ForwardError::NoConnection;
        // One for each target, and one for a connection that had been closed unnoticed.
        for _ in 0..=self.pools.servers.len() {
            let Some((place, flight)) = self.pools.choose(&tried, self.clock.now()) else {
                break;
            };
            let server = flight.server.clone();
            let Some(address) = &server.address else {
                return Err(ForwardError::Misconfigured);
            };
            let sent = match self.upstream.protocol {
                Protocol::Http1 => {
                    addressee.write_http1(&mut request, address)?;
                    self.over_http1(request, flight, must_be_new, &mut client)
                        .await
                }
                Protocol::Http2 => {
                    addressee.write_http2(&mut request, address)?;
                    // What few requests need is boxed: all of them are moved about as large as they may get.
                    Box::pin(self.over_http2(request, flight)).await
                }
            };
            match sent {
                Ok(response) => {
                    server.answered();
                    return Ok(response);
                }
                Err(Failure::Failed(error)) => {
                    if matches!(
                        error,
                        ForwardError::Reset | ForwardError::BadAnswer | ForwardError::TimedOut
                    ) {
                        server.failed(self.clock.now());
                    }
                    return Err(error);
                }
                Err(Failure::NotSent(unsent, error)) => {
                    (request, reason) = (*unsent, error);
                    match error {
                        // Neither is about this target: the others would say the same.
                        ForwardError::Busy | ForwardError::Misconfigured => break,
                        ForwardError::Reset if !must_be_new => must_be_new = true,
                        _ => {
                            server.failed(self.clock.now());
                            tried.push(place);
                        }
                    }
                }
            }
        }
        Err(reason)
    }

    async fn over_http1(
        &self,
        request: Request<RequestBody>,
        flight: Flight,
        must_be_new: bool,
        client: &mut Option<OnUpgrade>,
    ) -> Result<Response<UpstreamBody>, Failure> {
        let idle = if must_be_new {
            None
        } else {
            flight.server.take_idle()
        };
        let mut http1 = match idle {
            Some(http1) => http1,
            None => match Box::pin(self.new_http1(&flight.server)).await {
                Ok(http1) => http1,
                Err(error) => return Err(Failure::NotSent(Box::new(request), error)),
            },
        };
        let patience = self.patience();
        let response = http1.exchange(request, &patience).await?;
        if !is_plain_or_chunked(response.headers()) {
            return Err(Failure::Failed(ForwardError::BadAnswer));
        }
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (parts, body) = response.into_parts();
            let body = UpstreamBody::http1(body, http1, flight, patience);
            let response = Response::from_parts(parts, ());
            return Ok(answer(response, body, self.is_head));
        }
        let Some(client) = client.take() else {
            return Err(Failure::Failed(ForwardError::BadAnswer));
        };
        let idle = self.upstream.idle_timeout;
        tokio::spawn(tunnel::join(client, http1, flight, idle));
        Ok(answer(response, UpstreamBody::empty(), self.is_head))
    }

    async fn over_http2(
        &self,
        request: Request<RequestBody>,
        flight: Flight,
    ) -> Result<Response<UpstreamBody>, Failure> {
        let mut http2 = match self.some_http2(&flight.server).await {
            Ok(http2) => http2,
            Err(error) => return Err(Failure::NotSent(Box::new(request), error)),
        };
        let patience = self.patience();
        let stream = http2.stream(self.clock);
        let answers = http2.answers();
        match http2.exchange(request, &stream, &patience).await {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let body = UpstreamBody::http2(body, stream, flight, patience);
                let response = Response::from_parts(parts, ());
                Ok(answer(response, body, self.is_head))
            }
            Err(failure) => {
                // A connection on which nothing comes at all may be dead without saying so.
                if http2.answers() == answers {
                    flight.server.retire(&http2);
                }
                Err(failure)
            }
        }
    }

    fn patience(&self) -> Patience {
        Patience {
            clock: self.clock.clone(),
            limits: self.pools.limits,
            upload: self.upload.clone(),
        }
    }

    async fn new_http1(&self, server: &Server) -> Result<Box<Http1>, ForwardError> {
        let slot = server.slot()?;
        let open = async {
            let (link, slot) = self.link(server, slot).await?;
            let http1 = Http1::new(link, slot, self.clock).await;
            http1.map_err(|error| ForwardError::of(&error))
        };
        self.in_time(server, open).await
    }

    /// A connection with room for a request: one that there is, or a new one, which is opened by one
    /// of those who need it.
    async fn some_http2(&self, server: &Server) -> Result<Http2, ForwardError> {
        if let Some(http2) = server.shared() {
            return Ok(http2);
        }
        let open = async {
            let _opening = server.opening.lock().await;
            if let Some(http2) = server.shared() {
                return Ok(http2);
            }
            let (link, slot) = self.link(server, server.slot()?).await?;
            let http2 = Http2::new(link, slot, self.clock).await?;
            server.share(http2.clone());
            Ok(http2)
        };
        self.in_time(server, open).await
    }

    async fn link(&self, server: &Server, slot: Slot) -> Result<(Link, Slot), ForwardError> {
        let tls = if server.target.tls {
            Some(self.pools.tls(self.upstream, self.clock).await?)
        } else {
            None
        };
        match connect(&server.target, self.upstream.protocol, tls).await {
            Ok(link) => Ok((link, slot)),
            Err(error) => {
                tracing::debug!(target = %server.target, %error, "no connection to a target");
                Err(ForwardError::NoConnection)
            }
        }
    }

    async fn in_time<T>(
        &self,
        server: &Server,
        open: impl Future<Output = Result<T, ForwardError>>,
    ) -> Result<T, ForwardError> {
        match tokio::time::timeout(self.upstream.connect_timeout, open).await {
            Ok(opened) => opened,
            Err(_) => {
                tracing::debug!(target = %server.target, "no connection to a target in time");
                Err(ForwardError::ConnectTimedOut)
            }
        }
    }
}
