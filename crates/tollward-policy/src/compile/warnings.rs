//! What is legal in a configuration but surely not meant.

use std::collections::HashMap;
use std::fmt;

use super::Compiler;
use crate::config::{self, Backend, File, Place, Sharing};
use crate::people::{ApiKey, TenantEntry};
use crate::policy::{Access, ByHash, Names, ROOT, Route};
use crate::router::{RouteId, Router};

/// Something in a configuration that is legal but surely not meant.
///
/// Displayed as `12:7: warning: tenants.acme: message; hint`, without the name of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it is.
    pub place: Place,
    /// What is likely to be wrong, as one line without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

const PRIVATE_DIRECTORY: &str = "counters are shared in Redis, but tenants, users and keys made by the admin API \
    are in this node's memory: other nodes do not know them, and a restart forgets them";

impl Warning {
    /// Nodes that share their counters do not share what the admin API makes.
    pub fn of_private_directory(place: &Place) -> Self {
        Self {
            place: place.clone(),
            message: PRIVATE_DIRECTORY.to_owned(),
            hint:
                "set `directory.url` to `postgres://…`; or to `sqlite::memory:` if it is meant so"
                    .to_owned(),
        }
    }

    /// Whether it is [`Warning::of_private_directory`].
    pub fn is_of_private_directory(&self) -> bool {
        self.message == PRIVATE_DIRECTORY
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, path } = &self.place;
        // One that flags of the command line make stands in no line.
        match line {
            0 => f.write_str(" warning: ")?,
            line => write!(f, "{line}:{column}: warning: ")?,
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        write!(f, "{}; {}", self.message, self.hint)
    }
}

/// The most warnings that are given.
const MAX_WARNINGS: usize = 100;

pub(super) fn in_order_of_text(mut warnings: Vec<Warning>) -> Vec<Warning> {
    warnings.sort_by_key(|warning| (warning.place.line, warning.place.column));
    warnings.truncate(MAX_WARNINGS);
    warnings
}

impl Compiler {
    pub(super) fn warn_of_likely_mistakes(
        &mut self,
        file: &File,
        tenants: &Names<TenantEntry>,
        keys: &ByHash<ApiKey>,
        routes: &[Route],
        router: &Router,
    ) {
        self.warn_of_idle_tenant_limits(file, tenants, keys);
        self.warn_of_idle_allowances(file, keys);
        self.warn_of_lost_routes(file, routes, router);
        self.warn_of_private_directories(file);
    }

    /// A limit of the root, or above other tenants, that binds none of them because it does not say so.
    fn warn_of_idle_tenant_limits(
        &mut self,
        file: &File,
        tenants: &Names<TenantEntry>,
        keys: &ByHash<ApiKey>,
    ) {
        let mut children: HashMap<&str, &str> = HashMap::new();
        for (name, tenant) in file.tenants.iter().filter(|(name, _)| name.value != ROOT) {
            let parent = tenant.parent.as_ref();
            let parent = parent.map_or(ROOT, |parent| parent.value.as_str());
            children.entry(parent).or_insert(name.value.as_str());
        }
        for (name, written) in &file.tenants {
            let id = name.value.as_str();
            let limit = tenants.get(id).and_then(|entry| entry.limit.as_deref());
            let (Some(limit), Some(rate_limit)) = (limit, &written.rate_limit) else {
                continue;
            };
            if limit.binds_below() {
                continue;
            }
            let hint = "say `sharing: enforce` to bind all below, `sharing: inherit` to bind those that do not \
                 say `private`, or `sharing: private` if it is meant so";
            let has_key = || keys.values().any(|key| key.tenant.as_deref() == Some(ROOT));
            if id == ROOT && !has_key() {
                let message = format!("the limit of `{ROOT}`, the root, binds nobody");
                let hint = "say `sharing: enforce` or `sharing: inherit`, or remove it; a limit for all requests \
                     together is an entry of `limits` with `scope: global`";
                self.warn(&rate_limit.place, message, hint);
            } else if let Some(child) = children.get(id)
                && limit.sharing() != Some(Sharing::Private)
            {
                let message = format!(
                    "the limit of `{id}` does not bind the tenants below it, such as `{child}`"
                );
                self.warn(&rate_limit.place, message, hint);
            }
        }
    }

    /// A key on the allow-list that no key of the file is. With a directory it may be one of there, which is
    /// looked at when the server runs.
    fn warn_of_idle_allowances(&mut self, file: &File, keys: &ByHash<ApiKey>) {
        let has_directory = directory_url(file).is_some();
        for entry in &file.allow {
            if let Some(key) = &entry.api_key
                && !has_directory
                && !keys.contains_key(&key.sha256.value)
            {
                self.warn(
                    &entry.place,
                    "no API key has this hash, so nobody is allowed by it",
                    "add the key under `keys`, or remove the entry",
                );
            }
        }
    }

    /// A route whose requests have nowhere to go, in a file for a gateway.
    fn warn_of_lost_routes(&mut self, file: &File, routes: &[Route], router: &Router) {
        if file.upstreams.is_empty() {
            return;
        }
        let has_upstream = |route: RouteId| routes[route].upstream.is_some();
        for route in routes.iter().filter(|it| it.access != Access::Denied) {
            let (method, segments) = sample(&route.name);
            if router
                .find(&segments, method, has_upstream, |one, _| one)
                .is_none()
            {
                self.warn(
                    &route.place,
                    "neither this route nor a less specific one names an `upstream`: the gateway answers 404",
                    "name an `upstream`, here or on a route such as `/**`",
                );
            }
        }
    }

    /// Counters that nodes share, and keys that they do not.
    fn warn_of_private_directories(&mut self, file: &File) {
        let Some(store) = &file.store else {
            return;
        };
        let is_redis = store.backend.as_ref().map(|backend| backend.value) == Some(Backend::Redis);
        let has_admin = file
            .listen
            .as_ref()
            .is_none_or(|listen| listen.admin.is_some());
        if is_redis && has_admin && directory_url(file).is_none() {
            self.warnings
                .push(Warning::of_private_directory(&store.place));
        }
    }
}

/// A request that a pattern matches, and that only `*` and `**` of other patterns match where it has them.
fn sample(pattern: &str) -> (Option<&str>, Vec<&str>) {
    let (method, path) = match pattern.split_once(' ') {
        Some((method, path)) => (Some(method), path),
        None => (None, pattern),
    };
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    let segments = segments.flat_map(|segment| match segment {
        "**" => vec!["*", "*"],
        segment => vec![segment],
    });
    (method, segments.collect())
}

fn directory_url(file: &File) -> Option<&config::Spanned<config::DirectoryUrl>> {
    file.directory.as_ref()?.url.as_ref()
}
