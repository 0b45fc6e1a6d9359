use bytes::{BufMut, Bytes, BytesMut};
use http::header::{
    ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use tollward_engine::{Decision, LimitStatus};
use tollward_policy::ResponseOptions;
use tollward_policy::config::HeaderStyle;

use crate::Told;

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT_06: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING_06: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET_06: HeaderName = HeaderName::from_static("ratelimit-reset");
/// The largest integer of a structured field.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Writes what a decision tells a client: the state of its limits, and when to come again. Whoever
/// writes a body too does both through one [`Told`].
pub fn write_headers(decision: &Decision<'_>, options: &ResponseOptions, headers: &mut HeaderMap) {
    Told::new(decision, options).write_headers(headers);
}

impl Told<'_, '_> {
    /// Writes the state of the decision's limits, and when to come again.
    pub fn write_headers(&self, headers: &mut HeaderMap) {
        self.each(|name, value| {
            headers.insert(name, value);
        });
    }

    /// Each header, with its value.
    pub(crate) fn each(&self, mut put: impl FnMut(HeaderName, HeaderValue)) {
        if !self.decision.allowed {
            put(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            if let Some(secs) = self.retry_after_secs() {
                put(RETRY_AFTER, secs.into());
            }
        }
        let mut written = false;
        for style in &self.options.headers {
            written |= match style {
                HeaderStyle::XRateLimit => self.x_ratelimit(&mut put),
                HeaderStyle::Ietf => self.ietf(&mut put),
                HeaderStyle::Ietf06 => self.ietf_06(&mut put),
            };
        }
        if written && self.options.expose_headers {
            let exposed = exposed(&self.options.headers);
            put(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }

    fn shown_in_headers(&self) -> Option<&LimitStatus<'_>> {
        self.decision.shown().filter(|status| status.limit.headers)
    }

    fn x_ratelimit(&self, put: &mut impl FnMut(HeaderName, HeaderValue)) -> bool {
        let Some(status) = self.shown_in_headers() else {
            return false;
        };
        put(X_LIMIT, status.limit.shown(self.options.limit).into());
        put(X_REMAINING, status.remaining.into());
        put(X_RESET, self.decision.reset_at(status).into());
        true
    }

    fn ietf_06(&self, put: &mut impl FnMut(HeaderName, HeaderValue)) -> bool {
        let Some(status) = self.shown_in_headers() else {
            return false;
        };
        put(LIMIT_06, status.limit.shown(self.options.limit).into());
        put(REMAINING_06, status.remaining.into());
        put(RESET_06, self.effective_secs(status).into());
        true
    }

    /// `RateLimit-Policy` and `RateLimit` as lists of structured-field strings with parameters. Names
    /// hold no quotes and no backslashes: the policy's compiler has seen to that.
    fn ietf(&self, put: &mut impl FnMut(HeaderName, HeaderValue)) -> bool {
        let told = |status: &&LimitStatus<'_>| !status.shadow && status.limit.headers;
        let (mut policies, mut states) = (List::new(), List::new());
        for status in self.decision.limits.iter().filter(told) {
            let limit = &status.limit.limit;
            policies.item(&status.limit.name);
            policies.parameter(b";q=", limit.capacity().into());
            policies.parameter(b";w=", limit.fill_secs().max(1));
            states.item(&status.limit.name);
            states.parameter(b";r=", status.remaining.into());
            states.parameter(b";t=", self.effective_secs(status));
        }
        let (Some(policies), Some(states)) = (policies.value(), states.value()) else {
            return false;
        };
        put(POLICY, policies);
        put(RATELIMIT, states);
        true
    }
}

/// A list of strings with integers for parameters.
struct List(BytesMut);

impl List {
    fn new() -> Self {
        Self(BytesMut::new())
    }

    fn item(&mut self, name: &str) {
        if self.0.is_empty() {
            self.0.reserve(128);
        } else {
            self.0.put_slice(b", ");
        }
        self.0.put_u8(b'"');
        self.0.put_slice(name.as_bytes());
        self.0.put_u8(b'"');
    }

    fn parameter(&mut self, key: &'static [u8], value: u64) {
        self.0.put_slice(key);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(value.min(MAX_INTEGER));
        self.0.put_slice(digits.as_bytes());
    }

    /// The list as a header, if it has anything in it.
    fn value(self) -> Option<HeaderValue> {
        let text: Bytes = self.0.freeze();
        let value = HeaderValue::from_maybe_shared(text).ok()?;
        (!value.is_empty()).then_some(value)
    }
}

/// The names that scripts in browsers may read: those of these styles, and `Retry-After`.
pub(crate) fn exposed(styles: &[HeaderStyle]) -> HeaderValue {
    let names = |style: &HeaderStyle| match style {
        HeaderStyle::XRateLimit => "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, ",
        HeaderStyle::Ietf => "RateLimit-Policy, RateLimit, ",
        HeaderStyle::Ietf06 => "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, ",
    };
    let mut text: String = styles.iter().map(names).collect();
    text.push_str("Retry-After");
    // Names of headers, and commas: this is a value.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Retry-After"))
}
