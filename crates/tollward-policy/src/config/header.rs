//! Names of headers.

use http::HeaderName;
use serde_json::{Value as Json, json};

use super::decode::{Context, Decode};
use super::fault::{Spanned, quoted};
use super::schema::Defs;
use super::yaml::Node;

/// The longest name, in bytes.
const MAX_NAME: usize = 128;

/// Headers that say something else already: of the connection, of the message, of the way it came, and
/// what Tollward itself says.
const TAKEN: [&str; 24] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "www-authenticate",
];
const TAKEN_PREFIXES: [&str; 7] = [
    "access-control-",
    "ratelimit",
    "sec-",
    "x-forwarded-",
    "x-http-method",
    "x-ratelimit-",
    "x-tollward-",
];

/// The name of a header that may say who calls.
pub(crate) struct Header;

impl Decode for Header {
    type Value = Spanned<HeaderName>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        let name = HeaderName::from_bytes(text.as_bytes()).ok();
        let Some(name) = name.filter(|_| text.len() <= MAX_NAME) else {
            let message = format!("{} cannot be the name of a header", quoted(text));
            return cx.fault_with(node, message, format!("write {}", Self::expected()));
        };
        let begins = |prefix: &&str| name.as_str().starts_with(prefix);
        if TAKEN.contains(&name.as_str()) || TAKEN_PREFIXES.iter().any(begins) {
            let message = format!("{} says something else already", quoted(text));
            return cx.fault_with(node, message, "choose a header of its own");
        }
        Some(cx.spanned(node, name))
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "pattern": "^[0-9A-Za-z!#$%&'*+.^_`|~-]{1,128}$" })
    }

    fn expected() -> String {
        "a header such as `X-Api-Key`".to_owned()
    }
}
