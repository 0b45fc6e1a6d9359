//! The trailers of a request on their way to an upstream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tollward_engine::Active;
use tollward_http::strip_trailers;

/// A body whose trailers say nothing that only a head may say, or only this gateway.
pub(crate) struct Trailing<B> {
    pub(crate) body: B,
    /// By what the head was read.
    pub(crate) active: Arc<Active>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Trailing<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(trailers) = frame.trailers_mut()
        {
            strip_trailers(self.active.policy().identity(), trailers);
            if trailers.is_empty() {
                return Poll::Ready(None);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
