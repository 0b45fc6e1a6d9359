use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::Full;

/// The body of an answer: the service's, or that of a refusal.
#[derive(Debug)]
pub enum Body<B> {
    /// The service's.
    Service(B),
    /// What a refused caller is told.
    Refusal(Full<Bytes>),
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.get_mut() {
            Self::Service(body) => Pin::new(body).poll_frame(cx),
            Self::Refusal(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Service(body) => body.is_end_stream(),
            Self::Refusal(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Service(body) => body.size_hint(),
            Self::Refusal(body) => body.size_hint(),
        }
    }
}
