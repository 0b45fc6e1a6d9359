use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Subcommand};
use http::Method;
use serde_json::{Map, Value};

use super::door::{DoorArgs, OnceArg, VersionArg, path};
use super::list::{LimitArg, List};
use super::table::{Table, cell, moment, record};

/// The allow-list: callers that no limit concerns.
#[derive(Debug, Args)]
pub(super) struct Allow {
    #[command(flatten)]
    door: DoorArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List who is never limited, and why; the entries of the configuration file come first
    List {
        #[command(flatten)]
        limit: LimitArg,
    },
    /// Let somebody through, whatever the limits say
    Add {
        #[command(flatten)]
        caller: CallerArgs,
        /// Why
        #[arg(long, value_parser = NonEmptyStringValueParser::new())]
        reason: String,
        #[command(flatten)]
        once: OnceArg,
    },
    /// Take somebody off the list
    Remove {
        /// The entry's id, as `tollward allow list` prints it
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
    /// A tenant
    #[arg(long, group = "caller")]
    tenant: Option<String>,
    /// An API key by its SHA-256, in hexadecimal digits
    #[arg(long, value_name = "DIGITS", group = "caller")]
    api_key_sha256: Option<String>,
    /// An API key by its id, as `tollward keys list` prints it
    #[arg(long, value_name = "ID", group = "caller")]
    key_id: Option<String>,
}

const PATH: &str = "/admin/v1/allow";

impl CallerArgs {
    fn document(&self) -> Map<String, Value> {
        let given = [
            ("cidr", &self.cidr),
            ("user", &self.user),
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

impl Allow {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let door = self.door.door()?;
        match &self.action {
            Action::List { limit } => {
                let list = List {
                    path: PATH,
                    filters: &[],
                    limit,
                    nothing: "nobody is on the allow-list",
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
                let said = door.create(PATH, &Value::Object(body), once, None)?;
                door.show(&said, in_words)
            }
            Action::Remove { id, version } => {
                let said = door.change(Method::DELETE, &path("allow", id), "", None, version)?;
                door.show(&said, |entry| {
                    let (kind, value) = (cell(&entry["kind"]), cell(&entry["value"]));
                    format!("removed {kind} {value} from the allow-list")
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
