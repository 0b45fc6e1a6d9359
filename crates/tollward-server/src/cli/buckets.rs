use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::client::{Answer, Question};
use super::door::DoorArgs;
use super::facts::RequestArgs;
use super::say;

#[derive(Debug, Args)]
pub(super) struct Buckets {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how full buckets are
    Show(Chosen),
    /// Make buckets full: what was spent of them is forgotten
    Reset(Chosen),
}

#[derive(Debug, Args)]
struct Chosen {
    /// Buckets by their keys, as `tollward explain` prints them; in quotes, for the shell
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    door: DoorArgs,
    // Last: what follows would be under its heading.
    #[command(flatten)]
    request: RequestArgs,
}

impl Buckets {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let (chosen, reset) = match &self.action {
            Action::Show(chosen) => (chosen, false),
            Action::Reset(chosen) => (chosen, true),
        };
        let facts = chosen.facts()?;
        let door = chosen.door.door()?;
        let said = if reset {
            let body = match &chosen.keys[..] {
                [] => json!({ "facts": facts }),
                keys => json!({ "keys": keys }),
            };
            let body = serde_json::to_vec(&body)?;
            door.ask(&Question {
                method: Method::POST,
                target: "/admin/v1/buckets/reset".to_owned(),
                body,
                ..Question::default()
            })?
        } else {
            let target = format!("/admin/v1/buckets?{}", chosen.query(&facts));
            door.read(&target)?
        };
        let rows = rows(&said);
        if door.json {
            say(&said.text)?;
        } else if let Some(rows) = &rows {
            say(&table(rows))?;
        } else {
            door.refuse(&said);
        }
        Ok(match rows {
            Some(_) => ExitCode::SUCCESS,
            None => ExitCode::from(2),
        })
    }
}

impl Chosen {
    /// The facts that are given, by their names.
    fn facts(&self) -> anyhow::Result<Map<String, Value>> {
        let facts = match serde_json::to_value(&self.request)? {
            Value::Object(facts) => facts,
            _ => Map::new(),
        };
        match (self.keys.is_empty(), facts.is_empty()) {
            (true, true) => bail!(
                "which buckets? Give the KEY of one, as `tollward explain` prints it, or name a caller: \
                 --user, --tenant, --client, --api-key, --ip"
            ),
            (false, false) => bail!("give keys or the facts of a request, not both"),
            _ => Ok(facts),
        }
    }

    fn query(&self, facts: &Map<String, Value>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for key in &self.keys {
            query.append_pair("key", key);
        }
        for (name, value) in facts {
            query.append_pair(name, value.as_str().unwrap_or_default());
        }
        query.finish()
    }
}

/// One bucket as one limit sees it.
struct Row {
    key: String,
    limit: String,
    left: String,
    full: String,
}

/// The buckets of an answer; none if it is not one.
fn rows(said: &Answer) -> Option<Vec<Row>> {
    let buckets = said.json["buckets"].as_array()?;
    let of = |key: &Value| buckets.iter().filter(|it| it["key"] == *key).count();
    let row = |bucket: &Value| {
        let (key, limit) = (bucket["key"].as_str()?, bucket["limit"].as_str()?);
        // The same bucket, as one plan and another see it.
        let seen_as = if of(&bucket["key"]) > 1 { "as " } else { "" };
        let capacity = bucket["capacity"].as_u64()?;
        let (left, full) = match (
            bucket["remaining"].as_u64(),
            bucket["full_after_ms"].as_u64(),
        ) {
            (Some(left), Some(full)) => (format!("{left} of {capacity}"), duration(full)),
            _ => (format!("? of {capacity}"), "not known".to_owned()),
        };
        Some(Row {
            key: key.to_owned(),
            limit: format!("{seen_as}{limit}"),
            left,
            full,
        })
    };
    buckets.iter().map(row).collect()
}

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no limit concerns this request".to_owned();
    }
    let heads = Row {
        key: "KEY".to_owned(),
        limit: "LIMIT".to_owned(),
        left: "REMAINING".to_owned(),
        full: "FULL AGAIN IN".to_owned(),
    };
    let all = || std::iter::once(&heads).chain(rows);
    let width = |cell: fn(&Row) -> &String| all().map(|row| cell(row).len()).max().unwrap_or(0);
    let (key, limit, left) = (
        width(|row| &row.key),
        width(|row| &row.limit),
        width(|row| &row.left),
    );
    let mut text = String::new();
    for row in all() {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:key$}  {:limit$}  {:left$}  {}",
            row.key, row.limit, row.left, row.full
        );
    }
    text.truncate(text.trim_end().len());
    text
}

/// How long, for people: in the two largest units, rounded up.
fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    if ms == 0 {
        return "full".to_owned();
    }
    if ms < 10_000 {
        let tenths = ms.div_ceil(100);
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    let secs = ms.div_ceil(1000);
    let mut units = UNITS.iter().skip_while(|(unit, _)| secs < *unit);
    let Some((large, name)) = units.next() else {
        return format!("{secs} s");
    };
    let Some((small, small_name)) = units.next() else {
        return format!("{secs} s");
    };
    let rest = (secs % large).div_ceil(*small);
    match rest {
        0 => format!("{} {name}", secs / large),
        rest if rest * small == *large => format!("{} {name}", secs / large + 1),
        rest => format!("{} {name} {rest} {small_name}", secs / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_two_units() {
        for (ms, text) in [
            (0, "full"),
            (1, "0.1 s"),
            (500, "0.5 s"),
            (501, "0.6 s"),
            (9_999, "10.0 s"),
            (10_000, "10 s"),
            (10_001, "11 s"),
            (59_001, "1 min"),
            (60_000, "1 min"),
            (61_500, "1 min 2 s"),
            (3_599_999, "1 h"),
            (3_600_001, "1 h 1 min"),
            (7_199_000, "2 h"),
            (90_000_000, "1 d 1 h"),
            (86_399_000 * 2, "2 d"),
            (u64::MAX, "213503982334 d 15 h"),
        ] {
            assert_eq!(duration(ms), text, "{ms}");
        }
    }
}
