//! What of the heads of requests and answers is passed on.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};
use http_body::Body;
use tollward_policy::{HostHeader, Target};

use super::error::ForwardError;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Takes out what concerns one connection only: `Connection` and the fields that it names,
/// `Keep-Alive`, `Proxy-Connection`, `Proxy-Authorization`, `Transfer-Encoding`, `TE` but for
/// `trailers`, and `Upgrade` unless `Connection` asks for an upgrade.
///
/// Who adds fields to a request should call this first: otherwise a client can name them in
/// `Connection`, and they would be taken out. Calling it again changes nothing.
pub fn drop_hop_by_hop(headers: &mut HeaderMap) {
    // Looking once at what is there is cheaper than looking for what mostly is not.
    let mut there = headers.keys().filter(|name| is_hop_by_hop(name));
    match (there.next(), there.next()) {
        (None, _) => return,
        (Some(&CONNECTION), None) if is_about_this_one(headers) => {
            headers.remove(CONNECTION);
            return;
        }
        _ => {}
    }
    let options = drop_named(headers);
    for name in [
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHORIZATION,
        TRANSFER_ENCODING,
    ] {
        headers.remove(name);
    }
    let wants_trailers = headers.contains_key(TE)
        && headers
            .get_all(TE)
            .iter()
            .any(|value| has_token(value, "trailers"));
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    } else {
        headers.remove(TE);
    }
    if options.upgrade && headers.contains_key(UPGRADE) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    } else {
        headers.remove(UPGRADE);
    }
}

/// Whether a field is one of those that [`drop_hop_by_hop`] looks at.
pub(super) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authorization"
            | "proxy-connection"
            | "transfer-encoding"
            | "te"
            | "upgrade"
    )
}

/// Whether all that `Connection` says is whether it goes on, as almost always.
fn is_about_this_one(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONNECTION).iter();
    values.all(|value| {
        let value = value.as_bytes();
        value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
    })
}

#[derive(Default)]
struct Options {
    upgrade: bool,
}

/// Takes out `Connection` and the fields that it names.
fn drop_named(headers: &mut HeaderMap) -> Options {
    let mut options = Options::default();
    if !headers.contains_key(CONNECTION) {
        return options;
    }
    let values: Vec<HeaderValue> = headers.get_all(CONNECTION).iter().cloned().collect();
    headers.remove(CONNECTION);
    for token in values.iter().flat_map(tokens) {
        if token.eq_ignore_ascii_case("upgrade") {
            options.upgrade = true;
        } else if !token.eq_ignore_ascii_case("te")
            && !is_ours(token)
            && let Ok(name) = HeaderName::from_bytes(token.as_bytes())
        {
            headers.remove(name);
        }
    }
    options
}

/// Fields that no client may have taken out: they say who asks for what, and where a message ends.
fn is_ours(token: &str) -> bool {
    let is = |name: &str| token.eq_ignore_ascii_case(name);
    let starts_with = |prefix: &str| {
        token
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    is("host") || is("content-length") || is("forwarded") || starts_with("x-forwarded-")
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    let text = value.to_str().unwrap_or_default();
    text.split(',')
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

fn has_token(value: &HeaderValue, wanted: &str) -> bool {
    tokens(value).any(|token| token.eq_ignore_ascii_case(wanted))
}

/// Whether a request, rid of what is hop-by-hop, asks for an upgrade.
pub(super) fn asks_for_upgrade<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_11 && request.headers().contains_key(UPGRADE)
}

/// Takes `Expect` out. Whether the client waits to be told to send its body.
pub(super) fn take_expectation<B: Body>(request: &mut Request<B>) -> bool {
    let Some(value) = request.headers_mut().remove(EXPECT) else {
        return false;
    };
    request.version() != Version::HTTP_10
        && !request.body().is_end_stream()
        && value.as_bytes().eq_ignore_ascii_case(b"100-continue")
}

/// The same request's address at one target after the other.
#[derive(Debug)]
pub(super) struct Addressee {
    path: PathAndQuery,
    /// Whom the client named, where that is not in the field `Host`.
    authority: Option<Authority>,
}

impl Addressee {
    /// Takes the address out of a request, but for the field `Host`.
    pub(super) fn take<B>(request: &mut Request<B>) -> Self {
        let uri = std::mem::take(request.uri_mut()).into_parts();
        Self {
            path: uri
                .path_and_query
                .unwrap_or_else(|| PathAndQuery::from_static("/")),
            authority: uri.authority,
        }
    }

    /// Writes it for an HTTP/1.1 connection to a target. If there is no room for it, the request is not
    /// to be sent.
    pub(super) fn write_http1<B>(
        &self,
        request: &mut Request<B>,
        to: &Address,
    ) -> Result<(), ForwardError> {
        *request.uri_mut() = Uri::from(self.path_at(to)?);
        *request.version_mut() = Version::HTTP_11;
        let host = match (to.host, &self.authority) {
            // Where the two differ, the field does not count (RFC 9112, 3.2.2; RFC 9113, 8.3.1).
            (HostHeader::Keep, Some(said)) => HeaderValue::from_str(said.as_str()).ok(),
            (HostHeader::Keep, None) if request.headers().contains_key(HOST) => return Ok(()),
            _ => None,
        };
        let host = host.unwrap_or_else(|| to.host_value.clone());
        request.headers_mut().insert(HOST, host);
        Ok(())
    }

    /// Writes it for an HTTP/2 connection to a target. If there is no room for it, the request is not
    /// to be sent.
    pub(super) fn write_http2<B>(
        &mut self,
        request: &mut Request<B>,
        to: &Address,
    ) -> Result<(), ForwardError> {
        if let Some(host) = request.headers_mut().remove(HOST)
            && self.authority.is_none()
        {
            self.authority = Authority::try_from(host.as_bytes()).ok();
        }
        let authority = match (to.host, &self.authority) {
            (HostHeader::Keep, Some(said)) => said,
            _ => &to.authority,
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(to.scheme.clone());
        parts.authority = Some(authority.clone());
        parts.path_and_query = Some(self.path_at(to)?);
        *request.uri_mut() = Uri::from_parts(parts).map_err(|_| ForwardError::TooLong)?;
        *request.version_mut() = Version::HTTP_2;
        Ok(())
    }

    fn path_at(&self, to: &Address) -> Result<PathAndQuery, ForwardError> {
        if to.prefix.is_empty() {
            return Ok(self.path.clone());
        }
        // Both are valid on their own. Without its prefix a path would be another one.
        let path = format!("{}{}", to.prefix, self.path);
        PathAndQuery::try_from(path).map_err(|_| ForwardError::TooLong)
    }
}

/// What a request to a target says about it.
#[derive(Debug)]
pub(super) struct Address {
    host: HostHeader,
    host_value: HeaderValue,
    authority: Authority,
    scheme: Scheme,
    prefix: Box<str>,
}

impl Address {
    /// Nothing if the target's name cannot be written in a request.
    pub(super) fn new(target: &Target, host: HostHeader) -> Option<Self> {
        let authority = target.authority();
        Some(Self {
            host,
            host_value: HeaderValue::from_str(&authority).ok()?,
            authority: Authority::try_from(authority).ok()?,
            scheme: if target.tls {
                Scheme::HTTPS
            } else {
                Scheme::HTTP
            },
            prefix: target.prefix.clone(),
        })
    }
}

/// Sees to it that an HTTP/1.1 head tells how long the body is, which is what the body says itself.
pub(super) fn frame_http1<B: Body>(request: &mut Request<B>) {
    let is_empty = request.body().is_end_stream();
    let length = request.body().size_hint().exact();
    if !is_empty && length.is_none() {
        // Said for every method: otherwise a GET's body would be left out.
        let headers = request.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        return;
    }
    let length = if is_empty { 0 } else { length.unwrap_or(0) };
    let means_a_body = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    set_length(request.headers_mut(), length, means_a_body);
}

/// Sees to it that an HTTP/2 head says nothing else about the length than the body does.
pub(super) fn frame_http2<B: Body>(request: &mut Request<B>) {
    let is_empty = request.body().is_end_stream();
    match request.body().size_hint().exact() {
        Some(_) if is_empty => set_length(request.headers_mut(), 0, false),
        Some(length) => set_length(request.headers_mut(), length, false),
        None => {
            request.headers_mut().remove(CONTENT_LENGTH);
        }
    }
}

/// Whether the body of an answer is encoded in no way, or in the only one that is undone here.
pub(super) fn is_plain_or_chunked(headers: &HeaderMap) -> bool {
    let mut said = headers.get_all(TRANSFER_ENCODING).iter();
    match (said.next(), said.next()) {
        (None, _) => true,
        (Some(value), None) => value.as_bytes().eq_ignore_ascii_case(b"chunked"),
        _ => false,
    }
}

/// Sees to it that the head of an answer says nothing else about the length than the body does.
pub(super) fn frame_answer(headers: &mut HeaderMap, length: Option<u64>) {
    if headers.contains_key(CONTENT_LENGTH) && !length.is_some_and(|it| says_length(headers, it)) {
        headers.remove(CONTENT_LENGTH);
    }
}

/// Whether there is one `Content-Length`, and it is this.
fn says_length(headers: &HeaderMap, length: u64) -> bool {
    let mut said = headers.get_all(CONTENT_LENGTH).iter();
    let (Some(value), None) = (said.next(), said.next()) else {
        return false;
    };
    value.as_bytes().iter().all(u8::is_ascii_digit)
        && value.to_str().is_ok_and(|text| text.parse() == Ok(length))
}

fn set_length(headers: &mut HeaderMap, length: u64, even_nothing: bool) {
    let is_right = if headers.contains_key(CONTENT_LENGTH) {
        says_length(headers, length)
    } else {
        length == 0 && !even_nothing
    };
    if !is_right {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// `TE` is about this connection, and has to be named as such.
pub(super) fn announce_te(headers: &mut HeaderMap) {
    if headers.contains_key(TE) && !headers.contains_key(CONNECTION) {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_concerns_one_connection_is_taken_out() {
        let mut given = headers(&[
            ("connection", "close, X-One"),
            ("connection", "x-two,,"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic YTpi"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip, trailers"),
            ("trailer", "x-sum"),
        ]);
        drop_hop_by_hop(&mut given);
        let left = headers(&[("x-three", "3"), ("te", "trailers"), ("trailer", "x-sum")]);
        assert_eq!(given, left);
    }

    #[test]
    fn what_is_meant_for_a_proxy_is_taken_out_also_on_its_own() {
        let mut given = headers(&[("proxy-authorization", "Basic YTpi"), ("x-one", "1")]);
        drop_hop_by_hop(&mut given);
        assert_eq!(given, headers(&[("x-one", "1")]));
    }

    #[test]
    fn an_upgrade_stays_and_a_second_time_changes_nothing() {
        let mut given = headers(&[
            ("connection", "keep-alive, Upgrade, x-one"),
            ("upgrade", "websocket"),
            ("x-one", "1"),
        ]);
        let left = headers(&[("connection", "upgrade"), ("upgrade", "websocket")]);
        for _ in 0..2 {
            drop_hop_by_hop(&mut given);
            assert_eq!(given, left);
        }
    }

    #[test]
    fn nobody_has_our_fields_taken_out() {
        let fields = [
            ("host", "a.test"),
            ("x-forwarded-for", "192.0.2.1"),
            ("forwarded", "for=192.0.2.1"),
            ("content-length", "3"),
        ];
        let mut given = headers(&fields);
        given.insert(
            CONNECTION,
            HeaderValue::from_static("Host, X-Forwarded-For, forwarded, content-length"),
        );
        drop_hop_by_hop(&mut given);
        assert_eq!(given, headers(&fields));
    }

    #[test]
    fn a_length_is_what_the_body_has() {
        for (said, length, even_nothing, written) in [
            (vec![], 3, false, Some("3")),
            (vec![("content-length", "3")], 3, false, Some("3")),
            (vec![("content-length", "+3")], 3, false, Some("3")),
            (
                vec![("content-length", "3"), ("content-length", "4")],
                3,
                false,
                Some("3"),
            ),
            (vec![("content-length", "9")], 0, false, Some("0")),
            (vec![], 0, true, Some("0")),
            (vec![], 0, false, None),
        ] {
            let mut given = headers(&said);
            set_length(&mut given, length, even_nothing);
            let values: Vec<_> = given.get_all(CONTENT_LENGTH).iter().collect();
            let expected: Vec<_> = written.into_iter().collect();
            assert_eq!(values, expected, "{said:?}");
        }
    }
}
