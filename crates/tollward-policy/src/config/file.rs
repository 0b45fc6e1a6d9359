//! The configuration file as it is written.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Value as Json, json};

use super::Named;
use super::cors::{Cors, RouteCors};
use super::date_time::DateTime;
use super::decode::{Context, Decode, Fields, List, Map};
use super::duration::Jitter;
use super::fault::{Spanned, one_of};
use super::gateway::Gateway;
use super::identity::Identity;
use super::limit::{RateLimit, one_or_many};
use super::record::{record, words};
use super::records::{Audit, Directory, Usage};
use super::scalar::{
    Address, Cidr, Flag, HASH_THE_KEY, Sha256, ShortName, TenantName, Text, Whole,
};
use super::schema::Defs;
use super::store::Store;
use super::upstream::Upstream;
use super::yaml::{Kind, Node};

record! {
    /// Tollward's configuration.
    pub struct File {
        /// The addresses to listen on; a door that is not named is closed.
        listen: Option<Listen> = optional Listen,
        /// Where counters live.
        store: Option<Store> = optional Store,
        /// Where tenants, users, keys, the audit trail and usage live beside this file.
        directory: Option<Directory> = optional Directory,
        /// What is written of refusals and changes.
        audit: Option<Audit> = optional Audit,
        /// How use is summed up, and how long that is kept.
        usage: Option<Usage> = optional Usage,
        /// How callers are told apart.
        identity: Option<Identity> = optional Identity,
        /// Limits given to callers, by the name of the plan.
        plans: Named<Plan> = defaulted Map<ShortName, Plan>,
        /// Limits for every request they match, by name.
        limits: Named<RateLimit> = defaulted Map<ShortName, RateLimit>,
        /// What holds for some paths; the most specific match wins, not the first.
        routes: Vec<Route> = defaulted List<Route>,
        /// The pages of other origins that may call the gateway; none unless told otherwise.
        cors: Option<Cors> = optional Cors,
        /// Where admitted requests go, by name.
        upstreams: Named<Upstream> = defaulted Map<ShortName, Upstream>,
        /// The gateway's own settings.
        gateway: Option<Gateway> = optional Gateway,
        /// Tenants, by name.
        tenants: Named<Tenant> = defaulted Map<TenantName, Tenant>,
        /// The API keys.
        keys: Vec<KeyEntry> = defaulted List<KeyEntry>,
        /// Callers that no limit applies to. An entry proves nothing: a key on the list must exist and be
        /// valid.
        allow: Vec<CallerEntry> = defaulted List<CallerEntry>,
        /// Callers that are refused (403), whatever `allow` and `enforcement` say.
        deny: Vec<CallerEntry> = defaulted List<CallerEntry>,
        /// Whether limits refuse; `on` unless told otherwise.
        enforcement: Option<Spanned<Enforcement>> = optional Enforcement,
        /// How paths are compared.
        paths: Option<Paths> = optional Paths,
        /// What answers look like.
        response: Option<Response> = optional Response,
    }
    unsupported: ["guard", "adaptive"];
}

record! {
    /// The addresses to listen on.
    pub struct Listen {
        /// The gateway.
        gateway: Option<Spanned<SocketAddr>> = optional Address,
        /// The decision API.
        api: Option<Spanned<SocketAddr>> = optional Address,
        /// The admin API.
        admin: Option<Spanned<SocketAddr>> = optional Address,
        /// The networks that may use the decision API.
        api_peers: Vec<Spanned<IpNet>> = defaulted List<Cidr>,
        /// The most connections that are open at once.
        max_connections: Option<Spanned<u32>> = optional Whole<1, 1_000_000>,
    }
    unsupported: ["grpc", "resp"];
}

record! {
    /// What a plan grants: one limit, or several by name.
    pub struct Plan {
        /// Its only limit.
        rate_limit: Option<RateLimit> = optional RateLimit,
        /// Its limits, by name.
        rate_limits: Named<RateLimit> = defaulted Map<ShortName, RateLimit>,
    }
}

record! {
    /// What holds for the paths that match.
    pub struct Route {
        /// A pattern of paths, with a method before it or without.
        match_: Spanned<String> = required Text<1024>,
        /// What a request's cost is multiplied by; 1 unless told otherwise.
        cost: Option<Spanned<u32>> = optional Whole<0>,
        /// The only limit of its own.
        rate_limit: Option<RateLimit> = optional RateLimit,
        /// The limits of its own, by name.
        rate_limits: Named<RateLimit> = defaulted Map<ShortName, RateLimit>,
        /// Where its requests go; where those of the next less specific match do, unless told
        /// otherwise.
        upstream: Option<Spanned<String>> = optional Text,
        /// Whether callers have to prove who they are: `required`, `optional` (a credential that is
        /// shown must be right) or `none` (credentials are not read). As `identity.anonymous` says unless
        /// told otherwise; `none` with `allow: true`.
        auth: Option<Spanned<RouteAuth>> = optional RouteAuth,
        /// The pages of other origins that may call it, or `none`; what the next less specific match with
        /// `cors` says, or else the file, unless told otherwise.
        cors: Option<RouteCors> = optional RouteCors,
        /// Whether every request is refused.
        deny: Option<Spanned<bool>> = optional Flag,
        /// Whether every request is admitted without a charge.
        allow: Option<Spanned<bool>> = optional Flag,
    }
}

words! {
    /// Whether callers of a route have to prove who they are.
    pub enum RouteAuth {
        /// They do: without a credential they get 401.
        Required = "required",
        /// They may. A credential that is shown must be right.
        Optional = "optional",
        /// Credentials are not read: every caller is anonymous.
        None = "none",
    }
}

record! {
    /// A node in the tree of tenants.
    pub struct Tenant {
        /// Its plan.
        plan: Option<Spanned<String>> = optional Text,
        /// The tenant above it; `system` unless told otherwise.
        parent: Option<Spanned<String>> = optional Text,
        /// Its limit; what those below have of it is said by `sharing` and `budget`.
        rate_limit: Option<RateLimit> = optional RateLimit,
    }
    foreign: ["rate_limits" => "a tenant has one limit: write it as `rate_limit`"];
}

record! {
    /// An API key, and whose it is.
    pub struct KeyEntry {
        /// The SHA-256 of the key, in hexadecimal.
        sha256: Spanned<[u8; 32]> = required Sha256,
        /// The tenant it proves.
        tenant: Option<Spanned<String>> = optional Text,
        /// The user it proves.
        user: Option<Spanned<String>> = optional Text,
        /// The client it proves.
        client: Option<Spanned<String>> = optional Text,
        /// The plan it is given.
        plan: Option<Spanned<String>> = optional Text,
        /// When it ends, as a date with a time and an offset, such as `2027-01-01T00:00:00Z`; never
        /// unless told otherwise. Kept in Unix seconds: from that second on the key is unknown.
        expires_at: Option<Spanned<u64>> = optional DateTime,
    }
    foreign: ["key" => HASH_THE_KEY, "secret" => HASH_THE_KEY, "api_key" => HASH_THE_KEY];
}

record! {
    /// A caller on a list: exactly one of `cidr`, `api_key`, `user`, `client`, `tenant`.
    pub struct CallerEntry {
        /// The caller's network, or its address.
        cidr: Option<Spanned<IpNet>> = optional Cidr,
        /// The caller's API key.
        api_key: Option<CallerKey> = optional CallerKeyOrText,
        /// The user.
        user: Option<Spanned<String>> = optional Text,
        /// The client.
        client: Option<Spanned<String>> = optional Text,
        /// The tenant.
        tenant: Option<Spanned<String>> = optional Text,
        /// Why, for those who read this later.
        reason: Option<Spanned<String>> = optional Text,
    }
    foreign: ["ip" => "write it as `cidr`", "key" => LIST_THE_HASH, "secret" => LIST_THE_HASH];
    check: names_one_caller;
}

record! {
    /// An API key on a list.
    pub struct CallerKey {
        /// The SHA-256 of the key, in hexadecimal.
        sha256: Spanned<[u8; 32]> = required Sha256,
    }
    foreign: ["key" => HASH_THE_KEY, "secret" => HASH_THE_KEY];
}

words! {
    /// Whether limits refuse.
    pub enum Enforcement {
        /// They do.
        On = "on",
        /// They only count what they would have refused.
        Shadow = "shadow",
        /// Nothing is decided.
        Off = "off",
    }
}

record! {
    /// How paths are compared.
    pub struct Paths {
        /// Whether upper and lower case are told apart; `fold` unless told otherwise.
        case: Option<Spanned<PathCase>> = optional PathCase,
        /// What becomes of `%2F`; `reject` unless told otherwise.
        encoded_slash: Option<Spanned<EncodedSlash>> = optional EncodedSlash,
    }
}

words! {
    /// Whether upper and lower case are told apart.
    pub enum PathCase {
        /// They are not.
        Fold = "fold",
        /// They are.
        Keep = "keep",
    }
}

words! {
    /// What becomes of `%2F` in a path.
    pub enum EncodedSlash {
        /// The request is bad input.
        Reject = "reject",
        /// It stays, and is no slash.
        Keep = "keep",
    }
}

record! {
    /// What answers look like.
    pub struct Response {
        /// The headers that tell a limit's state: a word, a list of words, or `none`.
        headers: Option<Spanned<Vec<Spanned<HeaderStyle>>>> = optional Headers,
        /// The body of a refusal.
        body: Option<Spanned<BodyStyle>> = optional BodyStyle,
        /// The number that is shown as the limit; `capacity` unless told otherwise.
        limit: Option<Spanned<LimitShown>> = optional LimitShown,
        /// Whether scripts in browsers may read the headers.
        expose_headers: Option<Spanned<bool>> = optional Flag,
        /// The most that is added to the time of a retry, at random, so that not all come back at
        /// once; from 0 to 1 h, nothing unless told otherwise.
        jitter: Option<Spanned<Duration>> = optional Jitter,
    }
}

words! {
    /// A family of headers that tell a limit's state.
    pub enum HeaderStyle {
        /// `X-RateLimit-Limit` and its like.
        XRateLimit = "x-ratelimit",
        /// `RateLimit` and `RateLimit-Policy`.
        Ietf = "ietf",
        /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, of an older draft.
        Ietf06 = "ietf-06",
    }
}

words! {
    /// A shape of the body of a refusal.
    pub enum BodyStyle {
        /// RFC 9457.
        Problem = "problem",
        /// An object under `error`.
        Nested = "nested",
        /// A text under `error`, the rest beside it.
        Flat = "flat",
        /// As RFC 6749 has it.
        OAuth = "oauth",
    }
}

words! {
    /// The number that is shown as the limit.
    pub enum LimitShown {
        /// What may be taken at once.
        Capacity = "capacity",
        /// The sustained rate.
        Rate = "rate",
    }
}

const LIST_THE_HASH: &str =
    "write `api_key: { sha256: … }` with the SHA-256 of the key: `printf %s KEY | sha256sum`";

fn names_one_caller(fields: &Fields<'_>, node: &Node, cx: &mut Context) {
    const WAYS: [&str; 5] = ["cidr", "api_key", "user", "client", "tenant"];
    let given: Vec<_> = WAYS.into_iter().filter(|way| fields.has(way)).collect();
    match *given {
        [_] => None,
        [] => cx.fault_with(node, "names no caller", format!("give {}", one_of(&WAYS))),
        _ => {
            let message = format!("has {} at once", given.join(" and "));
            cx.fault_with::<()>(node, message, "make them entries of their own")
        }
    };
}

/// A mapping, or what may be a secret and must not be here.
struct CallerKeyOrText;

impl Decode for CallerKeyOrText {
    type Value = CallerKey;

    fn decode(node: &Node, cx: &mut Context) -> Option<CallerKey> {
        match node.kind {
            Kind::Scalar { .. } => {
                cx.fault_with(node, "expected a mapping with `sha256`", LIST_THE_HASH)
            }
            _ => CallerKey::decode(node, cx),
        }
    }

    fn schema(defs: &mut Defs) -> Json {
        CallerKey::schema(defs)
    }

    fn expected() -> String {
        CallerKey::expected()
    }
}

/// Families of headers: a word, a list of words, or `none`.
struct Headers;

impl Decode for Headers {
    type Value = Spanned<Vec<Spanned<HeaderStyle>>>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let is_none = matches!(&node.kind, Kind::Scalar { text, .. } if **text == *"none");
        let styles = if is_none {
            Vec::new()
        } else {
            one_or_many::<HeaderStyle, _>(node, HeaderStyle::word, cx)?
        };
        Some(cx.spanned(node, styles))
    }

    fn schema(defs: &mut Defs) -> Json {
        let style = HeaderStyle::schema(defs);
        let list = json!({ "type": "array", "items": style, "uniqueItems": true });
        json!({ "anyOf": [style, list, { "const": "none" }] })
    }

    fn expected() -> String {
        "`x-ratelimit`, `ietf`, `ietf-06`, a list of them, or `none`".to_owned()
    }
}
