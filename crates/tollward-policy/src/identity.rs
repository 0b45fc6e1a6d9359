//! What of a request says who calls.

use std::net::IpAddr;
use std::path::PathBuf;

use http::HeaderName;
use ipnet::IpNet;

use crate::config::{ForwardingHeader, JwtAlgorithm};
use crate::scope;

/// How doors that see whole requests tell who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityOptions {
    /// Where API keys are.
    pub api_key: ApiKeyOptions,
    /// The header with the user, believed from trusted peers only.
    pub user_header: Option<HeaderName>,
    /// How tokens prove the user.
    pub jwt: Option<JwtOptions>,
    /// The header with the client, believed from trusted peers only.
    pub client_header: Option<HeaderName>,
    /// Whether HTTP Basic proves the client: its id, and one of its API keys as password.
    pub basic: bool,
    /// The peers whose word counts.
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which they say for whom they ask.
    pub forwarding: ForwardingHeader,
    /// What holds for callers of whom nothing is proven.
    pub anonymous: Anonymous,
}

/// Where API keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyOptions {
    /// The header.
    pub header: HeaderName,
    /// Whether it is passed on.
    pub forward: bool,
}

/// How tokens prove the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtOptions {
    /// Where the keys are that tokens are signed with.
    pub jwks: JwksSource,
    /// The claim with the user.
    pub claim: Box<str>,
    /// The only algorithm that is believed.
    pub algorithm: JwtAlgorithm,
    /// Who must have issued a token.
    pub issuer: Option<Box<str>>,
    /// For whom a token must have been issued.
    pub audience: Option<Box<str>>,
}

/// Where a JSON Web Key Set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file.
    File(PathBuf),
    /// At a URL with `http://` or `https://`, a host, no user and no fragment.
    Url(Box<str>),
}

/// What holds for callers of whom nothing is proven: no API key, no user, no client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// The file does not say. The gateway and forward-auth refuse them (401); the decision API and the tower
    /// layer do not.
    #[default]
    Unsaid,
    /// Every door refuses them.
    Reject,
    /// They are let in, without a plan.
    Allow,
    /// They are let in, and there is a plan for whoever has none.
    Plan,
}

impl Default for ApiKeyOptions {
    fn default() -> Self {
        Self {
            header: HeaderName::from_static("x-api-key"),
            forward: false,
        }
    }
}

impl Default for IdentityOptions {
    fn default() -> Self {
        Self {
            api_key: ApiKeyOptions::default(),
            user_header: None,
            jwt: None,
            client_header: None,
            basic: false,
            trusted_proxies: Vec::new(),
            forwarding: ForwardingHeader::XForwardedFor,
            anonymous: Anonymous::Unsaid,
        }
    }
}

impl IdentityOptions {
    /// Whether the word of this peer counts. IPv4 in the guise of IPv6 is IPv4.
    pub fn trusts(&self, ip: IpAddr) -> bool {
        let mut nets = self.trusted_proxies.iter();
        nets.any(|net| scope::covers(net, ip))
    }
}
