use std::process::ExitCode;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value};

use super::door::{DoorArgs, OnceArg, ReasonArg, VersionArg, path};
use super::list::{LimitArg, List};
use super::table::{Table, attributes, cell, moment, record, suspended};

/// Users: their tenants and plans.
#[derive(Debug, Args)]
pub(super) struct Users {
    #[command(flatten)]
    door: DoorArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List users
    List {
        /// Only those of this tenant
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        limit: LimitArg,
    },
    /// Show a user
    Show {
        #[command(flatten)]
        user: UserArg,
    },
    /// Make a user
    Create {
        #[command(flatten)]
        user: UserArg,
        #[command(flatten)]
        fields: Fields,
        #[command(flatten)]
        once: OnceArg,
    },
    /// Change a user; what is not mentioned stays as it is
    Change {
        #[command(flatten)]
        user: UserArg,
        #[command(flatten)]
        fields: Fields,
        /// Let the user have no plan
        #[arg(long, conflicts_with = "plan")]
        no_plan: bool,
        /// Let the user belong to no tenant
        #[arg(long, conflicts_with = "tenant")]
        no_tenant: bool,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Refuse the user's requests until the user is resumed (403); nothing is deleted
    Suspend {
        #[command(flatten)]
        user: UserArg,
        #[command(flatten)]
        reason: ReasonArg,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Accept the user's requests again
    Resume {
        #[command(flatten)]
        user: UserArg,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Delete a user with the user's keys, boosts and entries of the allow-list
    Delete {
        #[command(flatten)]
        user: UserArg,
        #[command(flatten)]
        version: VersionArg,
    },
}

#[derive(Debug, Args)]
struct UserArg {
    /// The user
    #[arg(value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, Args)]
struct Fields {
    /// The tenant that the user belongs to
    #[arg(long)]
    tenant: Option<String>,
    /// The user's plan, which goes before the tenant's
    #[arg(long)]
    plan: Option<String>,
    /// Whether the user's e-mail address was verified
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    email_verified: Option<bool>,
}

const PATH: &str = "/admin/v1/users";

impl UserArg {
    fn path(&self) -> String {
        path("users", &self.id)
    }
}

impl Fields {
    /// Those that are given.
    fn document(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let given = [("tenant", &self.tenant), ("plan", &self.plan)];
        for (name, value) in given {
            if let Some(value) = value {
                fields.insert(name.to_owned(), value.as_str().into());
            }
        }
        if let Some(verified) = self.email_verified {
            fields.insert("email_verified".to_owned(), verified.into());
        }
        fields
    }
}

impl Users {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let door = self.door.door()?;
        let said = match &self.action {
            Action::List { tenant, limit } => {
                let list = List {
                    path: PATH,
                    filters: &[("tenant", tenant.as_deref())],
                    limit,
                    nothing: "no users",
                };
                let heads = ["USER", "TENANT", "PLAN", "SUSPENDED", "VERIFIED", "CREATED"];
                let mut table = Table::new(&heads);
                return Ok(list.print(&door, &mut table, row)?.code);
            }
            Action::Show { user } => door.read(&user.path())?,
            Action::Create { user, fields, once } => {
                let mut body = fields.document();
                body.insert("id".to_owned(), user.id.as_str().into());
                door.create(PATH, &Value::Object(body), once, None)?
            }
            Action::Change {
                user,
                fields,
                no_plan,
                no_tenant,
                version,
            } => {
                let mut patch = fields.document();
                for (name, is_gone) in [("plan", no_plan), ("tenant", no_tenant)] {
                    if *is_gone {
                        patch.insert(name.to_owned(), Value::Null);
                    }
                }
                if patch.is_empty() {
                    bail!(
                        "nothing to change: give --tenant, --plan, --email-verified, --no-tenant or --no-plan"
                    );
                }
                let patch = Value::Object(patch);
                door.change(Method::PATCH, &user.path(), "", Some(&patch), version)?
            }
            Action::Suspend {
                user,
                reason,
                version,
            } => door.suspend(&user.path(), reason, version)?,
            Action::Resume { user, version } => door.resume(&user.path(), version)?,
            Action::Delete { user, version } => {
                let said = door.change(Method::DELETE, &user.path(), "", None, version)?;
                return door.show(&said, |_| format!("deleted user {}", user.id));
            }
        };
        door.show(&said, in_words)
    }
}

fn row(user: &Value) -> Vec<String> {
    vec![
        cell(&user["id"]),
        cell(&user["tenant"]),
        cell(&user["plan"]),
        moment(&user["suspended_at"]),
        cell(&user["email_verified"]),
        moment(&user["created_at"]),
    ]
}

fn in_words(user: &Value) -> String {
    record(&[
        ("user", cell(&user["id"])),
        ("tenant", cell(&user["tenant"])),
        ("plan", cell(&user["plan"])),
        ("suspended", suspended(user)),
        ("verified", cell(&user["email_verified"])),
        ("attributes", attributes(user)),
        ("created", moment(&user["created_at"])),
        ("changed", moment(&user["updated_at"])),
        ("version", cell(&user["version"])),
    ])
}
