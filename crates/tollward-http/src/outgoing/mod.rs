//! The head of a request on its way to the upstream.

mod forwarded;
mod identity;
mod strip;

pub use forwarded::add_forwarded;
pub use identity::identity_headers;
pub(crate) use strip::overrides_method;
pub use strip::{strip, strip_trailers};
