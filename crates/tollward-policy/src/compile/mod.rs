//! The file as written into the policy as used: what needs two places to be checked is checked here.

mod cors;
mod gateway;
mod identity;
mod limits;
mod people;
mod records;
mod routes;
mod store;
mod strategy;
mod tenants;
mod upstreams;
mod warnings;

pub use gateway::{AccessLog, GatewaySettings, ServerTls};
pub use people::MAX_LEVELS;
pub use records::{AuditSettings, DirectorySettings, UsageSettings};
pub use store::{ClientCertificate, RedisOptions, RedisTls};
pub use warnings::Warning;

pub(crate) use tenants::{stored_tenant_limit, tenant_limit};

use std::net::SocketAddr;

use ipnet::IpNet;
use people::listed;
use tollward_core::OnFailure;
use warnings::in_order_of_text;

use crate::config::{
    self, BodyStyle, EncodedSlash, Enforcement, Fault, File, HeaderStyle, LimitShown, MAX_FAULTS,
    PathCase, Place, RedisUrl, Spanned, UnknownTenant, did_you_mean,
};
use crate::path::PathOptions;
use crate::policy::{Names, Plan, Policy, PolicyLimit, ROOT, ResponseOptions, Rules};

/// What a configuration file says.
#[derive(Debug)]
pub struct Compiled {
    /// What decisions are made by.
    pub policy: Policy,
    /// What the process is started with.
    pub settings: Settings,
    /// What is legal but surely not meant, in the order of the text.
    pub warnings: Vec<Warning>,
}

/// The parts of the configuration that are read at the start only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The addresses to listen on; none if the file does not say.
    pub listen: Option<Listen>,
    /// The networks that may use the decision API without a token.
    pub api_peers: Vec<IpNet>,
    /// The most connections a door has open at once.
    pub max_connections: usize,
    /// The most live buckets in memory.
    pub max_buckets: usize,
    /// The Redis that counters live in; none for memory. `--redis` brings another.
    pub redis_url: Option<RedisUrl>,
    /// How to use a Redis, be it the file's or that of `--redis`.
    pub redis_options: RedisOptions,
    /// How the gateway serves its clients.
    pub gateway: GatewaySettings,
    /// Where tenants, users and keys live beside the file.
    pub directory: DirectorySettings,
    /// What is written of refusals and changes.
    pub audit: AuditSettings,
    /// How use is summed up.
    pub usage: UsageSettings,
}

/// The doors; one that is not named is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// The gateway.
    pub gateway: Option<SocketAddr>,
    /// The decision API.
    pub api: Option<SocketAddr>,
    /// Health, readiness and metrics.
    pub admin: Option<SocketAddr>,
}

const DEFAULT_MAX_CONNECTIONS: u32 = 10_000;
/// 160 MB when all of them are live.
const DEFAULT_MAX_BUCKETS: u32 = 4_000_000;
const DEFAULT_IPV6_PREFIX: u8 = 64;

/// Compiles configuration text.
///
/// # Errors
///
/// Every fault, in the order of the text, at most [`config::MAX_FAULTS`] and one that counts the rest.
pub fn compile(text: &[u8]) -> Result<Compiled, Vec<Fault>> {
    let reading = config::read_bytes(text);
    let Some(file) = reading.file else {
        return Err(config::in_order(reading.faults, reading.uncounted));
    };
    let mut compiler = Compiler {
        broken: reading.faults,
        ..Compiler::default()
    };
    let mut compiled = compiler.compile(&file);
    let mut faults = compiler.broken;
    faults.extend(compiler.faults);
    if faults.is_empty() {
        compiled.warnings = in_order_of_text(compiler.warnings);
        return Ok(compiled);
    }
    Err(config::in_order(faults, reading.uncounted))
}

#[derive(Default)]
struct Compiler {
    limits: Vec<PolicyLimit>,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
    /// The faults of single places. What they left out of the file is not to be missed here.
    broken: Vec<Fault>,
    /// What holds for limits that do not say.
    on_failure: OnFailure,
    /// The upstreams, by their place in the policy's list.
    upstream_names: Names<usize>,
    /// The tenants of the file.
    tenant_names: Names<()>,
}

impl Compiler {
    fn compile(&mut self, file: &File) -> Compiled {
        let paths = file.paths.as_ref();
        let paths = PathOptions {
            fold_case: word(paths.and_then(|paths| paths.case.as_ref())) != Some(PathCase::Keep),
            keep_encoded_slash: word(paths.and_then(|paths| paths.encoded_slash.as_ref()))
                == Some(EncodedSlash::Keep),
        };
        self.on_failure = store::on_failure(file);
        let names = file.upstreams.iter().enumerate();
        let names = names.map(|(index, (name, _))| (name.value.as_str().into(), index));
        self.upstream_names = names.collect();
        let names = file.tenants.iter();
        let names = names.map(|(name, _)| (name.value.as_str().into(), ()));
        self.tenant_names = names.collect();
        let common = self.common(file);
        let plans = self.plans(file);
        let (router, routes) = self.routes(file, paths);
        let cors = self.cors(file, &routes);
        let (upstreams, upstream_limits) = self.upstreams(file);
        let tenants = self.tenants(file, &plans);
        let keys = self.keys(file, &plans);
        self.check_lists(file);
        let anonymous_plan = self.anonymous_plan(file, &plans);
        self.warn_of_likely_mistakes(file, &tenants, &keys, &routes, &router);
        let wrong_keys = self.wrong_keys();
        let options = self.identity(file);
        let identity = file.identity.as_ref();
        let ip = identity.and_then(|identity| identity.ip.as_ref());
        let unknown_tenant = identity.and_then(|identity| identity.unknown_tenant.as_ref());
        let policy = Policy::new(Rules {
            limits: std::mem::take(&mut self.limits),
            common,
            plans,
            anonymous_plan,
            identity: options,
            wrong_keys,
            upstreams,
            upstream_limits,
            router,
            routes,
            cors,
            tenants,
            refuse_unknown_tenants: word(unknown_tenant) == Some(UnknownTenant::Reject),
            keys,
            allow: listed(&file.allow, "allow-list").into(),
            deny: listed(&file.deny, "deny-list").into(),
            ipv6_prefix: word(ip.and_then(|ip| ip.ipv6_prefix.as_ref()))
                .unwrap_or(DEFAULT_IPV6_PREFIX),
            paths,
            enforcement: word(file.enforcement.as_ref()).unwrap_or(Enforcement::On),
            on_failure: self.on_failure,
            response: response(file),
        });
        Compiled {
            policy,
            settings: self.settings(file),
            warnings: Vec::new(),
        }
    }

    fn settings(&mut self, file: &File) -> Settings {
        let listen = file.listen.as_ref();
        let store = file.store.as_ref();
        let count = |value: Option<u32>, default: u32| {
            usize::try_from(value.unwrap_or(default)).unwrap_or(usize::MAX)
        };
        Settings {
            listen: listen.map(|listen| Listen {
                gateway: word(listen.gateway.as_ref()),
                api: word(listen.api.as_ref()),
                admin: word(listen.admin.as_ref()),
            }),
            api_peers: listen
                .map(|listen| listen.api_peers.iter().map(|peer| peer.value).collect())
                .unwrap_or_default(),
            max_connections: count(
                word(listen.and_then(|listen| listen.max_connections.as_ref())),
                DEFAULT_MAX_CONNECTIONS,
            ),
            max_buckets: count(
                word(store.and_then(|store| store.max_buckets.as_ref())),
                DEFAULT_MAX_BUCKETS,
            ),
            redis_url: self.redis_url(file),
            redis_options: self.redis_options(file),
            gateway: self.gateway(file),
            directory: records::directory(file),
            audit: self.audit(file),
            usage: records::usage(file),
        }
    }

    fn fault(&mut self, place: &Place, message: impl Into<String>, hint: impl Into<String>) {
        // Something below the place is broken: that may be all that is wrong with it.
        if !self.is_broken(&place.path) {
            self.faults.push(Fault::new(place, message).hint(hint));
        }
    }

    fn warn(&mut self, place: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.warnings.push(Warning {
            place: place.clone(),
            message: message.into(),
            hint: hint.into(),
        });
    }

    /// Whether a single place at or below `path` has a fault.
    fn is_broken(&self, path: &str) -> bool {
        self.broken.iter().any(|fault| {
            let below = fault.place.path.strip_prefix(path);
            below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
        })
    }

    /// Whether an entry of a section may be missing only because it is broken.
    fn may_be_broken(&self, section: &str, name: &str) -> bool {
        let entries = [
            format!("{section}.{name}"),
            format!("{section}[\"{name}\"]"),
        ];
        let is_section = |fault: &Fault| *fault.place.path == *section;
        self.broken.iter().any(is_section) || entries.iter().any(|entry| self.is_broken(entry))
    }

    /// A plan that is named must exist.
    fn check_plan(&mut self, plan: &Spanned<String>, plans: &Names<Plan>, file: &File) {
        if plans.contains_key(plan.value.as_str()) || self.may_be_broken("plans", &plan.value) {
            return;
        }
        let names = file.plans.iter().map(|(name, _)| name.value.as_str());
        let hint = self.hint_of_name(&plan.value, names, "plans");
        let message = format!("there is no plan `{}`", plan.value);
        self.fault(&plan.place, message, hint);
    }

    /// A tenant that is named must be in the file: what the directory has cannot be seen from here.
    fn check_tenant(&mut self, tenant: &Spanned<String>, file: &File) {
        if tenant.value == ROOT
            || self.tenant_names.contains_key(tenant.value.as_str())
            || self.may_be_broken("tenants", &tenant.value)
        {
            return;
        }
        let names = file.tenants.iter().map(|(name, _)| name.value.as_str());
        let hint = self.hint_of_name(&tenant.value, names, "tenants");
        let message = format!("there is no tenant `{}`", tenant.value);
        self.fault(&tenant.place, message, hint);
    }

    /// What to do about a name that nothing has. Looking for a likely one takes a while, so it is not
    /// done for more faults than are shown, nor among very many names.
    fn hint_of_name<'a>(
        &self,
        name: &str,
        among: impl Iterator<Item = &'a str>,
        section: &str,
    ) -> String {
        const MOST: usize = 500;
        let most = if self.faults.len() < MAX_FAULTS {
            MOST
        } else {
            0
        };
        match did_you_mean(name, among.take(most)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("add it under `{section}`"),
        }
    }
}

fn response(file: &File) -> ResponseOptions {
    let response = file.response.as_ref();
    let headers = response.and_then(|response| response.headers.as_ref());
    ResponseOptions {
        headers: match headers {
            Some(styles) => styles.value.iter().map(|style| style.value).collect(),
            None => vec![HeaderStyle::XRateLimit, HeaderStyle::Ietf],
        },
        body: word(response.and_then(|response| response.body.as_ref()))
            .unwrap_or(BodyStyle::Problem),
        limit: word(response.and_then(|response| response.limit.as_ref()))
            .unwrap_or(LimitShown::Capacity),
        expose_headers: word(response.and_then(|response| response.expose_headers.as_ref()))
            .unwrap_or(false),
        jitter: word(response.and_then(|response| response.jitter.as_ref())).unwrap_or_default(),
    }
}

fn word<T: Copy>(value: Option<&Spanned<T>>) -> Option<T> {
    value.map(|value| value.value)
}
