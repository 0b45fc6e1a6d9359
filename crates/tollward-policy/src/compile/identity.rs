use super::{Compiler, word};
use crate::config::{self, File, ForwardingHeader, Jwks, JwtAlgorithm, JwtIdentity, Spanned};
use crate::identity::{Anonymous, ApiKeyOptions, IdentityOptions, JwksSource, JwtOptions};
use crate::policy::{Names, Plan};

const DEFAULT_CLAIM: &str = "sub";

impl Compiler {
    pub(super) fn identity(&mut self, file: &File) -> IdentityOptions {
        let default = IdentityOptions::default();
        let Some(identity) = &file.identity else {
            return default;
        };
        self.check_headers(identity);
        let header = |header: Option<&Spanned<http::HeaderName>>| header.map(|it| it.value.clone());
        let (key, user) = (identity.api_key.as_ref(), identity.user.as_ref());
        let (client, ip) = (identity.client.as_ref(), identity.ip.as_ref());
        let proxies = ip.map_or(&[][..], |ip| &ip.trusted_proxies);
        IdentityOptions {
            api_key: ApiKeyOptions {
                header: header(key.and_then(|key| key.header.as_ref()))
                    .unwrap_or(default.api_key.header),
                forward: word(key.and_then(|key| key.forward.as_ref())).unwrap_or(false),
            },
            user_header: header(user.and_then(|user| user.header.as_ref())),
            jwt: user.and_then(|user| user.jwt.as_ref()).map(jwt),
            client_header: header(client.and_then(|client| client.header.as_ref())),
            basic: says_basic(identity),
            trusted_proxies: proxies.iter().map(|net| net.value).collect(),
            forwarding: word(ip.and_then(|ip| ip.header.as_ref()))
                .unwrap_or(ForwardingHeader::XForwardedFor),
            anonymous: match identity.anonymous {
                None => Anonymous::Unsaid,
                Some(config::Anonymous::Reject) => Anonymous::Reject,
                Some(config::Anonymous::Allow) => Anonymous::Allow,
                Some(config::Anonymous::Plan(_)) => Anonymous::Plan,
            },
        }
    }

    /// The plan of those who have none.
    pub(super) fn anonymous_plan(&mut self, file: &File, plans: &Names<Plan>) -> Option<Box<str>> {
        let anonymous = file.identity.as_ref()?.anonymous.as_ref()?;
        let config::Anonymous::Plan(plan) = anonymous else {
            return None;
        };
        self.check_plan(plan, plans, file);
        Some(plan.value.as_str().into())
    }

    /// One header says one thing.
    fn check_headers(&mut self, identity: &config::Identity) {
        let key = identity.api_key.as_ref();
        let user = identity.user.as_ref();
        let client = identity.client.as_ref();
        let headers = [
            ("api_key", key.and_then(|key| key.header.as_ref())),
            ("user", user.and_then(|user| user.header.as_ref())),
            ("client", client.and_then(|client| client.header.as_ref())),
        ];
        let has_jwt = user.is_some_and(|user| user.jwt.is_some());
        for (index, (_, header)) in headers.iter().enumerate() {
            let Some(header) = header else { continue };
            let mut earlier = headers.iter().take(index);
            let same = earlier.find(|(_, other)| other.map(|it| &it.value) == Some(&header.value));
            if let Some((other, _)) = same {
                let message = format!("the same header as that of `identity.{other}`");
                self.fault(&header.place, message, "choose a header of its own");
            }
            if header.value == http::header::AUTHORIZATION && (has_jwt || says_basic(identity)) {
                self.fault(
                    &header.place,
                    "`Authorization` is what `jwt` and `basic` read",
                    "choose a header of its own",
                );
            }
        }
    }
}

pub(super) fn says_basic(identity: &config::Identity) -> bool {
    let client = identity.client.as_ref();
    word(client.and_then(|client| client.basic.as_ref())).unwrap_or(false)
}

fn jwt(written: &JwtIdentity) -> JwtOptions {
    let text = |text: &Option<Spanned<String>>| text.as_ref().map(|it| it.value.as_str().into());
    JwtOptions {
        jwks: match &written.jwks.value {
            Jwks::File(path) => JwksSource::File(path.into()),
            Jwks::Url(url) => JwksSource::Url(url.as_str().into()),
        },
        claim: text(&written.claim).unwrap_or_else(|| DEFAULT_CLAIM.into()),
        algorithm: word(written.algorithm.as_ref()).unwrap_or(JwtAlgorithm::RS256),
        issuer: text(&written.issuer),
        audience: text(&written.audience),
    }
}
