use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::door::DoorArgs;
use super::list::{LimitArg, List};
use super::table::{Table, cell, moment};
use super::when::When;
use super::{complain, say};

/// What tenants used: requests, refusals, tokens and errors of the upstream, by tenant, plan and route.
#[derive(Debug, Args)]
pub(super) struct Usage {
    /// How much time a row is of
    #[arg(long, value_enum, default_value_t = Granularity::Hour)]
    by: Granularity,
    /// Only of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only of this plan
    #[arg(long)]
    plan: Option<String>,
    /// Only on this route, as it is written in the configuration
    #[arg(long)]
    route: Option<String>,
    /// Only from then on: a moment, a day, or how long ago; an hour, a day or 31 days, as the rows are minutes,
    /// hours or days, unless told otherwise
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    since: Option<When>,
    /// Only what begins before then
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    until: Option<When>,
    #[command(flatten)]
    limit: LimitArg,
    // Last: what follows would be under its heading.
    #[command(flatten)]
    door: DoorArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Granularity {
    Minute,
    Hour,
    Day,
}

impl Granularity {
    fn word(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// How much of the past is worth a look.
    fn recent(self) -> &'static str {
        match self {
            Self::Minute => "1h",
            Self::Hour => "24h",
            Self::Day => "31d",
        }
    }
}

const HEADS: [&str; 8] = [
    "FROM",
    "TENANT",
    "PLAN",
    "ROUTE",
    ">REQUESTS",
    ">REFUSALS",
    ">TOKENS",
    ">ERRORS",
];
const COUNTS: [&str; 4] = ["requests", "refusals", "tokens", "errors"];

impl Usage {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let door = self.door.door()?;
        let since = match &self.since {
            Some(since) => since.clone(),
            None => When::parse(self.by.recent()).map_err(anyhow::Error::msg)?,
        };
        let (since, until) = (since.moment(), self.until.as_ref().map(When::moment));
        let list = List {
            path: "/admin/v1/usage",
            filters: &[
                ("granularity", Some(self.by.word())),
                ("tenant", self.tenant.as_deref()),
                ("plan", self.plan.as_deref()),
                ("route", self.route.as_deref()),
                ("since", Some(&since)),
                ("until", until.as_deref()),
            ],
            limit: &self.limit,
            nothing: "nothing was used",
        };
        let mut table = Table::new(&HEADS);
        let mut totals = [0_u64; COUNTS.len()];
        let listed = list.print(&door, &mut table, |usage| row(usage, &mut totals))?;
        if listed.is_table {
            let mut foot = ["TOTAL", "", "", ""].map(str::to_owned).to_vec();
            foot.extend(totals.map(|total| total.to_string()));
            say(&table.page(&[foot]))?;
            if listed.has_more {
                complain("these are the oldest rows, and the total is theirs");
            }
        }
        Ok(listed.code)
    }
}

fn row(usage: &Value, totals: &mut [u64; COUNTS.len()]) -> Vec<String> {
    let mut row = vec![moment(&usage["start"])];
    row.extend(["tenant", "plan", "route"].map(|name| cell(&usage[name])));
    for (name, total) in COUNTS.into_iter().zip(totals) {
        *total = total.saturating_add(usage[name].as_u64().unwrap_or(0));
        row.push(cell(&usage[name]));
    }
    row
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_add_up() {
        let mut totals = [1, 0, u64::MAX, 0];
        let usage = json!({
            "start": "2026-01-02T03:00:00.000Z", "tenant": "acme", "plan": null, "route": "/a",
            "requests": 5, "refusals": 2, "tokens": 3, "errors": 0,
        });
        let expected = ["2026-01-02T03:00:00Z", "acme", "", "/a", "5", "2", "3", "0"];
        assert_eq!(row(&usage, &mut totals), expected);
        assert_eq!(totals, [6, 2, u64::MAX, 0]);
    }
}
