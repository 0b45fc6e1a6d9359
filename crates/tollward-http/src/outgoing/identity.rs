use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::percent::encoded;

const TENANT: HeaderName = HeaderName::from_static("x-tollward-tenant");
const PLAN: HeaderName = HeaderName::from_static("x-tollward-plan");
const USER: HeaderName = HeaderName::from_static("x-tollward-user");

/// Tells the upstream who calls: `X-Tollward-Tenant`, `-Plan` and `-User`, each only if it is known.
///
/// A percent sign, and whatever is not visible ASCII, is percent-encoded. It comes after
/// [`strip`](crate::strip), so that nobody else has said any of it.
pub fn identity_headers(
    tenant: Option<&str>,
    plan: Option<&str>,
    user: Option<&str>,
    headers: &mut HeaderMap,
) {
    for (name, value) in [(TENANT, tenant), (PLAN, plan), (USER, user)] {
        let visible = |byte| matches!(byte, b'!'..=b'~');
        let value = value.map(|value| HeaderValue::try_from(&*encoded(value, visible)));
        if let Some(Ok(value)) = value {
            headers.insert(name, value);
        }
    }
}
