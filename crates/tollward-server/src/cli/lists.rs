use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Subcommand};
use http::Method;
use serde_json::{Map, Value};

use tollward_policy::List;

use super::door::{DoorArgs, OnceArg, VersionArg, path};
use super::list::{self, LimitArg};
use super::table::{Table, cell, moment, record};

/// The commands of the allow-list and of the deny-list, which are the same.
#[derive(Debug, Args)]
pub(super) struct Lists {
    #[command(flatten)]
    door: DoorArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the entries, and why they were made; those of the configuration file come first
    List {
        #[command(flatten)]
        limit: LimitArg,
    },
    /// Add a caller to the list
    Add {
        #[command(flatten)]
        caller: CallerArgs,
        /// Why
        #[arg(long, value_parser = NonEmptyStringValueParser::new())]
        reason: String,
        #[command(flatten)]
        once: OnceArg,
    },
    /// Remove a caller from the list
    Remove {
        /// The entry's id, as `list` prints it
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        #[command(flatten)]
        version: VersionArg,
    },
}

/// Who.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("caller").required(true).multiple(false))]
struct CallerArgs {
    /// A network or an address: 192.0.2.0/24, 2001:db8::7
    #[arg(long, value_name = "NETWORK", group = "caller")]
    cidr: Option<String>,
    /// A user
    #[arg(long, group = "caller")]
    user: Option<String>,
    /// A client
    #[arg(long, group = "caller")]
    client: Option<String>,
    /// A tenant; on the deny-list, also the tenants below it
    #[arg(long, group = "caller")]
    tenant: Option<String>,
    /// An API key by its SHA-256, in hexadecimal digits
    #[arg(long, value_name = "DIGITS", group = "caller")]
    api_key_sha256: Option<String>,
    /// An API key by its id, as `tollward keys list` prints it
    #[arg(long, value_name = "ID", group = "caller")]
    key_id: Option<String>,
}

impl CallerArgs {
    fn document(&self) -> Map<String, Value> {
        let given = [
            ("cidr", &self.cidr),
            ("user", &self.user),
            ("client", &self.client),
            ("tenant", &self.tenant),
            ("api_key_sha256", &self.api_key_sha256),
            ("key_id", &self.key_id),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value.as_deref()?.into())))
            .collect()
    }
}

impl Lists {
    pub(super) fn run(self, list: List) -> anyhow::Result<ExitCode> {
        let door = self.door.door()?;
        let word = list.word();
        let target = format!("/admin/v1/{word}");
        match &self.action {
            Action::List { limit } => {
                let list = list::List {
                    path: &target,
                    filters: &[],
                    limit,
                    nothing: match list {
                        List::Allow => "nobody is on the allow-list",
                        List::Deny => "nobody is on the deny-list",
                    },
                };
                let mut table =
                    Table::new(&["ID", "KIND", "CALLER", "REASON", "SOURCE", "CREATED"]);
                Ok(list.print(&door, &mut table, row)?.code)
            }
            Action::Add {
                caller,
                reason,
                once,
            } => {
                let mut body = caller.document();
                body.insert("reason".to_owned(), reason.as_str().into());
                let said = door.create(&target, &Value::Object(body), once, None)?;
                door.show(&said, in_words)
            }
            Action::Remove { id, version } => {
                let said = door.change(Method::DELETE, &path(word, id), "", None, version)?;
                door.show(&said, |entry| {
                    let (kind, value) = (cell(&entry["kind"]), cell(&entry["value"]));
                    format!("removed {kind} {value} from the {word}-list")
                })
            }
        }
    }
}

fn row(entry: &Value) -> Vec<String> {
    let texts = ["id", "kind", "value", "reason", "source"];
    let mut row: Vec<String> = texts.iter().map(|name| cell(&entry[*name])).collect();
    row.push(moment(&entry["created_at"]));
    row
}

fn in_words(entry: &Value) -> String {
    record(&[
        ("entry", cell(&entry["id"])),
        ("kind", cell(&entry["kind"])),
        ("caller", cell(&entry["value"])),
        ("reason", cell(&entry["reason"])),
        ("created", moment(&entry["created_at"])),
        ("version", cell(&entry["version"])),
    ])
}
