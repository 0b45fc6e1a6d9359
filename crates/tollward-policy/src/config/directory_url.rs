//! Where a directory is, as a URL.

use std::fmt::{self, Write};
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use super::escapes::{self, encode};
use super::fault::did_you_mean;
use super::host::{HostWords, host_and_port};

/// The longest URL, in bytes.
const MAX_URL: usize = 4096;

const POSTGRES_PORT: u16 = 5432;

/// Where a directory is, and how to get in.
///
/// ```text
/// sqlite:PATH                                                  or sqlite://PATH
/// sqlite::memory:
/// postgres://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?…]      or postgresql://
/// ```
///
/// Path, user, password, database and parameters are percent-decoded.
///
/// Displayed and debugged with `***` for the password.
#[derive(Clone, PartialEq, Eq)]
pub enum DirectoryUrl {
    /// The memory of this process.
    Memory,
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A database of PostgreSQL, which nodes can share.
    Postgres(PostgresUrl),
}

/// Where a database of PostgreSQL is. Displayed and debugged with `***` for the password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    user: Option<String>,
    /// Never without a user.
    password: Option<String>,
    /// None for a socket, which a parameter `host` names.
    host: Option<String>,
    port: u16,
    database: Option<String>,
    /// Each name once, in the order they were written.
    parameters: Vec<(&'static str, String)>,
}

/// What is wrong with a URL. Neither part shows any of it but its scheme: it may hold a password
/// anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDirectoryUrl {
    /// What is wrong, as one line without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for InvalidDirectoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

impl std::error::Error for InvalidDirectoryUrl {}

type Parsed<T> = Result<T, InvalidDirectoryUrl>;

/// A fault, to return.
fn wrong<T>(message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    Err(InvalidDirectoryUrl {
        message: message.into(),
        hint: hint.into(),
    })
}

impl DirectoryUrl {
    /// The URL with its password, for whoever connects. Everything in it is escaped that may be. A
    /// host that is an address of IPv6 stands in `hostaddr`, where drivers read it without brackets.
    pub fn expose(&self) -> String {
        let mut text = String::new();
        // A `String` takes whatever is written.
        let _ = self.write(&mut text, Shown::Whole);
        text
    }

    fn write(&self, out: &mut impl Write, shown: Shown) -> fmt::Result {
        match self {
            Self::Memory => out.write_str("sqlite::memory:"),
            Self::Sqlite(path) => {
                out.write_str("sqlite:")?;
                encode(&path.to_string_lossy(), "/", out)
            }
            Self::Postgres(url) => url.write(out, shown),
        }
    }
}

/// How much of a URL is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// All of it.
    Whole,
    /// All but the password.
    Hidden,
}

impl FromStr for DirectoryUrl {
    type Err = InvalidDirectoryUrl;

    fn from_str(text: &str) -> Parsed<Self> {
        if text.len() > MAX_URL {
            let message = format!("the URL has {} bytes, more than {MAX_URL}", text.len());
            return wrong(message, "write a shorter one");
        }
        if text.contains(char::is_control) {
            return wrong("a control character in the URL", "remove it");
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return wrong("not a URL", WRITE);
        };
        let is = |name: &str| scheme.eq_ignore_ascii_case(name);
        match rest.strip_prefix("//") {
            _ if is("sqlite") => sqlite(rest.strip_prefix("//").unwrap_or(rest)),
            Some(rest) if is("postgres") || is("postgresql") => {
                Ok(Self::Postgres(PostgresUrl::parse(rest)?))
            }
            None if is("postgres") || is("postgresql") => wrong(
                "no `//` behind `postgres:`",
                "write `postgres://HOST/DATABASE`",
            ),
            _ => unknown(scheme),
        }
    }
}

const WRITE: &str = "write for example `sqlite:tollward.db` or `postgres://HOST/DATABASE`";

fn unknown<T>(scheme: &str) -> Parsed<T> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.len() > 32 || !scheme.chars().all(is_scheme) {
        return wrong("what stands before the first `:` is not known", WRITE);
    }
    let lower = scheme.to_ascii_lowercase();
    let hint = match did_you_mean(&lower, ["sqlite", "postgres", "postgresql"]) {
        Some("sqlite") => "did you mean `sqlite:`?",
        Some("postgres") => "did you mean `postgres://`?",
        Some(_) => "did you mean `postgresql://`?",
        None => WRITE,
    };
    wrong(format!("`{scheme}:` is not known"), hint)
}

/// What stands behind the scheme of SQLite.
fn sqlite(path: &str) -> Parsed<DirectoryUrl> {
    const WRITE: &str = "write for example `sqlite:tollward.db` or `sqlite:/var/lib/tollward.db`";
    if path == ":memory:" {
        return Ok(DirectoryUrl::Memory);
    }
    if path.contains(['?', '#']) {
        let hint = "remove it and what follows, or write `%3F` and `%23` in the name of a file";
        return wrong("a `?` or `#` behind the path", hint);
    }
    let path = decoded(path, "the path")?;
    if path.is_empty() {
        return wrong("no path behind `sqlite:`", WRITE);
    }
    if path.contains(char::is_control) || path.ends_with('/') {
        return wrong("not the path of a file", WRITE);
    }
    if path.starts_with(':') || path.starts_with("file:") {
        // SQLite has meanings of its own for these.
        let hint = "write `sqlite:PATH`, or `sqlite::memory:`";
        return wrong("not the path of a file", hint);
    }
    // Two slashes at the start would be read as those of a host.
    let path = match path.strip_prefix('/') {
        Some(rest) => format!("/{}", rest.trim_start_matches('/')),
        None => path,
    };
    Ok(DirectoryUrl::Sqlite(path.into()))
}

/// The parameters that may stand behind `?`.
const PARAMETERS: [&str; 8] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "application_name",
    "options",
    "statement-cache-capacity",
];

const SSL_MODES: [&str; 6] = [
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

impl PostgresUrl {
    /// Reads what stands behind the scheme.
    fn parse(rest: &str) -> Parsed<Self> {
        if rest.contains(char::is_whitespace) {
            return wrong("a space in the URL", "remove it, or write it as `%20`");
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        if behind.contains('@') {
            return wrong(
                "an `@` behind the first `/`, `?` or `#`",
                "in a user or password write `/` as `%2F`, `?` as `%3F`, `#` as `%23`; elsewhere `@` as `%40`",
            );
        }
        if behind.contains('#') {
            return wrong("a `#` in the URL", "write it as `%23`");
        }
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, authority),
        };
        let (user, password) = match credentials {
            Some(credentials) => self::credentials(credentials)?,
            None => (None, None),
        };
        let (path, query) = match behind.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (behind, None),
        };
        let parameters = parameters(query)?;
        let socket = parameters.iter().any(|(name, _)| *name == "host");
        let (host, port) = place(host, socket)?;
        Ok(Self {
            user,
            password,
            host,
            port,
            database: database(path)?,
            parameters,
        })
    }

    fn write(&self, out: &mut impl Write, shown: Shown) -> fmt::Result {
        out.write_str("postgres://")?;
        if let Some(user) = &self.user {
            encode(user, "", out)?;
            match (&self.password, shown) {
                (Some(password), Shown::Whole) => {
                    out.write_char(':')?;
                    encode(password, "", out)?;
                }
                (Some(_), Shown::Hidden) => out.write_str(":***")?,
                (None, _) => {}
            }
            out.write_char('@')?;
        }
        let v6 = self
            .host
            .as_deref()
            .filter(|host| host.parse::<Ipv6Addr>().is_ok());
        match (v6, &self.host, shown) {
            (Some(v6), _, Shown::Hidden) => write!(out, "[{v6}]")?,
            (None, None, Shown::Hidden) => {}
            (None, Some(host), _) => out.write_str(host)?,
            // A stand-in for what the parameters say: there is no user without a host.
            (_, _, Shown::Whole) => out.write_str("localhost")?,
        }
        if self.port != POSTGRES_PORT {
            write!(out, ":{}", self.port)?;
        }
        if let Some(database) = &self.database {
            out.write_char('/')?;
            encode(database, "", out)?;
        }
        let v6 = v6
            .filter(|_| shown == Shown::Whole)
            .map(|v6| ("hostaddr", v6));
        let given = self
            .parameters
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        for (index, (name, value)) in v6.into_iter().chain(given).enumerate() {
            out.write_char(if index == 0 { '?' } else { '&' })?;
            write!(out, "{name}=")?;
            encode(value, "/", out)?;
        }
        Ok(())
    }
}

/// User and password.
fn credentials(text: &str) -> Parsed<(Option<String>, Option<String>)> {
    const WRITE: &str = "write `USER@` or `USER:PASSWORD@`";
    if text.contains('@') {
        return wrong(
            "more than one `@`",
            "in a user or password write `@` as `%40`",
        );
    }
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let user = decoded(user, "the user")?;
    let password = password.map(|it| decoded(it, "the password")).transpose()?;
    match (user.is_empty(), password) {
        (true, None) => wrong("nothing before the `@`", format!("remove it, or {WRITE}")),
        (true, Some(_)) => wrong("a password without a user", WRITE),
        (false, Some(password)) if password.is_empty() => {
            wrong("the password is empty", "remove the `:`, or give one")
        }
        (false, password) => Ok((Some(user), password)),
    }
}

/// The host and the port, or no host if there is a `socket` in its place.
fn place(text: &str, socket: bool) -> Parsed<(Option<String>, u16)> {
    const WORDS: HostWords = HostWords {
        missing: "write for example `127.0.0.1:5432`, or `?host=/run/postgresql` for a socket",
        name: "write a name such as `db.example.com`, or an address",
        port: "the port is not a number from 1 to 65535",
        port_hint: "write `HOST:PORT`; behind a user and password an `@`, as in `USER:PASSWORD@HOST:PORT`",
    };
    if text.contains(',') {
        return wrong("more than one host", "keep one");
    }
    let named = |text: &str| {
        host_and_port(text, POSTGRES_PORT, &WORDS).or_else(|(message, hint)| wrong(message, hint))
    };
    if !socket {
        let (host, port) = named(text)?;
        return Ok((Some(host), port));
    }
    if !text.is_empty() && !text.starts_with(':') {
        let hint = "keep one: a parameter `host` is for a socket of this machine";
        return wrong("a host before the path and a parameter `host`", hint);
    }
    // The port is a part of the name of the socket.
    let (_, port) = named(&format!("localhost{text}"))?;
    Ok((None, port))
}

fn database(path: &str) -> Parsed<Option<String>> {
    let name = path.strip_prefix('/').unwrap_or(path);
    if name.contains('/') {
        let hint = "write `HOST/DATABASE`; in its name write `/` as `%2F`";
        return wrong("more than a database behind the host", hint);
    }
    let name = decoded(name, "the database")?;
    Ok((!name.is_empty()).then_some(name))
}

/// What stands behind `?`.
fn parameters(query: Option<&str>) -> Parsed<Vec<(&'static str, String)>> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for parameter in query.into_iter().flat_map(|query| query.split('&')) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if matches!(name, "user" | "password") {
            let message = format!("the parameter `{name}` behind `?`");
            return wrong(message, "write `USER:PASSWORD@` before the host");
        }
        let Some(name) = PARAMETERS.into_iter().find(|known| *known == name) else {
            let hint = format!("remove it; there are {}", PARAMETERS.join(", "));
            return wrong("an unknown parameter behind `?`", hint);
        };
        if found.iter().any(|(other, _)| *other == name) {
            return wrong(
                format!("the parameter `{name}` is given twice"),
                "remove one",
            );
        }
        let value = decoded(value, &format!("the parameter `{name}`"))?;
        check(name, &value)?;
        found.push((name, value));
    }
    Ok(found)
}

fn check(name: &str, value: &str) -> Parsed<()> {
    let hint = match name {
        "sslmode" if !SSL_MODES.contains(&value) => {
            format!("write one of {}", SSL_MODES.join(", "))
        }
        "host" if !value.starts_with('/') => {
            "write the folder of a socket, such as `/run/postgresql`; a host stands before the path"
                .to_owned()
        }
        "statement-cache-capacity" if value.parse::<u16>().is_err() => {
            "write a number from 0 to 65535".to_owned()
        }
        _ if value.is_empty() => "remove it, or give it a value".to_owned(),
        _ => return Ok(()),
    };
    wrong(format!("not a value of the parameter `{name}`"), hint)
}

fn decoded(text: &str, what: &str) -> Parsed<String> {
    escapes::decoded(text, what).or_else(|(message, hint)| wrong(message, hint))
}

impl fmt::Display for DirectoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Shown::Hidden)
    }
}

impl fmt::Debug for DirectoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectoryUrl({self})")
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Shown::Hidden)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}
