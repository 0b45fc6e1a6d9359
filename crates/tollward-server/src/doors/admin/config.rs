//! The configuration: which is in force, read again, compared with another.

use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use tollward_policy::config::{Fault, written};
use tollward_policy::{Warning, compile};
use utoipa::ToSchema;

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Operate, Read};
use super::input::Text;
use super::moment::Moment;
use super::{Shared, aside};
use crate::config_state::Asker;

/// The configuration in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Config)]
pub(super) struct View {
    /// The SHA-256 of its text, in hexadecimal digits.
    hash: String,
    /// The file, or `built-in configuration`.
    source: String,
    /// When it was put in force.
    loaded_at: Moment,
    /// Why the last attempt to put another in force failed; null if it did not.
    last_error: Option<LastError>,
    /// What is legal in it but surely not meant.
    warnings: Vec<WarningView>,
    /// What the file and the directory say that does not go together, in sentences.
    clashes: Vec<String>,
}

/// An attempt that failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConfigError)]
pub(super) struct LastError {
    /// When.
    at: Moment,
    /// All faults, each on a line.
    message: String,
}

impl View {
    pub(super) fn new(shared: &Shared) -> Self {
        let applied = shared.config.applied();
        let clashes = shared.engine.active().policy().clashes();
        Self {
            hash: applied.hash,
            source: applied.source.to_string(),
            loaded_at: Moment(applied.at_ms),
            last_error: applied.last_error.map(|(at, message)| LastError {
                at: Moment(at),
                message,
            }),
            warnings: applied.warnings.iter().map(WarningView::from).collect(),
            clashes: clashes.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A candidate, and what it would change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConfigDiff)]
pub(super) struct Diff {
    /// Whether it could be put in force.
    valid: bool,
    /// What is wrong with it.
    faults: Vec<FaultView>,
    /// What is legal in it but surely not meant.
    warnings: Vec<WarningView>,
    /// What it would change, at most a thousand values.
    changes: Vec<Change>,
    /// How many changes are not shown.
    more: usize,
    /// Whether some of it would take effect only after a restart.
    restart_required: bool,
    /// What would keep it from being put in force because of the people in the directory, in sentences.
    clashes: Vec<String>,
}

/// Something wrong with a configuration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConfigFault)]
pub(super) struct FaultView {
    /// The path, such as `plans.free`; empty for the whole.
    place: String,
    /// The line, from 1.
    line: u32,
    /// The column, from 1.
    column: u32,
    /// What is wrong.
    message: String,
    /// What to do about it.
    hint: Option<String>,
}

impl From<Fault> for FaultView {
    fn from(fault: Fault) -> Self {
        Self {
            place: fault.place.path.to_string(),
            line: fault.place.line,
            column: fault.place.column,
            message: fault.message,
            hint: fault.hint,
        }
    }
}

/// Something that is legal but surely not meant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConfigWarning)]
pub(super) struct WarningView {
    /// The path, such as `tenants.system.rate_limit`; empty for the whole.
    place: String,
    /// The line, from 1; 0 for what flags of the command line make of it.
    line: u32,
    /// The column, from 1.
    column: u32,
    /// What is likely to be wrong.
    message: String,
    /// What to do about it.
    hint: String,
}

impl From<&Warning> for WarningView {
    fn from(warning: &Warning) -> Self {
        Self {
            place: warning.place.path.to_string(),
            line: warning.place.line,
            column: warning.place.column,
            message: warning.message.clone(),
            hint: warning.hint.clone(),
        }
    }
}

/// A value that would be another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ConfigChange)]
pub(super) struct Change {
    /// The path of the value, such as `plans.free.rate_limit.sustained.rate`.
    path: String,
    /// What it is now; null if it is not there.
    before: Option<String>,
    /// What it would be; null if it would not be there.
    after: Option<String>,
}

/// The most changes that are shown.
const MAX_CHANGES: usize = 1000;

/// Shows which configuration is in force
#[utoipa::path(get, path = "/admin/v1/config", tag = "config",
    responses((status = 200, description = "The configuration in force on this node", body = View)))]
pub(super) async fn show_config(
    _: By<Read>,
    State(shared): State<Shared>,
) -> Result<Answer, Failure> {
    Answer::ok(&aside(move || View::new(&shared)).await?)
}

/// Reads the configuration again
///
/// On this node. One that cannot be used changes nothing.
#[utoipa::path(post, path = "/admin/v1/config/reload", tag = "config",
    responses(
        (status = 200, description = "It is in force", body = View),
        (status = 422, description = "It cannot be used: the old one stays in force"),
    ))]
pub(super) async fn reload_config(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
) -> Result<Answer, Failure> {
    let asker = Asker {
        actor: caller.actor,
        address: caller.address.to_string(),
    };
    match shared.config.reload(asker).await {
        Some(Ok(())) => Answer::ok(&aside(move || View::new(&shared)).await?),
        Some(Err(why)) => {
            let detail =
                format!("The configuration cannot be used, the old one stays in force: {why}");
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Err(Failure::new(status, "bad_config", detail))
        }
        None => Err(Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "The configuration is being read by others, or the server stops. Ask again.",
        )
        .retry_after(1)),
    }
}

/// Compares a candidate with the configuration in force
///
/// The body is the text of a configuration, in YAML or JSON. Nothing is changed. Passwords are not shown.
#[utoipa::path(post, path = "/admin/v1/config/diff", tag = "config",
    request_body(content((String = "application/yaml"), (String = "text/plain")), description = "The candidate"),
    responses((status = 200, description = "Whether it could be used, and what it would change", body = Diff)))]
pub(super) async fn diff_config(
    _: By<Read>,
    State(shared): State<Shared>,
    Text(text): Text,
) -> Result<Answer, Failure> {
    Answer::ok(&aside(move || Diff::new(&shared, &text)).await?)
}

impl Diff {
    fn new(shared: &Shared, text: &[u8]) -> Self {
        let compiled = match compile(text) {
            Ok(compiled) => compiled,
            Err(faults) => {
                return Self {
                    valid: false,
                    faults: faults.into_iter().map(FaultView::from).collect(),
                    warnings: Vec::new(),
                    changes: Vec::new(),
                    more: 0,
                    restart_required: false,
                    clashes: Vec::new(),
                };
            }
        };
        let applied = shared.config.applied();
        let values = |text: &[u8]| written(text).unwrap_or_default();
        let mut changes = changes(&values(&applied.text), &values(text));
        let more = changes.len().saturating_sub(MAX_CHANGES);
        changes.truncate(MAX_CHANGES);
        let active = shared.engine.active();
        let clashes = compiled.policy.new_clashes(active.policy());
        Self {
            valid: clashes.is_empty(),
            faults: Vec::new(),
            warnings: compiled.warnings.iter().map(WarningView::from).collect(),
            changes,
            more,
            restart_required: compiled.settings != *shared.config.settings(),
            clashes: clashes.iter().map(ToString::to_string).collect(),
        }
    }
}

/// What is another, in the order of paths.
fn changes(before: &[(String, String)], after: &[(String, String)]) -> Vec<Change> {
    use std::collections::BTreeMap;
    let mut paths: BTreeMap<&str, (Option<&str>, Option<&str>)> = BTreeMap::new();
    for (path, value) in before {
        paths.entry(path).or_default().0 = Some(value);
    }
    for (path, value) in after {
        paths.entry(path).or_default().1 = Some(value);
    }
    let shown = |path: &str, value: Option<&str>| {
        let value = value?;
        // A hash is shown as far as it takes to know it again.
        let is_hash = path.ends_with("sha256");
        let end = if is_hash { 12 } else { usize::MAX };
        Some(value.chars().take(end).collect::<String>())
    };
    paths
        .into_iter()
        .filter(|(_, (before, after))| before != after)
        .map(|(path, (before, after))| Change {
            path: path.to_owned(),
            before: shown(path, before),
            after: shown(path, after),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(before: &str, after: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let values = |text: &str| written(text.as_bytes()).unwrap();
        let changes = changes(&values(before), &values(after));
        changes
            .into_iter()
            .map(|it| (it.path, it.before, it.after))
            .collect()
    }

    #[test]
    fn only_what_is_another() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            between("enforcement: on", "{ \"enforcement\": \"on\" }"),
            []
        );
        assert_eq!(
            between(
                "enforcement: on\npaths: { case: fold }",
                "enforcement: off\ntenants: { a: {} }"
            ),
            [
                ("enforcement".to_owned(), text("on"), text("off")),
                ("paths.case".to_owned(), text("fold"), None),
                ("tenants.a".to_owned(), None, text("{}")),
            ]
        );
    }

    #[test]
    fn neither_passwords_nor_hashes() {
        let hash = "ab".repeat(32);
        let after = format!(
            "store: {{ backend: redis, url: 'redis://u:pa55@h' }}\nkeys: [{{ sha256: {hash}, tenant: a }}]"
        );
        let shown = format!("{:?}", between("", &after));
        assert!(
            shown.contains("abababababab") && !shown.contains(&hash),
            "{shown}"
        );
        assert!(!shown.contains("pa55"), "{shown}");
    }
}
