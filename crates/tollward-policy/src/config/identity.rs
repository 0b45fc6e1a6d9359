//! How callers are told apart, as it is written.

use http::HeaderName;
use ipnet::IpNet;
use serde_json::{Value as Json, json};

use super::decode::{Context, Decode, Fields, List};
use super::fault::{Spanned, did_you_mean, one_of, quoted};
use super::header::Header;
use super::http_url::HttpUrl;
use super::record::{record, words};
use super::scalar::{Cidr, Flag, Ipv6Prefix, Text};
use super::schema::Defs;
use super::yaml::{Kind, Node};

record! {
    /// How callers are told apart.
    pub struct Identity {
        /// Where API keys are.
        api_key: Option<ApiKeyIdentity> = optional ApiKeyIdentity,
        /// What says who the user is.
        user: Option<UserIdentity> = optional UserIdentity,
        /// What says which client calls.
        client: Option<ClientIdentity> = optional ClientIdentity,
        /// What holds for callers of whom nothing is proven: `reject`, `allow`, or a plan for those
        /// who have none.
        anonymous: Option<Anonymous> = optional AnonymousOrWord,
        /// How addresses are found and grouped.
        ip: Option<IdentityIp> = optional IdentityIp,
        /// What happens to a request of a tenant that is not known.
        unknown_tenant: Option<Spanned<UnknownTenant>> = optional UnknownTenant,
    }
}

record! {
    /// Where API keys are.
    pub struct ApiKeyIdentity {
        /// The header; `X-Api-Key` unless told otherwise.
        header: Option<Spanned<HeaderName>> = optional Header,
        /// Whether the gateway passes it on; `false` unless told otherwise.
        forward: Option<Spanned<bool>> = optional Flag,
    }
}

record! {
    /// What says who the user is.
    pub struct UserIdentity {
        /// A header, believed from trusted peers only.
        header: Option<Spanned<HeaderName>> = optional Header,
        /// How a token proves it.
        jwt: Option<JwtIdentity> = optional JwtIdentity,
    }
    check: names_a_user;
}

record! {
    /// How a token in `Authorization: Bearer` proves the user.
    pub struct JwtIdentity {
        /// The keys that tokens are signed with: a file, or a URL with `http://` or `https://`.
        jwks: Spanned<Jwks> = required Jwks,
        /// The claim with the user; `sub` unless told otherwise.
        claim: Option<Spanned<String>> = optional Text,
        /// The only algorithm that is believed; `RS256` unless told otherwise.
        algorithm: Option<Spanned<JwtAlgorithm>> = optional JwtAlgorithm,
        /// Who must have issued the token; anybody unless told otherwise.
        issuer: Option<Spanned<String>> = optional Text<1024>,
        /// For whom the token must have been issued; anybody unless told otherwise.
        audience: Option<Spanned<String>> = optional Text<1024>,
    }
}

record! {
    /// What says which client calls.
    pub struct ClientIdentity {
        /// A header, believed from trusted peers only.
        header: Option<Spanned<HeaderName>> = optional Header,
        /// Whether HTTP Basic proves it: the client's id, and one of its API keys as password;
        /// `false` unless told otherwise.
        basic: Option<Spanned<bool>> = optional Flag,
    }
    check: names_a_client;
}

record! {
    /// How addresses are found and grouped.
    pub struct IdentityIp {
        /// The networks whose word counts: for whom they ask, and who the user is.
        trusted_proxies: Vec<Spanned<IpNet>> = defaulted List<Cidr>,
        /// The header in which they say for whom they ask; `x-forwarded-for` unless told otherwise.
        header: Option<Spanned<ForwardingHeader>> = optional ForwardingHeader,
        /// The bits of an IPv6 address that make one caller; 64 unless told otherwise.
        ipv6_prefix: Option<Spanned<u8>> = optional Ipv6Prefix,
    }
}

record! {
    /// A plan for callers who have none.
    pub struct AnonymousPlan {
        /// The plan that is given.
        plan: Spanned<String> = required Text,
    }
}

/// What holds for callers of whom nothing is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// They are refused.
    Reject,
    /// They are let in.
    Allow,
    /// They are let in, and whoever has no plan is given this one.
    Plan(Spanned<String>),
}

words! {
    /// A header in which proxies say for whom they ask. Only the one that is named is read.
    pub enum ForwardingHeader {
        /// `X-Forwarded-For`.
        XForwardedFor = "x-forwarded-for",
        /// `Forwarded`, of RFC 7239.
        Forwarded = "forwarded",
    }
}

words! {
    /// An algorithm by which tokens are signed.
    pub enum JwtAlgorithm {
        /// RSA of PKCS #1 with SHA-256.
        RS256 = "RS256",
        /// RSA of PKCS #1 with SHA-384.
        RS384 = "RS384",
        /// RSA of PKCS #1 with SHA-512.
        RS512 = "RS512",
        /// RSA-PSS with SHA-256.
        PS256 = "PS256",
        /// ECDSA on P-256 with SHA-256.
        ES256 = "ES256",
        /// ECDSA on P-384 with SHA-384.
        ES384 = "ES384",
        /// Ed25519.
        EdDSA = "EdDSA",
    }
}

words! {
    /// What happens to a request of a tenant that is not known.
    pub enum UnknownTenant {
        /// It is a tenant without limits of its own.
        Accept = "accept",
        /// It is bad input.
        Reject = "reject",
    }
}

fn names_a_user(fields: &Fields<'_>, node: &Node, cx: &mut Context) {
    says_something(&["header", "jwt"], fields, node, cx);
}

fn names_a_client(fields: &Fields<'_>, node: &Node, cx: &mut Context) {
    says_something(&["header", "basic"], fields, node, cx);
}

fn says_something(ways: &[&str], fields: &Fields<'_>, node: &Node, cx: &mut Context) {
    if !ways.iter().any(|way| fields.has(way)) {
        let hint = format!("give it {}, or remove it", one_of(ways));
        cx.fault_with::<()>(node, "says nothing", hint);
    }
}

/// Where a JSON Web Key Set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Jwks {
    /// In a file.
    File(String),
    /// At a URL.
    Url(String),
}

impl Decode for Jwks {
    type Value = Spanned<Self>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let Spanned { value, place } = Text::<4096>::decode(node, cx)?;
        if !value.contains("://") {
            let value = Self::File(value);
            return Some(Spanned { value, place });
        }
        match HttpUrl::parse(&value, true) {
            Ok(_) => {
                let value = Self::Url(value);
                Some(Spanned { value, place })
            }
            Err(fault) => cx.fault_with(node, fault.message, fault.hint),
        }
    }

    fn schema(defs: &mut Defs) -> Json {
        Text::<4096>::schema(defs)
    }

    fn expected() -> String {
        "a file, or a URL such as `https://login.example.com/jwks.json`".to_owned()
    }
}

/// A mapping with a plan, or a word.
struct AnonymousOrWord;

impl Decode for AnonymousOrWord {
    type Value = Anonymous;

    fn decode(node: &Node, cx: &mut Context) -> Option<Anonymous> {
        let Kind::Scalar { text, .. } = &node.kind else {
            return Some(Anonymous::Plan(AnonymousPlan::decode(node, cx)?.plan));
        };
        match &**text {
            "reject" => Some(Anonymous::Reject),
            "allow" => Some(Anonymous::Allow),
            text => {
                let hint = match did_you_mean(text, ["reject", "allow"]) {
                    Some(word) => format!("did you mean `{word}`?"),
                    None => format!("write {}", Self::expected()),
                };
                cx.fault_with(node, format!("unknown word {}", quoted(text)), hint)
            }
        }
    }

    fn schema(defs: &mut Defs) -> Json {
        json!({ "anyOf": [{ "enum": ["reject", "allow"] }, AnonymousPlan::schema(defs)] })
    }

    fn expected() -> String {
        "`reject`, `allow` or `{ plan: NAME }`".to_owned()
    }
}
