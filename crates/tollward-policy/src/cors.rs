//! Which pages of other origins may call the gateway.

use http::{HeaderName, Method};

use crate::config::Origin;
use crate::path;
use crate::policy::{Policy, Rules};

/// The pages of other origins that may call the gateway, and what they may send and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Their origins.
    pub origins: Vec<Origin>,
    /// The methods that they may use, in upper case.
    pub methods: Vec<Method>,
    /// The headers that they may send.
    pub headers: Vec<HeaderName>,
    /// The headers that they may read besides those of limits; none if they may read neither.
    pub expose: Option<Vec<HeaderName>>,
    /// Whether browsers may send cookies and the like.
    pub credentials: bool,
    /// How long browsers may remember the answer to a preflight, in seconds.
    pub max_age_secs: u64,
}

/// What a route says about cross-origin requests.
#[derive(Debug, Default)]
pub(crate) enum RouteCors {
    /// Nothing: the next less specific match decides, or else the file.
    #[default]
    Unsaid,
    /// They are left to the upstream.
    None,
    Own(Cors),
}

/// What the file says about cross-origin requests.
#[derive(Debug, Default)]
pub(crate) struct CorsRules {
    /// For requests whose routes say nothing.
    pub(crate) default: Option<Cors>,
    /// Whether any route says something.
    pub(crate) by_route: bool,
}

impl Policy {
    /// Whether any request may have [`Policy::cors`]. Costs next to nothing.
    pub fn has_cors(&self) -> bool {
        let cors = &self.rules.cors;
        cors.by_route || cors.default.is_some()
    }

    /// What holds for cross-origin requests with this method and path: what the most specific matching route
    /// with `cors` says, or else the file; none if the gateway leaves them to the upstream. For a path that
    /// cannot be compared with routes it is what the file says.
    pub fn cors(&self, method: &str, path: &str) -> Option<&Cors> {
        let rules = &self.rules;
        match rules
            .cors
            .by_route
            .then(|| rules.cors_of_routes(method, path))
        {
            Some(RouteCors::None) => None,
            Some(RouteCors::Own(cors)) => Some(cors),
            Some(RouteCors::Unsaid) | None => rules.cors.default.as_ref(),
        }
    }
}

impl Rules {
    fn cors_of_routes(&self, method: &str, path: &str) -> &RouteCors {
        let Ok(comparable) = path::comparable(path, self.paths) else {
            return &RouteCors::Unsaid;
        };
        let says = |route: usize| !matches!(self.routes[route].cors, RouteCors::Unsaid);
        let segments = path::segments(&comparable);
        // A method is given, so there is nothing to choose between.
        let route = self
            .router
            .find(&segments, Some(method), says, |one, _| one);
        route.map_or(&RouteCors::Unsaid, |route| &self.routes[route].cors)
    }
}
