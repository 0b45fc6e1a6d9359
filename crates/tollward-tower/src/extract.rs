//! [`Toll`] as an extractor of axum.

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::Toll;

impl<S: Sync> FromRequestParts<S> for Toll {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let toll = head.extensions.get::<Self>();
        toll.cloned().ok_or((
            StatusCode::INTERNAL_SERVER_ERROR,
            "The route has no RateLimitLayer.",
        ))
    }
}
