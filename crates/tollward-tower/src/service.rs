use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use crate::{Body, Gate, Toll, frameworks};

/// A service behind a [`Gate`]. Made by [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimit<S> {
    gate: Gate,
    inner: S,
}

/// What [`RateLimit`] answers with.
pub type ResponseFuture<B, E> = Pin<Box<dyn Future<Output = Result<Response<B>, E>> + Send>>;

impl<S> RateLimit<S> {
    /// `inner`, behind `gate`.
    pub fn new(gate: Gate, inner: S) -> Self {
        Self { gate, inner }
    }
}

impl<S, In, Out> Service<Request<In>> for RateLimit<S>
where
    S: Service<Request<In>, Response = Response<Out>> + Clone + Send + 'static,
    S::Future: Send,
    In: Send + 'static,
    Out: http_body::Body<Data = Bytes> + Unpin,
{
    type Response = Response<Body<Out>>;
    type Error = S::Error;
    type Future = ResponseFuture<Body<Out>, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        // The one that is ready is this one; its clone may not be.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let gate = self.gate.clone();
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            let peer = frameworks::peer(&head.extensions);
            let mut admitted = match gate.admit(peer, &head).await {
                Ok(admitted) => admitted,
                Err(refusal) => return Ok(refusal.map(Body::Refusal)),
            };
            let headers = std::mem::take(&mut admitted.headers);
            let toll = Toll::new(gate.engine().clone(), &mut admitted);
            head.extensions.insert(toll);
            let response = inner.call(Request::from_parts(head, body)).await?;
            let mut response = response.map(Body::Service);
            headers.write_to(response.headers_mut());
            Ok(response)
        })
    }
}
