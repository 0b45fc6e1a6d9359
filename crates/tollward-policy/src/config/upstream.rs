//! Where admitted requests go, as it is written.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::Named;
use super::decode::{Context, Decode, Fields, List};
use super::duration::Timeout;
use super::fault::Spanned;
use super::http_url::HttpUrl;
use super::limit::RateLimit;
use super::record::{record, words};
use super::scalar::{ShortName, Text, Whole};
use super::schema::Defs;
use super::yaml::Node;

/// The most servers of one upstream.
pub const MAX_TARGETS: usize = 64;

record! {
    /// Servers that answer for some routes: exactly one of `url` and `urls`.
    pub struct Upstream {
        /// Its only server: `http://HOST:PORT`, or `https://`, with a path before all others or
        /// without.
        url: Option<Spanned<HttpUrl>> = optional Url,
        /// Its servers, which share the requests.
        urls: Vec<Spanned<HttpUrl>> = defaulted List<Url>,
        /// How long a connection may take, TLS handshake included; `1s` unless told otherwise.
        connect_timeout: Option<Spanned<Duration>> = optional Timeout,
        /// How long the head of an answer may take; `30s` unless told otherwise.
        response_timeout: Option<Spanned<Duration>> = optional Timeout,
        /// How long a body or an upgraded connection may stand still, and an unused connection is
        /// kept; `60s` unless told otherwise.
        idle_timeout: Option<Spanned<Duration>> = optional Timeout,
        /// What is spoken; `http1` unless told otherwise.
        protocol: Option<Spanned<Protocol>> = optional Protocol,
        /// What it is told as `Host`; `keep` for `http://` and `target` for `https://` unless told
        /// otherwise.
        host: Option<Spanned<HostHeader>> = optional HostHeader,
        /// The certificates for `https://`.
        tls: Option<UpstreamTls> = optional UpstreamTls,
        /// The most connections to each server from each worker; 1024 unless told otherwise.
        max_connections: Option<Spanned<u32>> = optional Whole<1, 1_000_000>,
        /// The only limit of its own; its scope is `[tenant, upstream]` unless told otherwise.
        rate_limit: Option<RateLimit> = optional RateLimit,
        /// The limits of its own, by name.
        rate_limits: Named<RateLimit> = defaulted super::decode::Map<ShortName, RateLimit>,
    }
    check: has_servers;
}

words! {
    /// What is spoken with an upstream.
    pub enum Protocol {
        /// HTTP/1.1.
        Http1 = "http1",
        /// HTTP/2: by prior knowledge on `http://`, by ALPN on `https://`.
        Http2 = "http2",
    }
}

words! {
    /// What an upstream is told as `Host`.
    pub enum HostHeader {
        /// What the client said.
        Keep = "keep",
        /// The host of its URL.
        Target = "target",
    }
}

record! {
    /// The certificates of connections to an upstream, as PEM files.
    pub struct UpstreamTls {
        /// Who signed the server's; those whom the system trusts, unless told otherwise.
        ca: Option<Spanned<String>> = optional Text<4096>,
        /// The one that is shown to the server.
        cert: Option<Spanned<String>> = optional Text<4096>,
        /// The private key of `cert`.
        key: Option<Spanned<String>> = optional Text<4096>,
    }
}

fn has_servers(fields: &Fields<'_>, node: &Node, cx: &mut Context) {
    match (fields.has("url"), fields.has("urls")) {
        (true, true) => {
            cx.fault_with::<()>(
                node,
                "has both `url` and `urls`",
                "move the one into `urls`",
            );
        }
        (false, false) => {
            let hint = "add `url: http://HOST:PORT`, or `urls` with a list of them";
            cx.fault_with::<()>(node, "has no server", hint);
        }
        _ => {}
    }
}

/// The URL of a server.
struct Url;

impl Decode for Url {
    type Value = Spanned<HttpUrl>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        match HttpUrl::parse(text, false) {
            Ok(url) => Some(cx.spanned(node, url)),
            Err(fault) => cx.fault_with(node, fault.message, fault.hint),
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://", "examples": [
            "http://127.0.0.1:9000",
            "https://api.example.com/base",
        ] })
    }

    fn expected() -> String {
        "a URL such as `http://127.0.0.1:9000`".to_owned()
    }
}
