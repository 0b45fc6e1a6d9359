//! Which route a path matches.

use std::borrow::Cow;

use crate::config::RouteAuth;
use crate::path::{self, PathFault, Segments};
use crate::policy::{Policy, Route, Rules};
use crate::request::Rejection;
use crate::router::{self, RouteId};

/// The route of a request, looked up before anybody asks who calls.
#[derive(Clone, Debug)]
pub struct Matched<'p, 'f> {
    pub(crate) route: Option<&'p Route>,
    pub(crate) upstream: Option<usize>,
    pub(crate) path: Option<Cow<'f, str>>,
}

impl Matched<'_, '_> {
    /// Whether the route asks for credentials; none where `identity.anonymous` decides.
    pub fn auth(&self) -> Option<RouteAuth> {
        self.route.and_then(|route| route.auth)
    }
}

/// What a path leads to.
#[derive(Default)]
struct Found<'f> {
    route: Option<RouteId>,
    upstream: Option<usize>,
    path: Option<Cow<'f, str>>,
}

impl Policy {
    /// Looks up the route of a request. `path_is_kept` is as in [`Facts`](crate::Facts).
    ///
    /// # Errors
    ///
    /// The path is ambiguous or not a path, or the method is not one.
    pub fn matched<'f>(
        &self,
        method: Option<&str>,
        path: Option<&'f str>,
        path_is_kept: bool,
    ) -> Result<Matched<'_, 'f>, Rejection> {
        let given = |fact: Option<&'f str>| fact.filter(|text| !text.is_empty());
        let method = method.filter(|text| !text.is_empty());
        let found = self.rules.find(given(path), path_is_kept, method)?;
        Ok(Matched {
            route: found.route.map(|route| &self.rules.routes[route]),
            upstream: found.upstream,
            path: found.path,
        })
    }
}

impl Rules {
    fn find<'f>(
        &self,
        path: Option<&'f str>,
        path_is_kept: bool,
        method: Option<&str>,
    ) -> Result<Found<'f>, Rejection> {
        if method.is_some_and(|method| !router::is_method(method)) {
            return Err(Rejection::Method);
        }
        let Some(path) = path else {
            return Ok(Found::default());
        };
        let comparable = path::comparable(path, self.paths).map_err(Rejection::Path)?;
        let find = |segments: &[&str]| {
            let stricter = |one, other| self.stricter(one, other);
            let route = self.router.find(segments, method, |_| true, stricter);
            (route, self.upstream_of(route, segments, method))
        };
        let found = find(&path::segments(&comparable));
        if path::may_be_read_otherwise(&comparable) {
            for (reading, fault) in path::other_readings(&comparable) {
                if find(&reading) != found {
                    return Err(Rejection::Path(fault));
                }
            }
        }
        let differs = |reading: Segments<'_>| find(&reading) != found;
        if path_is_kept && path::kept_readings(&comparable).any(differs) {
            return Err(Rejection::Path(PathFault::Unresolved));
        }
        let forward = match comparable {
            // Nothing had to be rewritten to compare it, so nothing has to be to pass it on.
            Cow::Borrowed(plain) => path::resolved(Cow::Borrowed(plain)),
            Cow::Owned(_) => path::forwardable(path, self.paths).map_err(Rejection::Path)?,
        };
        Ok(Found {
            route: found.0,
            upstream: found.1,
            path: Some(forward),
        })
    }

    /// The upstream of a path whose most specific route is known.
    fn upstream_of(
        &self,
        route: Option<RouteId>,
        segments: &[&str],
        method: Option<&str>,
    ) -> Option<usize> {
        let own = |route: RouteId| self.routes[route].upstream;
        let route = route.filter(|_| !self.upstreams.is_empty())?;
        own(route).or_else(|| {
            let has_one = |route| own(route).is_some();
            let costlier = |one, other| self.costlier_upstream(one, other);
            let next = self.router.find(segments, method, has_one, costlier);
            next.and_then(own)
        })
    }
}
