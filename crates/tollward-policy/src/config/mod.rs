//! Configuration text into plain structs.
//!
//! [`parse`] reads YAML (and JSON, which is YAML in flow style) and gives a
//! [`File`]: what the user wrote, each value with its [`Place`], so that whoever
//! compiles it into a policy can still point at the text. It checks what can be
//! seen in one place: fields, types, ranges, words. It does *not* check what needs
//! two places: that a named plan exists, that a route's pattern is sound, that a
//! `burst` fits its algorithm.
//!
//! All faults are reported, not the first. No file can make it panic, recurse
//! without bound or take memory out of proportion: length, depth and size (aliases
//! counted as often as they are used) are bounded.
//!
//! A struct of the language is declared once, with `record!`; the struct, its
//! strict decoding and its part of [`json_schema`] all come from that declaration.

mod cors;
mod date_time;
mod decode;
mod directory_url;
mod duration;
mod escapes;
mod fault;
mod file;
mod gateway;
mod header;
mod host;
mod http_url;
mod identity;
mod json;
mod limit;
mod origin;
mod record;
mod records;
mod redis_url;
mod scalar;
mod schema;
mod store;
mod upstream;
mod written;
mod yaml;

#[cfg(test)]
mod tests;

pub use cors::{Cors, Expose, RouteCors};
pub use directory_url::{DirectoryUrl, InvalidDirectoryUrl, PostgresUrl};
pub(crate) use fault::in_order;
pub use fault::{Fault, Place, Spanned, did_you_mean, without_credentials};
pub use file::{
    BodyStyle, CallerEntry, CallerKey, EncodedSlash, Enforcement, File, HeaderStyle, KeyEntry,
    LimitShown, Listen, PathCase, Paths, Plan, Response, Route, RouteAuth, Tenant,
};
pub use gateway::{AccessLog, Gateway, GatewayTls};
pub use http_url::HttpUrl;
pub use identity::{
    Anonymous, AnonymousPlan, ApiKeyIdentity, ClientIdentity, ForwardingHeader, Identity,
    IdentityIp, Jwks, JwtAlgorithm, JwtIdentity, UnknownTenant, UserIdentity,
};
pub use limit::{
    Adaptive, Algorithm, Budget, BudgetMode, Burst, Consistency, Degrade, OnFailure, Queue,
    RateLimit, ScopeWord, Sharing, Strategy, Sustained, When,
};
pub use origin::Origin;
pub use records::{Audit, Directory, Stale, Usage, UsageRetention};
pub use redis_url::{InvalidRedisUrl, MAX_REDIS_HOSTS, RedisHost, RedisKind, RedisUrl};
pub use schema::json_schema;
pub use store::{Backend, MAX_PREFIX, Store, StoreClock, StoreTls};
pub use upstream::{HostHeader, MAX_TARGETS, Protocol, Upstream, UpstreamTls};
pub use written::written;

use decode::{Context, Decode};

/// Entries under names the user chose, in the order of the file.
pub type Named<T> = Vec<(Spanned<String>, T)>;

/// The longest text that is read, in bytes.
pub const MAX_TEXT: usize = 4 << 20;

/// The most faults that are reported; one more says how many were left out.
pub const MAX_FAULTS: usize = 100;

/// Reads configuration text; an empty one is valid and leaves everything to defaults.
///
/// # Errors
///
/// Every fault found, ordered by place, at most [`MAX_FAULTS`] and one that counts
/// the rest. Text that is not YAML at all gives the one fault at which reading stopped.
pub fn parse(text: &str) -> Result<File, Vec<Fault>> {
    sound(read(text))
}

/// As [`parse`], for bytes that may not be UTF-8.
///
/// # Errors
///
/// As [`parse`]; bytes that are not UTF-8 are one fault, at the first of them.
pub fn parse_bytes(bytes: &[u8]) -> Result<File, Vec<Fault>> {
    sound(read_bytes(bytes))
}

/// Whether a tenant may have this name.
///
/// # Errors
///
/// What a name has to be.
pub fn check_tenant_name(name: &str) -> Result<(), String> {
    <scalar::TenantName as decode::Name>::check(name)
}

/// Reads one limit, as it stands under `rate_limit` in a file. The paths of the faults begin with
/// `rate_limit`; their lines and columns are those of `text`.
///
/// # Errors
///
/// As [`parse_bytes`].
pub fn read_limit(text: &[u8]) -> Result<RateLimit, Vec<Fault>> {
    const NAME: &str = "rate_limit";
    let under_name = |mut fault: Fault| {
        if fault.place.path.is_empty() {
            fault.place.path = NAME.into();
        }
        fault
    };
    let document = match utf8(text).and_then(yaml::read) {
        Ok(document) => document,
        Err(fault) => return Err(vec![under_name(fault)]),
    };
    let mut cx = Context::default();
    for fault in document.faults {
        cx.push(under_name(fault));
    }
    let limit = cx.under(NAME, |cx| cx.value::<RateLimit>(&document.root));
    let (faults, uncounted) = cx.finish();
    match limit {
        Some(limit) if faults.is_empty() => Ok(limit),
        _ => Err(in_order(faults, uncounted)),
    }
}

/// What could be read, and the faults of the rest.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) file: Option<File>,
    pub(crate) faults: Vec<Fault>,
    /// Faults beyond those kept.
    pub(crate) uncounted: usize,
}

impl Reading {
    fn failed(fault: Fault) -> Self {
        Self {
            file: None,
            faults: vec![fault],
            uncounted: 0,
        }
    }
}

fn sound(reading: Reading) -> Result<File, Vec<Fault>> {
    match reading.file {
        Some(file) if reading.faults.is_empty() => Ok(file),
        _ => Err(in_order(reading.faults, reading.uncounted)),
    }
}

fn read(text: &str) -> Reading {
    let document = match yaml::read(text) {
        Ok(document) => document,
        Err(fault) => return Reading::failed(fault),
    };
    let mut cx = Context::default();
    for fault in document.faults {
        cx.push(fault);
    }
    let file = File::decode(&document.root, &mut cx);
    let (faults, uncounted) = cx.finish();
    Reading {
        file,
        faults,
        uncounted,
    }
}

/// Reads as far as can be read, so that whoever compiles it can report further faults beside these.
pub(crate) fn read_bytes(bytes: &[u8]) -> Reading {
    match utf8(bytes) {
        Ok(text) => read(text),
        Err(fault) => Reading::failed(fault),
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|error| {
        let sound = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let sound = std::str::from_utf8(sound).unwrap_or_default();
        let sound = sound.strip_prefix('\u{FEFF}').unwrap_or(sound);
        let fault = Fault::new(&yaml::end_of(sound).at(""), "the text is not UTF-8");
        fault.hint("save the file in the encoding UTF-8")
    })
}
