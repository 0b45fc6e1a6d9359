use std::process::ExitCode;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::client::Answer;
use super::door::{Door, DoorArgs, OnceArg, ReasonArg, VersionArg, code, path};
use super::list::{LimitArg, List};
use super::table::{Table, cell, moment, record, suspended};
use super::when::Span;
use super::{complain, say};

/// API keys: whom they prove, and until when.
#[derive(Debug, Args)]
pub(super) struct Keys {
    #[command(flatten)]
    door: DoorArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List keys, those of the configuration file too
    List {
        /// Only keys of this tenant
        #[arg(long)]
        tenant: Option<String>,
        /// Only keys of this user
        #[arg(long)]
        user: Option<String>,
        /// Also keys that were revoked
        #[arg(long)]
        revoked: bool,
        #[command(flatten)]
        limit: LimitArg,
    },
    /// Show a key; its secret was shown when it was made
    Show {
        #[command(flatten)]
        key: KeyArg,
    },
    /// Make a key, and print its secret, this once
    Create {
        #[command(flatten)]
        owner: OwnerArgs,
        #[command(flatten)]
        fields: Fields,
        #[command(flatten)]
        secret: SecretArg,
        #[command(flatten)]
        once: OnceArg,
    },
    /// Change a key; what is not mentioned stays as it is
    Change {
        #[command(flatten)]
        key: KeyArg,
        #[command(flatten)]
        fields: Fields,
        /// Let it have no plan of its own
        #[arg(long, conflicts_with = "plan")]
        no_plan: bool,
        /// Let it never expire
        #[arg(long, conflicts_with_all = ["expires_at", "expires_in"])]
        no_expiry: bool,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Make a key that replaces another, and print its secret, this once
    Rotate {
        #[command(flatten)]
        key: KeyArg,
        /// How long the old key stays valid: 0s, 90m, 24h, 7d
        #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = Span::parse)]
        overlap: Span,
        #[command(flatten)]
        secret: SecretArg,
        #[command(flatten)]
        version: VersionArg,
        #[command(flatten)]
        once: OnceArg,
    },
    /// Refuse its requests until it is resumed (403); nothing is deleted
    Suspend {
        #[command(flatten)]
        key: KeyArg,
        #[command(flatten)]
        reason: ReasonArg,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Accept its requests again
    Resume {
        #[command(flatten)]
        key: KeyArg,
        #[command(flatten)]
        version: VersionArg,
    },
    /// Revoke a key, at once and for ever
    Revoke {
        #[command(flatten)]
        key: KeyArg,
        #[command(flatten)]
        version: VersionArg,
    },
}

#[derive(Debug, Args)]
struct KeyArg {
    /// The key's id, as `tollward keys list` prints it; never the key itself
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, Args)]
struct OwnerArgs {
    /// The tenant that it proves
    #[arg(long)]
    tenant: Option<String>,
    /// The user that it proves
    #[arg(long)]
    user: Option<String>,
    /// The client that it proves
    #[arg(long)]
    client: Option<String>,
}

#[derive(Debug, Args)]
struct Fields {
    /// What people call it
    #[arg(long)]
    name: Option<String>,
    /// A plan that goes before the user's and the tenant's
    #[arg(long)]
    plan: Option<String>,
    /// When it expires, such as 2027-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT", value_parser = NonEmptyStringValueParser::new())]
    expires_at: Option<String>,
    /// How long it is valid from now on: 12h, 90d
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, conflicts_with = "expires_at")]
    expires_in: Option<Span>,
}

#[derive(Debug, Args)]
struct SecretArg {
    /// Print nothing but the secret on standard output, for scripts
    #[arg(long, conflicts_with = "json")]
    secret_only: bool,
}

const PATH: &str = "/admin/v1/keys";
const HEADS: [&str; 10] = [
    "ID",
    "NAME",
    "PREFIX",
    "TENANT",
    "USER",
    "CLIENT",
    "PLAN",
    "EXPIRES",
    "SUSPENDED",
    "LAST USED",
];

impl KeyArg {
    /// Refuses the key itself, without repeating it: it would be in logs of whatever lies between.
    fn path(&self) -> anyhow::Result<String> {
        if self.id.starts_with("tw_") {
            bail!("this is a key, not its id; `tollward keys list` shows ids, and how keys begin");
        }
        Ok(path("keys", &self.id))
    }
}

impl OwnerArgs {
    fn document(&self) -> anyhow::Result<Map<String, Value>> {
        let given = [
            ("tenant", &self.tenant),
            ("user", &self.user),
            ("client", &self.client),
        ];
        let given = given.into_iter();
        let given: Map<String, Value> = given
            .filter_map(|(name, value)| Some((name.to_owned(), value.as_deref()?.into())))
            .collect();
        if given.is_empty() {
            bail!("whose key? Give --tenant, --user or --client");
        }
        Ok(given)
    }
}

impl Fields {
    /// Those that are given.
    fn document(&self) -> Map<String, Value> {
        let ends = self.expires_in.as_ref().map(Span::end);
        let given = [
            ("name", self.name.clone()),
            ("plan", self.plan.clone()),
            ("expires_at", self.expires_at.clone().or(ends)),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value?.into())))
            .collect()
    }
}

impl Keys {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let door = self.door.door()?;
        let said = match &self.action {
            Action::List {
                tenant,
                user,
                revoked,
                limit,
            } => return list(&door, tenant.as_deref(), user.as_deref(), *revoked, limit),
            Action::Show { key } => door.read(&key.path()?)?,
            Action::Create {
                owner,
                fields,
                secret,
                once,
            } => {
                let mut body = owner.document()?;
                body.extend(fields.document());
                let said = door.create(PATH, &Value::Object(body), once, None)?;
                return secret.show(&door, &said);
            }
            Action::Change {
                key,
                fields,
                no_plan,
                no_expiry,
                version,
            } => {
                let mut patch = fields.document();
                for (name, is_gone) in [("plan", no_plan), ("expires_at", no_expiry)] {
                    if *is_gone {
                        patch.insert(name.to_owned(), Value::Null);
                    }
                }
                if patch.is_empty() {
                    bail!(
                        "nothing to change: give --name, --plan, --expires-at, --expires-in, --no-plan or --no-expiry"
                    );
                }
                let patch = Value::Object(patch);
                door.change(Method::PATCH, &key.path()?, "", Some(&patch), version)?
            }
            Action::Rotate {
                key,
                overlap,
                secret,
                version,
                once,
            } => {
                let path = key.path()?;
                let tag = match door.tag(&path, version)? {
                    Ok(tag) => tag,
                    Err(refusal) => return door.show(&refusal, in_words),
                };
                let target = format!("{path}/rotate");
                let body = json!({ "overlap": overlap.text });
                let said = door.create(&target, &body, once, Some(&tag))?;
                return secret.show(&door, &said);
            }
            Action::Suspend {
                key,
                reason,
                version,
            } => door.suspend(&key.path()?, reason, version)?,
            Action::Resume { key, version } => door.resume(&key.path()?, version)?,
            Action::Revoke { key, version } => {
                let said = door.change(Method::POST, &key.path()?, "/revoke", None, version)?;
                return door.show(&said, |key| {
                    let (id, at) = (cell(&key["id"]), moment(&key["revoked_at"]));
                    format!("revoked key {id} at {at}")
                });
            }
        };
        door.show(&said, in_words)
    }
}

impl SecretArg {
    /// Shows a key that was just made.
    fn show(&self, door: &Door, said: &Answer) -> anyhow::Result<ExitCode> {
        if door.json || !said.status.is_success() {
            return door.show(said, in_words);
        }
        let words = in_words(&said.json);
        let Some(secret) = said.json["secret"].as_str() else {
            complain(&words);
            let id = cell(&said.json["id"]);
            bail!(
                "the key was made before, and its secret was shown then or lost on its way; to get another: \
                 tollward keys rotate {id} --overlap 0s"
            );
        };
        if self.secret_only {
            complain(&words);
            say(secret)?;
        } else {
            say(&format!("{words}\n\n{secret}"))?;
            complain("this is the key itself; it is not shown again");
        }
        door.warn(said);
        Ok(code(said.status))
    }
}

fn list(
    door: &Door,
    tenant: Option<&str>,
    user: Option<&str>,
    revoked: bool,
    limit: &LimitArg,
) -> anyhow::Result<ExitCode> {
    let list = List {
        path: PATH,
        filters: &[
            ("tenant", tenant),
            ("user", user),
            ("revoked", revoked.then_some("true")),
        ],
        limit,
        nothing: "no keys",
    };
    let mut heads = HEADS.to_vec();
    if revoked {
        heads.push("REVOKED");
    }
    let listed = list.print(door, &mut Table::new(&heads), |key| {
        let texts = ["id", "name", "prefix", "tenant", "user", "client", "plan"];
        let mut row: Vec<String> = texts.iter().map(|name| cell(&key[*name])).collect();
        row.extend(["expires_at", "suspended_at", "last_used_at"].map(|name| moment(&key[name])));
        if revoked {
            row.push(moment(&key["revoked_at"]));
        }
        row
    })?;
    Ok(listed.code)
}

fn in_words(key: &Value) -> String {
    let replaced = &key["replaced"];
    let replaces = match replaced["expires_at"].as_str() {
        Some(_) => format!(
            "{}, which ends at {}",
            cell(&key["replaces"]),
            moment(&replaced["expires_at"])
        ),
        None => cell(&key["replaces"]),
    };
    record(&[
        ("key", cell(&key["id"])),
        ("name", cell(&key["name"])),
        ("prefix", cell(&key["prefix"])),
        ("tenant", cell(&key["tenant"])),
        ("user", cell(&key["user"])),
        ("client", cell(&key["client"])),
        ("plan", cell(&key["plan"])),
        ("expires", moment(&key["expires_at"])),
        ("suspended", suspended(key)),
        ("revoked", moment(&key["revoked_at"])),
        ("last used", moment(&key["last_used_at"])),
        ("replaces", replaces),
        ("created", moment(&key["created_at"])),
        ("version", cell(&key["version"])),
    ])
}
