//! Where a Redis or a Valkey is, as a URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::escapes::{self, encode};
use super::fault::did_you_mean;
use super::host::{HostWords, host_and_port, number};

/// The most hosts in one URL.
pub const MAX_REDIS_HOSTS: usize = 32;
/// The longest URL, in bytes.
const MAX_URL: usize = 4096;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where a Redis or a Valkey is, and how to get in.
///
/// ```text
/// redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]                       rediss:// with TLS
/// redis+unix:///PATH[?db=DB&user=USER&pass=PASSWORD]               or unix://
/// redis-cluster://[[USER]:PASSWORD@]HOST[:PORT],…                  rediss-cluster:// with TLS
/// redis-sentinel://[[USER]:PASSWORD@]HOST[:PORT],…/MASTER[/DB]     rediss-sentinel:// with TLS
/// ```
///
/// `valkey` may stand for `redis` in all of them. User, password and path are percent-decoded.
///
/// Displayed and debugged with `***` for the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// What is there.
    pub kind: RedisKind,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// The user, if it is not the default one. Never without a password.
    pub user: Option<String>,
    /// The password; an empty one for a user that needs none.
    pub password: Option<String>,
    /// The database; 0 in a cluster.
    pub database: u32,
}

/// What is at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisKind {
    /// One server.
    Standalone(RedisHost),
    /// One server, behind a socket of this machine.
    Unix {
        /// The socket.
        path: PathBuf,
    },
    /// A cluster.
    Cluster {
        /// Nodes to ask for the others.
        seeds: Vec<RedisHost>,
    },
    /// A server that sentinels know.
    Sentinel {
        /// The sentinels.
        sentinels: Vec<RedisHost>,
        /// What they call it.
        master: String,
    },
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RedisHost {
    /// A name or an address, that of IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What is wrong with a URL. Neither part shows any of it but its scheme: it may hold a password
/// anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRedisUrl {
    /// What is wrong, as one line without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl InvalidRedisUrl {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for InvalidRedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

impl std::error::Error for InvalidRedisUrl {}

type Parsed<T> = Result<T, InvalidRedisUrl>;

/// A fault, to return.
fn wrong<T>(message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    Err(InvalidRedisUrl::new(message, hint))
}

impl FromStr for RedisUrl {
    type Err = InvalidRedisUrl;

    fn from_str(text: &str) -> Parsed<Self> {
        if text.len() > MAX_URL {
            let message = format!("the URL has {} bytes, more than {MAX_URL}", text.len());
            return wrong(message, "name fewer hosts");
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            let hint = "remove it, or write it as `%20` in a user or password";
            return wrong("a space or a control character in the URL", hint);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong("not a URL", "write for example `redis://127.0.0.1:6379`");
        };
        let scheme = Scheme::parse(scheme)?;
        match scheme.shape {
            Shape::Unix => unix(rest),
            _ => network(scheme, rest),
        }
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Standalone,
    Unix,
    Cluster,
    Sentinel,
}

#[derive(Clone, Copy)]
struct Scheme {
    shape: Shape,
    tls: bool,
}

/// The schemes, as they are called for Redis.
const SCHEMES: [(&str, Shape, bool); 8] = [
    ("redis", Shape::Standalone, false),
    ("rediss", Shape::Standalone, true),
    ("redis-cluster", Shape::Cluster, false),
    ("rediss-cluster", Shape::Cluster, true),
    ("redis-sentinel", Shape::Sentinel, false),
    ("rediss-sentinel", Shape::Sentinel, true),
    ("redis+unix", Shape::Unix, false),
    ("unix", Shape::Unix, false),
];

impl Scheme {
    fn parse(written: &str) -> Parsed<Self> {
        let lower = written.to_ascii_lowercase();
        let name = match lower.strip_prefix("valkey") {
            Some(rest) => format!("redis{rest}"),
            None => lower,
        };
        if let Some((_, shape, tls)) = SCHEMES.iter().find(|(scheme, ..)| *scheme == name) {
            return Ok(Self {
                shape: *shape,
                tls: *tls,
            });
        }
        let hint = match did_you_mean(&name, SCHEMES.map(|(scheme, ..)| scheme)) {
            Some(scheme) => format!("did you mean `{scheme}://`?"),
            None => {
                "write `redis://`, `rediss://`, `unix://`, `redis-cluster://` or `redis-sentinel://`"
                    .to_owned()
            }
        };
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        if written.len() <= 32 && written.chars().all(is_scheme) {
            return wrong(format!("`{written}://` is not known"), hint);
        }
        wrong("what stands before `://` is not known", hint)
    }
}

/// What stands behind the scheme, of anything but a socket.
fn network(scheme: Scheme, rest: &str) -> Parsed<RedisUrl> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    if behind.contains('@') {
        return wrong(
            "an `@` behind the first `/`, `?` or `#`",
            "in a user or password write `/` as `%2F`, `?` as `%3F`, `#` as `%23`",
        );
    }
    if behind.contains(['?', '#']) {
        return wrong(
            "a `?` or `#` behind the hosts",
            "remove it and what follows; in a password write `%3F` and `%23`",
        );
    }
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        None => (None, authority),
    };
    let (user, password) = match credentials {
        Some(credentials) => self::credentials(credentials)?,
        None => (None, None),
    };
    let path: Vec<&str> = match behind.strip_prefix('/') {
        None | Some("") => Vec::new(),
        Some(path) => path.split('/').collect(),
    };
    let (kind, database) = match scheme.shape {
        Shape::Cluster => cluster(hosts, &path)?,
        Shape::Sentinel => sentinel(hosts, &path)?,
        Shape::Standalone | Shape::Unix => standalone(hosts, &path)?,
    };
    Ok(RedisUrl {
        kind,
        tls: scheme.tls,
        user,
        password,
        database,
    })
}

fn standalone(hosts: &str, path: &[&str]) -> Parsed<(RedisKind, u32)> {
    if hosts.contains(',') {
        return wrong(
            "more than one host",
            "keep one, or write `redis-cluster://` or `redis-sentinel://`",
        );
    }
    let database = match *path {
        [] => 0,
        [number] => database(number)?,
        _ => return wrong("more than a database behind the host", "write `HOST/0`"),
    };
    Ok((RedisKind::Standalone(host(hosts, REDIS_PORT)?), database))
}

fn cluster(hosts: &str, path: &[&str]) -> Parsed<(RedisKind, u32)> {
    let seeds = self::hosts(hosts, REDIS_PORT)?;
    match *path {
        [] | ["0"] => Ok((RedisKind::Cluster { seeds }, 0)),
        _ => wrong("a cluster has only the database 0", "remove the `/…`"),
    }
}

fn sentinel(hosts: &str, path: &[&str]) -> Parsed<(RedisKind, u32)> {
    const WRITE: &str = "write `redis-sentinel://HOST,HOST,HOST/MASTER`";
    let sentinels = self::hosts(hosts, SENTINEL_PORT)?;
    let (master, database) = match *path {
        [] => return wrong("no name of a master behind the sentinels", WRITE),
        [master] => (master, 0),
        [master, number] => (master, database(number)?),
        _ => {
            let message = "more than a master and a database behind the sentinels";
            return wrong(message, format!("{WRITE} or `…/MASTER/0`"));
        }
    };
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if master.is_empty() || !master.bytes().all(is_name) {
        let hint = "write letters, digits, `.`, `-` and `_`, as in the sentinels' configuration";
        return wrong("not the name of a master", hint);
    }
    let master = master.to_owned();
    Ok((RedisKind::Sentinel { sentinels, master }, database))
}

/// What stands behind the scheme of a socket.
fn unix(rest: &str) -> Parsed<RedisUrl> {
    const WRITE: &str = "write for example `unix:///run/redis.sock`, with three slashes";
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    if rest.contains('#') {
        return wrong("a `#` in the URL", "write it as `%23`");
    }
    if !path.starts_with('/') {
        return wrong("a socket has no host", WRITE);
    }
    let path = decoded(path, "the path")?;
    if path.ends_with('/') || path.contains(char::is_control) {
        return wrong("not the path of a socket", WRITE);
    }
    let mut url = RedisUrl {
        kind: RedisKind::Unix { path: path.into() },
        tls: false,
        user: None,
        password: None,
        database: 0,
    };
    let mut seen = Vec::new();
    for parameter in query.into_iter().flat_map(|query| query.split('&')) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if seen.contains(&name) {
            return wrong("a parameter behind `?` is given twice", "remove one");
        }
        seen.push(name);
        match name {
            "db" => url.database = database(value)?,
            "user" => url.user = Some(decoded(value, "the user")?),
            "pass" => url.password = Some(decoded(value, "the password")?),
            _ => {
                let message = "a parameter behind `?` other than `db`, `user` and `pass`";
                return wrong(message, "remove it; in a password write `&` as `%26`");
            }
        }
    }
    if url.user.is_some() && url.password.is_none() {
        let hint = "add `pass=PASSWORD`, or an empty `pass=` for a user that needs none";
        return wrong("a user without a password", hint);
    }
    if url.user.as_deref() == Some("") {
        return wrong("the user is empty", "remove `user` for the default one");
    }
    if url.user.is_none() && url.password.as_deref() == Some("") {
        return wrong("the password is empty", "remove `pass`, or give one");
    }
    Ok(url)
}

/// User and password.
fn credentials(text: &str) -> Parsed<(Option<String>, Option<String>)> {
    if text.contains('@') {
        let hint = "in a user or password write `@` as `%40`";
        return wrong("more than one `@`", hint);
    }
    let Some((user, password)) = text.split_once(':') else {
        let hint = "write `:PASSWORD@` or `USER:PASSWORD@`, or `USER:@` for a user that needs none";
        return wrong("a user without a password", hint);
    };
    if user.is_empty() && password.is_empty() {
        let hint = "remove it, or write `:PASSWORD@` or `USER:PASSWORD@`";
        return wrong("nothing before the `@`", hint);
    }
    let user = decoded(user, "the user")?;
    let password = decoded(password, "the password")?;
    Ok(((!user.is_empty()).then_some(user), Some(password)))
}

fn hosts(text: &str, default_port: u16) -> Parsed<Vec<RedisHost>> {
    let mut hosts = Vec::new();
    for one in text.split(',') {
        if hosts.len() == MAX_REDIS_HOSTS {
            let hint = "name a few: they know the others";
            return wrong(format!("more than {MAX_REDIS_HOSTS} hosts"), hint);
        }
        let host = host(one, default_port)?;
        if hosts.contains(&host) {
            return wrong("the same host twice", "remove one");
        }
        hosts.push(host);
    }
    Ok(hosts)
}

fn host(text: &str, default_port: u16) -> Parsed<RedisHost> {
    const WORDS: HostWords = HostWords {
        missing: "write for example `127.0.0.1:6379`",
        name: "write a name such as `redis.example.com`, or an address",
        port: "a port is not a number from 1 to 65535",
        port_hint: "write `HOST:PORT`; behind a user and password an `@`, as in `:PASSWORD@HOST:PORT`",
    };
    match host_and_port(text, default_port, &WORDS) {
        Ok((host, port)) => Ok(RedisHost { host, port }),
        Err((message, hint)) => wrong(message, hint),
    }
}

fn database(text: &str) -> Parsed<u32> {
    match number(text) {
        Some(number) => Ok(number),
        None => wrong("the database is not a number", "write for example `0`"),
    }
}

fn decoded(text: &str, what: &str) -> Parsed<String> {
    escapes::decoded(text, what).or_else(|(message, hint)| wrong(message, hint))
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls { "s" } else { "" };
        match &self.kind {
            RedisKind::Unix { path } => return self.fmt_unix(&path.to_string_lossy(), f),
            RedisKind::Standalone(_) => write!(f, "redis{s}://")?,
            RedisKind::Cluster { .. } => write!(f, "redis{s}-cluster://")?,
            RedisKind::Sentinel { .. } => write!(f, "redis{s}-sentinel://")?,
        }
        if self.user.is_some() || self.password.is_some() {
            encode(self.user.as_deref().unwrap_or_default(), "", f)?;
            let hidden = self.password.as_ref().map_or("", |_| ":***");
            write!(f, "{hidden}@")?;
        }
        match &self.kind {
            RedisKind::Unix { .. } => {}
            RedisKind::Standalone(host) => write!(f, "{host}")?,
            RedisKind::Cluster { seeds } => fmt_hosts(seeds, f)?,
            RedisKind::Sentinel { sentinels, master } => {
                fmt_hosts(sentinels, f)?;
                write!(f, "/{master}")?;
            }
        }
        match self.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

impl RedisUrl {
    fn fmt_unix(&self, path: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redis+unix://")?;
        encode(path, "/", f)?;
        let mut separator = '?';
        if self.database != 0 {
            write!(f, "?db={}", self.database)?;
            separator = '&';
        }
        if let Some(user) = &self.user {
            write!(f, "{separator}user=")?;
            encode(user, "", f)?;
            separator = '&';
        }
        match self.password {
            Some(_) => write!(f, "{separator}pass=***"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

impl fmt::Display for RedisHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn fmt_hosts(hosts: &[RedisHost], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, host) in hosts.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{host}")?;
    }
    Ok(())
}
