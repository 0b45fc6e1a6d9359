use super::{Compiler, word};
use crate::config::{self, File, Place, RouteAuth};
use crate::path::PathOptions;
use crate::policy::{Access, Route};
use crate::router::{Pattern, Router};

impl Compiler {
    pub(super) fn routes(&mut self, file: &File, paths: PathOptions) -> (Router, Vec<Route>) {
        let mut router = Router::default();
        let mut routes: Vec<Route> = Vec::new();
        for written in &file.routes {
            let place = &written.match_.place;
            let pattern = Pattern::parse(&written.match_.value, paths);
            // A route whose `match` is at fault is read all the same, for its other faults.
            let name = match &pattern {
                Ok(pattern) => pattern.to_string(),
                Err(_) => written.match_.value.clone(),
            };
            let route = self.route(written, &name, file);
            let pattern = match pattern {
                Ok(pattern) => pattern,
                Err(fault) => {
                    self.fault(place, fault.message, fault.hint);
                    continue;
                }
            };
            match router.insert(&pattern, routes.len()) {
                Ok(()) => routes.push(route),
                Err(other) => {
                    let first: &Place = &routes[other].place;
                    let message = format!(
                        "matches the same as the route in line {}: `{name}`",
                        first.line
                    );
                    self.fault(place, message, "make one route of the two");
                }
            }
        }
        (router, routes)
    }

    fn route(&mut self, written: &config::Route, name: &str, file: &File) -> Route {
        let says = |flag: &Option<_>| word(flag.as_ref()).unwrap_or(false);
        let (deny, allow) = (says(&written.deny), says(&written.allow));
        let priced = written.cost.is_some()
            || written.rate_limit.is_some()
            || !written.rate_limits.is_empty();
        if deny && allow {
            self.fault(
                &written.place,
                "both `deny` and `allow`",
                "keep the one you mean",
            );
        } else if (deny || allow) && priced {
            self.fault(
                &written.place,
                "a route that is denied or allowed to all is not limited",
                "remove `cost` and its limits, or `deny`/`allow`",
            );
        }
        if let Some(upstream) = written.upstream.as_ref().filter(|_| deny) {
            let message = "an `upstream` of a route that is denied to all";
            self.fault(&upstream.place, message, "remove it, or `deny`");
        }
        if let Some(auth) = written.auth.as_ref().filter(|_| deny) {
            let message = "`auth` of a route that is denied to all";
            self.fault(&auth.place, message, "remove it, or `deny`");
        }
        let upstream = written.upstream.as_ref();
        Route {
            limits: self.route_limits(written, name, file),
            upstream: upstream.and_then(|upstream| self.named_upstream(upstream, file)),
            cors: self.route_cors(written, file),
            name: name.into(),
            place: written.match_.place.clone(),
            cost: word(written.cost.as_ref()).unwrap_or(1),
            auth: match word(written.auth.as_ref()) {
                None if allow => Some(RouteAuth::None),
                said => said,
            },
            access: match (deny, allow) {
                (true, _) => Access::Denied,
                (_, true) => Access::Bypass,
                _ => Access::Limited,
            },
        }
    }
}
