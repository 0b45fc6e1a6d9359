use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, Method};

use super::Compiler;
use super::identity::says_basic;
use crate::config::{self, Expose, File, Origin, Spanned};
use crate::cors::{Cors, CorsRules, RouteCors};
use crate::identity::ApiKeyOptions;
use crate::policy::Route;

const DEFAULT_METHODS: [Method; 3] = [Method::GET, Method::HEAD, Method::POST];
/// What every browser grants: Safari remembers a preflight for no longer.
const DEFAULT_MAX_AGE_SECS: u64 = 600;

impl Compiler {
    pub(super) fn cors(&mut self, file: &File, routes: &[Route]) -> CorsRules {
        let says = |route: &Route| !matches!(route.cors, RouteCors::Unsaid);
        CorsRules {
            default: file.cors.as_ref().map(|cors| self.one_cors(cors, file)),
            by_route: routes.iter().any(says),
        }
    }

    pub(super) fn route_cors(&mut self, written: &config::Route, file: &File) -> RouteCors {
        match &written.cors {
            None => RouteCors::Unsaid,
            Some(config::RouteCors::None) => RouteCors::None,
            Some(config::RouteCors::Own(cors)) => RouteCors::Own(self.one_cors(cors, file)),
        }
    }

    fn one_cors(&mut self, written: &config::Cors, file: &File) -> Cors {
        let values =
            |names: &[Spanned<HeaderName>]| names.iter().map(|it| it.value.clone()).collect();
        let credentials = written.credentials.as_ref().filter(|it| it.value);
        let is_any = |origin: &Spanned<Origin>| origin.value == Origin::Any;
        if let Some(credentials) = credentials
            && written.origins.iter().any(is_any)
        {
            let message = "`origins: \"*\"` with credentials: browsers refuse it, and any site could act as its visitors";
            let hint = "list the origins, or remove `credentials`; API keys and tokens that a page sends itself need none";
            self.fault(&credentials.place, message, hint);
        }
        let origins = written.origins.iter();
        Cors {
            origins: origins.map(|origin| origin.value.clone()).collect(),
            methods: match &written.methods {
                Some(methods) => methods.iter().map(|it| it.value.clone()).collect(),
                None => DEFAULT_METHODS.into(),
            },
            headers: match &written.headers {
                Some(headers) => values(headers),
                None => default_headers(file),
            },
            expose: match &written.expose {
                None => Some(Vec::new()),
                Some(Expose::Nothing) => None,
                Some(Expose::Limits(besides)) => Some(values(besides)),
            },
            credentials: credentials.is_some(),
            max_age_secs: match &written.max_age {
                Some(age) => age.value.as_secs(),
                None => DEFAULT_MAX_AGE_SECS,
            },
        }
    }
}

/// What a page sends that shows who it is, and the type of a body.
fn default_headers(file: &File) -> Vec<HeaderName> {
    let identity = file.identity.as_ref();
    let key = identity.and_then(|identity| identity.api_key.as_ref()?.header.as_ref());
    let key = key.map_or_else(|| ApiKeyOptions::default().header, |key| key.value.clone());
    let user = identity.and_then(|identity| identity.user.as_ref());
    let reads_authorization =
        user.is_some_and(|user| user.jwt.is_some()) || identity.is_some_and(says_basic);
    let mut headers = vec![key, CONTENT_TYPE];
    // A key in Authorization beside these is a fault, so nothing is doubled.
    headers.extend(reads_authorization.then_some(AUTHORIZATION));
    headers
}
