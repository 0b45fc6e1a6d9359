use std::process::ExitCode;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::door::{Door, DoorArgs, OnceArg, ReasonArg, VersionArg, path};
use super::limit::{RateLimitArgs, budget_in_words, level_in_words, limit_in_words};
use super::list::{LimitArg, List};
use super::table::{Table, attributes, cell, moment, record, suspended};

/// Tenants: who they are, and what they may use.
#[derive(Debug, Args)]
pub(super) struct Tenants {
    #[command(flatten)]
    door: DoorArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List tenants, those of the configuration file too
    List {
        /// Only those right below this one; `system` is the root
        #[arg(long, value_name = "TENANT")]
        parent: Option<String>,
        #[command(flatten)]
        limit: LimitArg,
    },
    /// Show a tenant, and what limits it
    Show {
        #[command(flatten)]
        tenant: TenantArg,
    },
    /// Make a tenant
    Create {
        #[command(flatten)]
        tenant: TenantArg,
        /// The tenant above it; `system`, the root, unless told otherwise
        #[arg(long, value_name = "TENANT")]
        parent: Option<String>,
        /// Its plan
        #[arg(long)]
        plan: Option<String>,
        #[command(flatten)]
        once: OnceArg,
        // Last: what follows would be under its heading.
        #[command(flatten)]
        limit: RateLimitArgs,
    },
    /// Change a tenant; what is not mentioned stays as it is
    Change {
        #[command(flatten)]
        tenant: TenantArg,
        /// Its plan
        #[arg(long)]
        plan: Option<String>,
        /// Let it have no plan of its own
        #[arg(long, conflicts_with = "plan")]
        no_plan: bool,
        /// Let it have no limit of its own
        #[arg(long, conflicts_with_all = ["rate_limit", "rate", "burst", "sharing", "budget_mode", "budget_total", "overcommit"])]
        no_rate_limit: bool,
        #[command(flatten)]
        version: VersionArg,
        // Last: what follows would be under its heading.
        #[command(flatten)]
        limit: RateLimitArgs,
    },
    /// Move a tenant below another; it keeps what it has spent
    Move {
        #[command(flatten)]
        tenant: TenantArg,
        /// The tenant to move it below; `system` is the root
        #[arg(value_name = "PARENT", value_parser = NonEmptyStringValueParser::new())]
        parent: String,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Refuse its requests, and those of the tenants below it, until it is resumed (403); nothing is deleted
    Suspend {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        reason: ReasonArg,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Accept its requests again
    Resume {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Delete a tenant with its users, keys, boosts and entries of the allow-list
    Delete {
        #[command(flatten)]
        tenant: TenantArg,
        /// Also all tenants below it
        #[arg(long)]
        cascade: bool,
        #[command(flatten)]
        version: VersionArg,
    },
}

#[derive(Debug, Args)]
struct TenantArg {
    /// The tenant
    #[arg(value_name = "TENANT", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

const PATH: &str = "/admin/v1/tenants";

impl TenantArg {
    fn path(&self) -> String {
        path("tenants", &self.id)
    }
}

impl Tenants {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let door = self.door.door()?;
        let said = match &self.action {
            Action::List { parent, limit } => return list(&door, parent.as_deref(), limit),
            Action::Show { tenant } => door.read(&tenant.path())?,
            Action::Create {
                tenant,
                parent,
                plan,
                once,
                limit,
            } => {
                let body = json!({
                    "id": tenant.id,
                    "parent": parent,
                    "plan": plan,
                    "rate_limit": limit.new_limit()?,
                });
                door.create(PATH, &body, once, None)?
            }
            Action::Change {
                tenant,
                plan,
                no_plan,
                no_rate_limit,
                version,
                limit,
            } => {
                let mut patch = Map::new();
                if plan.is_some() || *no_plan {
                    patch.insert("plan".to_owned(), plan.clone().into());
                }
                let limit = limit.limit()?;
                if limit.is_some() || *no_rate_limit {
                    patch.insert("rate_limit".to_owned(), limit.into());
                }
                if patch.is_empty() {
                    bail!(
                        "nothing to change: give --plan, --rate or another of the flags that \
                         `tollward tenants change --help` tells"
                    );
                }
                let patch = Value::Object(patch);
                door.change(Method::PATCH, &tenant.path(), "", Some(&patch), version)?
            }
            Action::Move {
                tenant,
                parent,
                version,
            } => {
                let patch = json!({ "parent": parent });
                door.change(Method::PATCH, &tenant.path(), "", Some(&patch), version)?
            }
            Action::Suspend {
                tenant,
                reason,
                version,
            } => door.suspend(&tenant.path(), reason, version)?,
            Action::Resume { tenant, version } => door.resume(&tenant.path(), version)?,
            Action::Delete {
                tenant,
                cascade,
                version,
            } => {
                let query = if *cascade { "?cascade=true" } else { "" };
                let said = door.change(Method::DELETE, &tenant.path(), query, None, version)?;
                return door.show(&said, |_| format!("deleted tenant {}", tenant.id));
            }
        };
        door.show(&said, in_words)
    }
}

fn list(door: &Door, parent: Option<&str>, limit: &LimitArg) -> anyhow::Result<ExitCode> {
    let list = List {
        path: PATH,
        filters: &[("parent", parent)],
        limit,
        nothing: "no tenants",
    };
    let heads = [
        "TENANT",
        "PARENT",
        "PLAN",
        "LIMIT",
        "EFFECTIVE",
        "SUSPENDED",
        "SOURCE",
    ];
    Ok(list.print(door, &mut Table::new(&heads), row)?.code)
}

fn row(tenant: &Value) -> Vec<String> {
    vec![
        cell(&tenant["id"]),
        cell(&tenant["parent"]),
        cell(&tenant["plan"]),
        limit_in_words(&tenant["rate_limit"]),
        level_in_words(&tenant["effective"]),
        moment(&tenant["suspended_at"]),
        cell(&tenant["source"]),
    ]
}

fn in_words(tenant: &Value) -> String {
    let mut fields = vec![
        ("tenant", cell(&tenant["id"])),
        ("parent", cell(&tenant["parent"])),
        ("plan", cell(&tenant["plan"])),
        ("suspended", suspended(tenant)),
        ("limit", limit_in_words(&tenant["rate_limit"])),
        ("budget", budget_in_words(tenant)),
        ("effective", level_in_words(&tenant["effective"])),
    ];
    for level in tenant["effective"]["levels"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let words = format!("{}: {}", cell(&level["tenant"]), level_in_words(level));
        fields.push(("charged to", words));
    }
    fields.extend([
        ("attributes", attributes(tenant)),
        ("source", cell(&tenant["source"])),
        ("created", moment(&tenant["created_at"])),
        ("changed", moment(&tenant["updated_at"])),
        ("version", cell(&tenant["version"])),
    ]);
    record(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_shown_with_every_level_it_is_charged_to() {
        let tenant = json!({
            "id": "acme", "parent": "partner", "plan": null,
            "rate_limit": { "sustained": { "rate": 1000, "window": "minute" }, "burst": { "capacity": 100 } },
            "effective": {
                "rate": 1000, "window_secs": 60, "burst": 100,
                "levels": [
                    { "tenant": "acme", "rate": 1000, "window_secs": 60, "burst": 100 },
                    { "tenant": "partner", "rate": 5000, "window_secs": 60, "burst": 500 },
                ],
            },
            "budget": null, "attributes": {}, "source": "directory",
            "created_at": "2026-01-02T03:04:05.678Z", "updated_at": null, "version": 3,
        });
        let expected = "\
tenant      acme
parent      partner
limit       1000/minute, burst 100
effective   1000/minute, burst 100
charged to  acme: 1000/minute, burst 100
charged to  partner: 5000/minute, burst 500
source      directory
created     2026-01-02T03:04:05Z
version     3";
        assert_eq!(in_words(&tenant), expected);
    }
}
