//! The admin door as the commands ask it: their flags, their requests, and what they make of the answers.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use http::header::{ETAG, HeaderName, IF_MATCH};
use http::{Method, StatusCode, Uri};
use serde_json::{Value, json};

use super::client::{Answer, Client, Lost, Question};
use super::problem::in_words;
use super::{complain, say};

/// Which admin door, and how its answers are to be shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct DoorArgs {
    /// The admin door of the server to ask
    #[arg(
        long,
        global = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:8082",
        env = "TOLLWARD_ADMIN_URL"
    )]
    url: Uri,
    /// The token of its admin door. Others on this machine may see a command line: rather set the variable, or
    /// use --token-file
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "TOLLWARD_ADMIN_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// A file with the token in it, which goes before --token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the server's answer as it is
    #[arg(long, global = true)]
    json: bool,
}

/// Which version a change is meant for.
#[derive(Debug, Args)]
pub(super) struct VersionArg {
    /// Do it only if this is the version that is there, or `*` for any
    #[arg(long, value_name = "VERSION", value_parser = entity_tag)]
    if_match: Option<String>,
}

/// What makes it safe to repeat a command that makes something.
#[derive(Debug, Args)]
pub(super) struct OnceArg {
    /// What was done with this key in the last 24 hours is not done again; a random one, unless told otherwise
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// A door to ask.
pub(super) struct Door {
    url: Uri,
    token: Option<String>,
    pub(super) json: bool,
}

/// Sent with what is to be done once.
const ONCE: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest file with a token, in bytes.
const MAX_TOKEN: u64 = 4096;

impl DoorArgs {
    pub(super) fn door(&self) -> anyhow::Result<Door> {
        let token = match &self.token_file {
            Some(file) => Some(read_token(file).with_context(|| file.display().to_string())?),
            None => self.token.clone().filter(|token| !token.is_empty()),
        };
        Ok(Door {
            url: self.url.clone(),
            token,
            json: self.json,
        })
    }
}

fn read_token(file: &PathBuf) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(file)?
        .take(MAX_TOKEN)
        .read_to_string(&mut text)?;
    match text.trim() {
        "" => bail!("there is no token in it"),
        token => Ok(token.to_owned()),
    }
}

impl Door {
    fn client(&self) -> Client<'_> {
        Client {
            url: &self.url,
            token: self.token.as_deref(),
        }
    }

    pub(super) fn ask(&self, question: &Question) -> anyhow::Result<Answer> {
        self.client().ask(question)
    }

    pub(super) fn read(&self, target: &str) -> anyhow::Result<Answer> {
        self.client().send(Method::GET, target, Vec::new())
    }

    /// Makes something, once. If the answer is lost it is asked for again: what was done is not done twice.
    pub(super) fn create(
        &self,
        target: &str,
        body: &Value,
        once: &OnceArg,
        tag: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let key = match &once.idempotency_key {
            Some(key) => key.clone(),
            None => random_key()?,
        };
        let mut headers = vec![(ONCE, key.clone())];
        if let Some(tag) = tag {
            headers.push((IF_MATCH, tag.to_owned()));
        }
        let question = Question {
            method: Method::POST,
            target: target.to_owned(),
            headers,
            body: serde_json::to_vec(body)?,
        };
        match self.ask(&question) {
            Err(error) if error.is::<Lost>() => self.ask(&question).with_context(|| {
                format!("it may have been done; with --idempotency-key {key} it is not done twice")
            }),
            answered => answered,
        }
    }

    /// The version that a change of what is at a path is meant for: as given, or the one that is there now. If
    /// that cannot be seen, why.
    pub(super) fn tag(
        &self,
        path: &str,
        version: &VersionArg,
    ) -> anyhow::Result<Result<String, Answer>> {
        if let Some(tag) = &version.if_match {
            return Ok(Ok(tag.clone()));
        }
        let current = self.read(path)?;
        if !current.status.is_success() {
            return Ok(Err(current));
        }
        let tag = current.headers.get(ETAG);
        // What has none is of the file. The server says where it is written.
        let tag = tag.and_then(|tag| tag.to_str().ok());
        Ok(Ok(tag.unwrap_or("*").to_owned()))
    }

    /// Changes or removes what is at a path, if nobody else does so meanwhile: what is there is looked at first,
    /// unless the version is given. `end` is the rest of the path, or the query.
    pub(super) fn change(
        &self,
        method: Method,
        path: &str,
        end: &str,
        body: Option<&Value>,
        version: &VersionArg,
    ) -> anyhow::Result<Answer> {
        let tag = match self.tag(path, version)? {
            Ok(tag) => tag,
            Err(refusal) => return Ok(refusal),
        };
        self.ask(&Question {
            method,
            target: format!("{path}{end}"),
            headers: vec![(IF_MATCH, tag)],
            body: body
                .map(serde_json::to_vec)
                .transpose()?
                .unwrap_or_default(),
        })
    }

    /// Suspends what is at a path, until it is resumed.
    pub(super) fn suspend(
        &self,
        path: &str,
        reason: &ReasonArg,
        version: &VersionArg,
    ) -> anyhow::Result<Answer> {
        let body = match &reason.reason {
            Some(reason) => json!({ "reason": reason }),
            None => json!({}),
        };
        self.change(Method::POST, path, "/suspend", Some(&body), version)
    }

    /// Resumes what is at a path.
    pub(super) fn resume(&self, path: &str, version: &VersionArg) -> anyhow::Result<Answer> {
        self.change(Method::POST, path, "/resume", None, version)
    }

    /// Prints an answer: as it came, or as these words, or what is wrong.
    pub(super) fn show(
        &self,
        said: &Answer,
        words: impl FnOnce(&Value) -> String,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            say(&said.text)?;
        } else if said.status.is_success() {
            say(&words(&said.json))?;
            self.warn(said);
        } else {
            self.refuse(said);
        }
        Ok(code(said.status))
    }

    /// Says what is worth a thought about what was done.
    pub(super) fn warn(&self, said: &Answer) {
        if let Some(warning) = said.headers.get("x-tollward-warning")
            && let Ok(warning) = warning.to_str()
        {
            complain(&format!("warning: {warning}"));
        }
        for warning in said.json["warnings"].as_array().into_iter().flatten() {
            complain(&format!(
                "warning: {}",
                super::table::cell(&warning["detail"])
            ));
        }
    }

    /// Says why something was not done.
    pub(super) fn refuse(&self, said: &Answer) {
        let url = &self.url;
        let fault = match (said.status, &self.token) {
            (StatusCode::UNAUTHORIZED, Some(_)) => format!("this is not the admin token of {url}"),
            (StatusCode::UNAUTHORIZED, None) => format!("{url} wants its admin token"),
            _ => return complain(&in_words(said)),
        };
        complain(&format!(
            "{fault}: give it with --token-file, TOLLWARD_ADMIN_TOKEN or --token; a server that was not given \
             one has printed one when it started"
        ));
    }
}

/// Why something is done.
#[derive(Debug, Args)]
pub(super) struct ReasonArg {
    /// Why, for those who read this later
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
}

/// 1: the server says no. 2: it could not be asked properly, or cannot answer now.
pub(super) fn code(status: StatusCode) -> ExitCode {
    match status {
        status if status.is_success() => ExitCode::SUCCESS,
        StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => ExitCode::from(2),
        status if status.is_client_error() => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    }
}

/// A path of the API that ends with a name, whatever is in that.
pub(super) fn path(collection: &str, id: &str) -> String {
    let mut path = format!("/admin/v1/{collection}/");
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte));
            }
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// Reads a version as people write it: bare, in quotes, or `*`.
fn entity_tag(text: &str) -> Result<String, String> {
    let bare = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match (text, bare.unwrap_or(text).parse::<u64>()) {
        ("*", _) => Ok("*".to_owned()),
        (_, Ok(version)) => Ok(format!("\"{version}\"")),
        _ => Err("write the number of a version, as `show` prints it, or `*`".to_owned()),
    }
}

fn random_key() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::getrandom(&mut bytes).context("this machine gives no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment_of_a_path() {
        for (id, end) in [
            ("acme", "acme"),
            ("a/b c", "a%2Fb%20c"),
            ("ü?#%", "%C3%BC%3F%23%25"),
            ("allow[0]", "allow%5B0%5D"),
        ] {
            assert_eq!(path("tenants", id), format!("/admin/v1/tenants/{end}"));
        }
    }

    #[test]
    fn versions_are_numbers_or_any() {
        for (text, tag) in [
            ("3", "\"3\""),
            ("\"3\"", "\"3\""),
            ("*", "*"),
            ("0", "\"0\""),
        ] {
            assert_eq!(entity_tag(text).unwrap(), tag);
        }
        for text in ["", "-1", "\"3", "W/\"3\"", "latest", "\"*\"", "\r\nX: y"] {
            assert!(entity_tag(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_are_never_the_same() {
        let keys = [random_key().unwrap(), random_key().unwrap()];
        assert_ne!(keys[0], keys[1]);
        assert_eq!(keys[0].len(), 32);
    }
}
