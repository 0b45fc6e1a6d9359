//! A tenant's limit: as flags, and as it is shown.

use std::fs;
use std::io::{Read, read_to_string};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Number, Value, json};

use super::table::cell;
use super::when::window;

/// A limit, as it is to be.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limit")]
pub(super) struct RateLimitArgs {
    /// The limit as JSON, like `rate_limit` of the configuration file; @FILE reads a file, @- standard input.
    /// A change leaves alone what is not in it
    #[arg(
        long,
        value_name = "JSON",
        conflicts_with_all = ["rate", "burst", "sharing", "budget_mode", "budget_total", "overcommit"]
    )]
    rate_limit: Option<String>,
    /// Tokens per window: 1000/minute, 10/second, 500/30s
    #[arg(long, value_name = "N/WINDOW", value_parser = sustained, allow_hyphen_values = true)]
    rate: Option<Value>,
    /// The most tokens at once
    #[arg(long, value_name = "N")]
    burst: Option<u32>,
    /// Whether the limit binds the tenants below
    #[arg(long, value_parser = ["inherit", "enforce", "private"])]
    sharing: Option<String>,
    /// How the limit is divided among the tenants right below; `allocated` if a total is given
    #[arg(long, value_parser = ["unlimited", "allocated", "shared"])]
    budget_mode: Option<String>,
    /// What there is to be given to the tenants right below
    #[arg(long, value_name = "N")]
    budget_total: Option<u32>,
    /// How many times the total may be given, 1.0 to 2.0
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    overcommit: Option<Number>,
}

/// The longest limit, in bytes of JSON: the server takes no more.
const MAX_BYTES: u64 = 1024 * 1024;

impl RateLimitArgs {
    /// The limit that the flags tell, if they tell any.
    pub(super) fn limit(&self) -> anyhow::Result<Option<Value>> {
        if let Some(text) = &self.rate_limit {
            return self.written(text).map(Some);
        }
        let mut limit = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                limit.insert(name.to_owned(), value);
            }
        };
        put("sustained", self.rate.clone());
        put(
            "burst",
            self.burst.map(|capacity| json!({ "capacity": capacity })),
        );
        put("sharing", self.sharing.clone().map(Value::from));
        put("budget", self.budget());
        Ok((!limit.is_empty()).then_some(Value::Object(limit)))
    }

    /// The same for a tenant that has none yet.
    pub(super) fn new_limit(&self) -> anyhow::Result<Option<Value>> {
        let limit = self.limit()?;
        if self.rate.is_none() && self.rate_limit.is_none() && limit.is_some() {
            bail!("a limit needs a rate: give --rate N/WINDOW, such as --rate 1000/minute");
        }
        Ok(limit)
    }

    fn budget(&self) -> Option<Value> {
        let mut budget = Map::new();
        if let Some(total) = self.budget_total {
            budget.insert("mode".to_owned(), "allocated".into());
            budget.insert("total".to_owned(), total.into());
        }
        if let Some(mode) = &self.budget_mode {
            budget.insert("mode".to_owned(), mode.as_str().into());
        }
        if let Some(ratio) = &self.overcommit {
            budget.insert("overcommit_ratio".to_owned(), Value::Number(ratio.clone()));
        }
        (!budget.is_empty()).then_some(Value::Object(budget))
    }

    fn written(&self, text: &str) -> anyhow::Result<Value> {
        let text = match text.strip_prefix('@') {
            Some("-") => {
                read_to_string(std::io::stdin().take(MAX_BYTES)).context("standard input")?
            }
            Some(file) => fs::File::open(file)
                .and_then(|file| read_to_string(file.take(MAX_BYTES)))
                .with_context(|| format!("--rate-limit: {file}"))?,
            None => text.to_owned(),
        };
        match serde_json::from_str(&text).context("--rate-limit is not JSON")? {
            limit @ Value::Object(_) => Ok(limit),
            _ => bail!(
                "--rate-limit is not a JSON object such as {{\"sustained\": {{\"rate\": 100}}}}"
            ),
        }
    }
}

/// Reads `1000/minute` as what the API calls `sustained`.
fn sustained(text: &str) -> Result<Value, String> {
    let (rate, window) = text.split_once('/').unwrap_or((text, ""));
    let window = match window {
        "s" | "sec" => "second",
        "m" | "min" => "minute",
        "h" => "hour",
        "d" => "day",
        window => window,
    };
    match rate.parse::<u32>() {
        Ok(rate) if !window.is_empty() => Ok(json!({ "rate": rate, "window": window })),
        _ => Err(
            "write tokens and a window, which is second, minute, hour, day or a span: 1000/minute, 500/30s"
                .to_owned(),
        ),
    }
}

/// Keeps the decimals that were written.
fn ratio(text: &str) -> Result<Number, String> {
    serde_json::from_str(text).map_err(|_| "write a number such as 1.2".to_owned())
}

/// A limit in the language of the file, in one line.
pub(super) fn limit_in_words(limit: &Value) -> String {
    let sustained = &limit["sustained"];
    if sustained["rate"].is_null() {
        return String::new();
    }
    let per = match sustained["window"].as_str() {
        Some(text) => text
            .strip_suffix('s')
            .and_then(|secs| secs.parse().ok())
            .map_or_else(|| text.to_owned(), window),
        None => "second".to_owned(),
    };
    let mut words = vec![format!("{}/{per}", sustained["rate"])];
    let capacity = &limit["burst"]["capacity"];
    if !capacity.is_null() {
        words.push(format!("burst {capacity}"));
    }
    for name in ["algorithm", "sharing"] {
        if let Some(word) = limit[name].as_str() {
            words.push(word.to_owned());
        }
    }
    words.join(", ")
}

/// What a tenant says of its budget; the server tells what it makes of it.
pub(super) fn budget_in_words(tenant: &Value) -> String {
    let given = &tenant["budget"];
    let mode = cell(&tenant["rate_limit"]["budget"]["mode"]);
    if given.is_null() {
        return mode;
    }
    let per = window(given["window_secs"].as_u64().unwrap_or(1));
    format!(
        "{} of {} × {} given to children, {} free, all per {per}",
        given["sum"], given["budget"], given["ratio"], given["free"]
    )
}

/// What limits a tenant at one level.
pub(super) fn level_in_words(level: &Value) -> String {
    match (level["rate"].as_u64(), level["window_secs"].as_u64()) {
        (Some(rate), Some(secs)) => {
            format!("{rate}/{}, burst {}", window(secs), level["burst"])
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        limit: RateLimitArgs,
    }

    fn limit(args: &[&str]) -> anyhow::Result<Option<Value>> {
        let args = std::iter::once("x").chain(args.iter().copied());
        Flags::try_parse_from(args)?.limit.new_limit()
    }

    #[test]
    fn flags_are_a_limit_of_the_file() {
        assert_eq!(limit(&[]).unwrap(), None);
        let rate = limit(&["--rate", "1000/min"]).unwrap().unwrap();
        assert_eq!(
            rate,
            json!({ "sustained": { "rate": 1000, "window": "minute" } })
        );
        let flags = [
            "--rate",
            "10/30s",
            "--burst",
            "3",
            "--sharing",
            "enforce",
            "--budget-total",
            "5000",
            "--overcommit",
            "1.250",
        ];
        let all = limit(&flags).unwrap().unwrap();
        assert_eq!(all["budget"]["mode"], "allocated");
        assert_eq!(all["budget"]["overcommit_ratio"].to_string(), "1.25");
        assert_eq!(all["burst"], json!({ "capacity": 3 }));
        assert_eq!(all["sustained"]["window"], "30s");
        let shared = limit(&["--rate", "1/s", "--budget-mode", "shared"])
            .unwrap()
            .unwrap();
        assert_eq!(shared["budget"], json!({ "mode": "shared" }));
        let text = r#"{"sustained":{"rate":5}}"#;
        assert_eq!(
            limit(&["--rate-limit", text]).unwrap().unwrap().to_string(),
            text
        );
    }

    #[test]
    fn what_is_no_limit_is_told_before_anybody_is_asked() {
        for (args, words) in [
            (&["--rate", "1000"][..], "1000/minute"),
            (&["--rate", "/minute"], "1000/minute"),
            (&["--rate", "many/minute"], "1000/minute"),
            (&["--rate", "-1/minute"], "--rate"),
            (&["--burst", "5"], "--rate"),
            (&["--overcommit", "lots", "--rate", "1/s"], "1.2"),
            (&["--sharing", "all", "--rate", "1/s"], "enforce"),
            (&["--rate-limit", "{}", "--burst", "5"], "--burst"),
            (&["--rate-limit", "{rate: 5}"], "not JSON"),
            (&["--rate-limit", "5"], "JSON object"),
            (
                &["--rate-limit", "@/nowhere/limit.json"],
                "/nowhere/limit.json",
            ),
        ] {
            let error = format!("{:#}", limit(args).unwrap_err());
            assert!(error.contains(words), "{args:?}: {error}");
        }
    }

    #[test]
    fn limits_are_told_as_they_are_written() {
        for (limit, words) in [
            (json!(null), ""),
            (json!({ "sustained": { "rate": 5 } }), "5/second"),
            (
                json!({ "sustained": { "rate": 5, "window": "60s" } }),
                "5/minute",
            ),
            (
                json!({ "sustained": { "rate": 5, "window": "hour" }, "burst": { "capacity": 9 }, "sharing": "enforce" }),
                "5/hour, burst 9, enforce",
            ),
            (
                json!({ "algorithm": "sliding_window", "sustained": { "rate": 5, "window": "5m" } }),
                "5/5m, sliding_window",
            ),
        ] {
            assert_eq!(limit_in_words(&limit), words);
        }
        let tenant = json!({ "budget": { "sum": 3000, "budget": 5000, "ratio": 1.5, "free": 4500, "window_secs": 60 } });
        let words = "3000 of 5000 × 1.5 given to children, 4500 free, all per minute";
        assert_eq!(budget_in_words(&tenant), words);
    }
}
