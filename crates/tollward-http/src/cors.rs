//! Cross-origin resource sharing (CORS), as <https://fetch.spec.whatwg.org/#http-cors-protocol> has it.
//!
//! Nothing else in the project writes `Access-Control-Allow-*` and `Access-Control-Max-Age`.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, VARY,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use tollward_policy::config::HeaderStyle;
use tollward_policy::{Cors, Origin, Policy};

use crate::headers::exposed;
use crate::{Problem, problem_response};

/// What every header of CORS on an answer begins with.
const PREFIX: &str = "access-control-";

/// What CORS makes of a request.
#[derive(Debug)]
pub enum CrossOrigin {
    /// It is a preflight. This is the answer: it needs no credential, is charged to nobody and is not passed on.
    Preflight(Response<Full<Bytes>>, CorsOutcome),
    /// It is a request like any other, and its answer gets these headers, whatever the answer is.
    Request(CorsHeaders, CorsOutcome),
}

impl CrossOrigin {
    /// What was found out.
    pub fn outcome(&self) -> CorsOutcome {
        match self {
            Self::Preflight(_, outcome) | Self::Request(_, outcome) => *outcome,
        }
    }
}

/// What was found out about a request, for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorsOutcome {
    /// No page of another origin sent it.
    SameOrigin,
    /// Its page may read the answer.
    Allowed,
    /// A preflight that is allowed.
    Preflight,
    /// Its origin is not in `origins`.
    OriginNotAllowed,
    /// A preflight for a method that is not in `methods`.
    MethodNotAllowed,
    /// A preflight for a header that is not in `headers`.
    HeaderNotAllowed,
}

impl CorsOutcome {
    /// A word for it; none if there is nothing to tell.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::SameOrigin | Self::Allowed => None,
            Self::Preflight => Some("preflight"),
            Self::OriginNotAllowed => Some("origin_not_allowed"),
            Self::MethodNotAllowed => Some("method_not_allowed"),
            Self::HeaderNotAllowed => Some("header_not_allowed"),
        }
    }
}

/// The headers of CORS for one answer.
#[derive(Debug, Default)]
pub struct CorsHeaders {
    /// Boxed, because few requests come from pages of other origins.
    allowed: Option<Box<Allowed>>,
}

#[derive(Debug)]
struct Allowed {
    origin: HeaderValue,
    credentials: bool,
    exposed: Option<HeaderValue>,
}

/// What a policy's `cors` makes of a request; none if the policy has none for it, which means that its answer
/// is left as it is.
pub fn cross_origin(policy: &Policy, head: &Parts) -> Option<CrossOrigin> {
    if !policy.has_cors() {
        return None;
    }
    let asked = asked_method(head);
    let method = match asked {
        // One that cannot be read is no method of any route.
        Some(asked) => asked.to_str().unwrap_or_default(),
        None => head.method.as_str(),
    };
    let cors = policy.cors(method, head.uri.path())?;
    let headers = CorsHeaders::of(cors, &policy.response().headers, head);
    Some(match asked {
        Some(_) => preflight(cors, method, head, &headers),
        None => {
            let outcome = match (&headers.allowed, is_cross_origin(head)) {
                (_, false) => CorsOutcome::SameOrigin,
                (Some(_), true) => CorsOutcome::Allowed,
                (None, true) => CorsOutcome::OriginNotAllowed,
            };
            CrossOrigin::Request(headers, outcome)
        }
    })
}

impl CorsHeaders {
    fn of(cors: &Cors, styles: &[HeaderStyle], head: &Parts) -> Self {
        let allowed = allowed_origin(cors, head).map(|origin| {
            Box::new(Allowed {
                origin,
                credentials: cors.credentials,
                exposed: (cors.expose.as_ref()).and_then(|besides| all_exposed(styles, besides)),
            })
        });
        Self { allowed }
    }

    /// Writes them to an answer, in place of all that it says about CORS. Answers to other origins, and to
    /// requests without one, differ; so every answer says that it depends on the origin.
    pub fn write_to(self, answer: &mut HeaderMap) {
        forget(answer);
        self.write_origin(answer);
        let exposed = self.allowed.and_then(|allowed| allowed.exposed);
        if let Some(exposed) = exposed {
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        vary_by_origin(answer);
    }

    /// Writes who may read an answer, if anybody may.
    fn write_origin(&self, answer: &mut HeaderMap) {
        let Some(allowed) = &self.allowed else {
            return;
        };
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed.origin.clone());
        if allowed.credentials {
            let yes = HeaderValue::from_static("true");
            answer.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
    }
}

/// What an answer says about CORS, for another answer in its place.
pub fn cors_of(answer: &HeaderMap) -> HeaderMap {
    let said = |name: &HeaderName| name.as_str().starts_with(PREFIX);
    let said = answer.iter().filter(|(name, _)| said(name));
    let mut headers: HeaderMap = said
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !headers.is_empty() {
        vary_by_origin(&mut headers);
    }
    headers
}

/// Removes the CORS headers that the upstream set.
fn forget(answer: &mut HeaderMap) {
    let names = answer
        .keys()
        .filter(|name| name.as_str().starts_with(PREFIX));
    let names: Vec<HeaderName> = names.cloned().collect();
    for name in names {
        answer.remove(name);
    }
}

fn vary_by_origin(answer: &mut HeaderMap) {
    let lists_origin = |value: &HeaderValue| {
        let mut names = value.as_bytes().split(|byte| *byte == b',');
        names.any(|name| matches!(name.trim_ascii(), b"*") || is(name, "origin"))
    };
    if !answer.get_all(VARY).iter().any(lists_origin) {
        answer.append(VARY, HeaderValue::from_static("Origin"));
    }
}

/// The method that a preflight asks about; none if this is no preflight.
fn asked_method(head: &Parts) -> Option<&HeaderValue> {
    if head.method != Method::OPTIONS || !head.headers.contains_key(ORIGIN) {
        return None;
    }
    head.headers.get(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(cors: &Cors, method: &str, head: &Parts, headers: &CorsHeaders) -> CrossOrigin {
    let (mut response, outcome) = match refused_preflight(cors, method, head, headers) {
        Some((outcome, detail)) => {
            let problem = Problem::new(StatusCode::FORBIDDEN, detail);
            let problem = problem.with("reason", outcome.word().unwrap_or_default());
            (problem_response(&problem, head), outcome)
        }
        None => {
            // Also for a path that leads nowhere: the page can then read the 404 of the request itself.
            let mut response = granted(cors);
            headers.write_origin(response.headers_mut());
            (response, CorsOutcome::Preflight)
        }
    };
    let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
    let vary = HeaderValue::from_static(vary);
    response.headers_mut().insert(VARY, vary);
    CrossOrigin::Preflight(response, outcome)
}

/// Why a preflight is refused, and what to do about it.
fn refused_preflight(
    cors: &Cors,
    method: &str,
    head: &Parts,
    headers: &CorsHeaders,
) -> Option<(CorsOutcome, String)> {
    if headers.allowed.is_none() {
        let detail = "Pages of this origin may not call this: it is not in `cors.origins`.";
        return Some((CorsOutcome::OriginNotAllowed, detail.into()));
    }
    if !cors.methods.iter().any(|allowed| allowed == method) {
        let detail = "Pages may not use this method: it is not in `cors.methods`.";
        return Some((CorsOutcome::MethodNotAllowed, detail.into()));
    }
    let name = refused_header(cors, head)?;
    // What is no name may be anything.
    let detail = match HeaderName::from_bytes(name) {
        Ok(name) => {
            format!("Pages may not send the header `{name}`: it is not in `cors.headers`.")
        }
        Err(_) => "Access-Control-Request-Headers is not a list of headers.".into(),
    };
    Some((CorsOutcome::HeaderNotAllowed, detail))
}

/// The first header that a preflight asks about in vain.
fn refused_header<'h>(cors: &Cors, head: &'h Parts) -> Option<&'h [u8]> {
    let lists = head.headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS);
    let names = lists
        .iter()
        .flat_map(|it| it.as_bytes().split(|byte| *byte == b','));
    let mut names = names
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty());
    names.find(|name| {
        !cors
            .headers
            .iter()
            .any(|allowed| is(name, allowed.as_str()))
    })
}

/// The answer to a preflight that is allowed, without what every answer says.
fn granted(cors: &Cors) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let methods = cors.methods.iter().map(Method::as_str);
    let names = cors.headers.iter().map(HeaderName::as_str);
    let headers = response.headers_mut();
    if let Some(methods) = list(methods) {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    if let Some(names) = list(names) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, cors.max_age_secs.into());
    response
}

/// What to answer as the origin that is allowed; none if that of the request is not.
fn allowed_origin(cors: &Cors, head: &Parts) -> Option<HeaderValue> {
    let origin = only(&head.headers, ORIGIN)?;
    let text = origin.to_str().ok().filter(|text| *text != "null")?;
    let pattern = cors.origins.iter().find(|pattern| matches(pattern, text))?;
    Some(match pattern {
        Origin::Any => HeaderValue::from_static("*"),
        Origin::Exact(_) | Origin::Subdomain { .. } => origin.clone(),
    })
}

/// Whether an origin, as a browser sends it, is one of those that are meant.
fn matches(pattern: &Origin, origin: &str) -> bool {
    match pattern {
        Origin::Any => true,
        Origin::Exact(exact) => **exact == *origin,
        Origin::Subdomain { scheme, domain } => {
            let host = origin.strip_prefix(&**scheme);
            let label = host.and_then(|host| host.strip_suffix(&**domain));
            let is_inner =
                |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
            label.is_some_and(|label| !label.is_empty() && label.bytes().all(is_inner))
        }
    }
}

/// Whether a page of another origin sent a request. Browsers name the origin of pages of the same one too.
fn is_cross_origin(head: &Parts) -> bool {
    let Some(origin) = head.headers.get(ORIGIN) else {
        return false;
    };
    let host = head.headers.get(HOST).map(HeaderValue::as_bytes);
    let own = origin.to_str().ok().and_then(|it| it.split_once("://"));
    own.is_none_or(|(_, own)| Some(own.as_bytes()) != host)
}

/// The headers of limits, and others.
fn all_exposed(styles: &[HeaderStyle], besides: &[HeaderName]) -> Option<HeaderValue> {
    let limits = exposed(styles);
    if besides.is_empty() {
        return Some(limits);
    }
    let limits = limits.to_str().unwrap_or_default();
    let mut names = limits.split(", ");
    let is_new = |name: &&str| !names.clone().any(|it| it.eq_ignore_ascii_case(name));
    let besides: Vec<&str> = besides
        .iter()
        .map(HeaderName::as_str)
        .filter(is_new)
        .collect();
    list(names.by_ref().chain(besides))
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> Option<HeaderValue> {
    let names: Vec<&str> = names.collect();
    // Names and commas: this is a value.
    let value = HeaderValue::try_from(names.join(", ")).ok();
    value.filter(|_| !names.is_empty())
}

/// Whether this is a name, in whatever case.
fn is(text: &[u8], name: &str) -> bool {
    text.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
}

/// The value of a header that is there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&HeaderValue> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)
}
