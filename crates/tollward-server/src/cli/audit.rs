use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::door::DoorArgs;
use super::list::{LimitArg, List};
use super::table::{Table, cell, moment};
use super::when::When;

/// The audit trail: who changed what, and who was refused.
#[derive(Debug, Args)]
pub(super) struct Audit {
    #[command(flatten)]
    door: DoorArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List events, the newest first
    List {
        /// Only events of this name, such as rate_limit_exceeded or tenant_created
        #[arg(long)]
        event: Option<String>,
        /// Only what this one did, such as admin
        #[arg(long)]
        actor: Option<String>,
        /// Only what concerns this one, such as tenant:acme or user:alice
        #[arg(long)]
        identifier: Option<String>,
        /// Only from then on: a moment, a day, or how long ago, such as 15m
        #[arg(long, value_name = "WHEN", value_parser = When::parse)]
        since: Option<When>,
        /// Only before then
        #[arg(long, value_name = "WHEN", value_parser = When::parse)]
        until: Option<When>,
        #[command(flatten)]
        limit: LimitArg,
    },
}

impl Audit {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let door = self.door.door()?;
        let Action::List {
            event,
            actor,
            identifier,
            since,
            until,
            limit,
        } = &self.action;
        let (since, until) = (
            since.as_ref().map(When::moment),
            until.as_ref().map(When::moment),
        );
        let list = List {
            path: "/admin/v1/audit",
            filters: &[
                ("event", event.as_deref()),
                ("actor", actor.as_deref()),
                ("identifier", identifier.as_deref()),
                ("since", since.as_deref()),
                ("until", until.as_deref()),
            ],
            limit,
            nothing: "no events",
        };
        let mut table = Table::new(&["AT", "EVENT", "WHOM", ">COUNT", "BY", "WHAT"]);
        Ok(list.print(&door, &mut table, row)?.code)
    }
}

fn row(event: &Value) -> Vec<String> {
    let by = match (cell(&event["actor"]), cell(&event["address"])) {
        (actor, address) if actor.is_empty() || address.is_empty() => actor + &address,
        (actor, address) => format!("{actor} from {address}"),
    };
    vec![
        moment(&event["at"]),
        cell(&event["event"]),
        cell(&event["identifier"]),
        cell(&event["count"]),
        by,
        what(event),
    ]
}

/// The limit and the route of a refusal, or what a change has changed.
fn what(event: &Value) -> String {
    if let (Some(before), Some(after)) = (event["before"].as_object(), event["after"].as_object()) {
        return changes(before, after).join(", ");
    }
    match (cell(&event["limit"]), cell(&event["route"])) {
        (limit, route) if limit.is_empty() || route.is_empty() => limit + &route,
        (limit, route) => format!("{limit} on {route}"),
    }
}

fn changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let changed = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    changed
        .map(|name| change(name, before.get(name), after.get(name)))
        .collect()
}

/// What has parts is only named: `--json` shows it all.
fn change(name: &str, before: Option<&Value>, after: Option<&Value>) -> String {
    let told = |value: Option<&Value>| match value.unwrap_or(&Value::Null) {
        Value::Object(_) | Value::Array(_) => None,
        Value::Null => Some("nothing".to_owned()),
        value => Some(cell(value)),
    };
    match (told(before), told(after)) {
        (Some(before), Some(after)) => format!("{name}: {before} → {after}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_told_by_what_has_changed() {
        let event = json!({
            "at": "2026-01-02T03:04:05.678Z", "event": "tenant_changed", "identifier": "tenant:acme", "count": 1,
            "actor": "admin", "address": "127.0.0.1",
            "before": { "parent": "system", "plan": null, "rate_limit": { "a": 1 }, "attributes": {} },
            "after": { "parent": "system", "plan": "pro", "rate_limit": { "a": 2 }, "attributes": {} },
        });
        let expected = [
            "2026-01-02T03:04:05Z",
            "tenant_changed",
            "tenant:acme",
            "1",
            "admin from 127.0.0.1",
            "plan: nothing → pro, rate_limit",
        ];
        assert_eq!(row(&event), expected);
    }

    #[test]
    fn refusals_are_told_by_limit_and_route() {
        let event = json!({ "limit": "plan:free", "route": "/a/**", "count": 12, "actor": null, "before": null });
        assert_eq!(what(&event), "plan:free on /a/**");
        assert_eq!(
            what(&json!({ "limit": "limit:all", "route": null })),
            "limit:all"
        );
        assert_eq!(what(&json!({})), "");
        assert_eq!(row(&event)[4], "");
    }
}
