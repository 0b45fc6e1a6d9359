use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use tollward_policy::{ChargeExplanation, Explanation, StrategyExplanation};

use super::facts::FactArgs;
use super::{ConfigArg, say};

#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    facts: FactArgs,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let compiled = self.config.source().load()?;
        let facts = self.facts.facts();
        let explanation = compiled.policy.request(&facts)?.explain();
        say(&if self.json {
            serde_json::to_string_pretty(&explanation)?
        } else {
            in_words(&explanation)?
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn in_words(explanation: &Explanation) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let found = |what: &Option<String>, from: &Option<String>| match (what, from) {
        (Some(what), Some(from)) => format!("{what}  ({from})"),
        _ => "none".to_owned(),
    };
    writeln!(
        text,
        "route      {}",
        found(&explanation.route, &explanation.route_from)
    )?;
    writeln!(
        text,
        "plan       {}",
        found(&explanation.plan, &explanation.plan_from)
    )?;
    if let Some(upstream) = &explanation.upstream {
        writeln!(text, "upstream   {upstream}")?;
    }
    write!(text, "treatment  {}", explanation.treatment)?;
    if let Some(reason) = &explanation.reason {
        write!(text, ": {reason}")?;
    }
    if explanation.treatment == "limited" && explanation.charges.is_empty() {
        write!(text, ", but no limit applies: always allowed")?;
    }
    for charge in &explanation.charges {
        write!(text, "\n\n")?;
        write_charge(&mut text, charge)?;
    }
    Ok(text)
}

fn write_charge(text: &mut String, charge: &ChargeExplanation) -> std::fmt::Result {
    let shadow = if charge.shadow {
        "  (shadow: never refuses)"
    } else {
        ""
    };
    writeln!(text, "{}{shadow}", charge.name)?;
    writeln!(text, "  key       {}", charge.key)?;
    let scope: Vec<String> = charge
        .scope
        .iter()
        .map(|part| match (part.word, part.by) {
            ("global", _) => "global".to_owned(),
            (word, "unknown") => format!("{word}: nothing is known, one bucket for all such"),
            (word, by) if word != by => {
                format!("{word}: not known, {by} {:?} stands in", part.value)
            }
            (word, _) => format!("{word} {:?}", part.value),
        })
        .collect();
    writeln!(text, "  scope     {}", scope.join(", "))?;
    let rate = &charge.rate;
    let per = charge.window_secs;
    writeln!(
        text,
        "  rate      {} per {per} s  ({})",
        rate.value, rate.from
    )?;
    let capacity = &charge.capacity;
    writeln!(text, "  capacity  {}  ({})", capacity.value, capacity.from)?;
    let factors: Vec<String> = charge
        .cost_factors
        .iter()
        .map(|factor| format!("{} ({})", factor.value, factor.from))
        .collect();
    writeln!(
        text,
        "  cost      {} = {}",
        charge.cost,
        factors.join(" × ")
    )?;
    match &charge.strategy {
        Some(StrategyExplanation::Queue {
            max_wait_ms,
            max_queue,
        }) => writeln!(
            text,
            "  beyond it  waits, at most {max_wait_ms} ms and {max_queue} at once"
        )?,
        Some(StrategyExplanation::Degrade {
            upstream: Some(upstream),
        }) => writeln!(text, "  beyond it  passes uncharged, to {upstream}")?,
        Some(StrategyExplanation::Degrade { upstream: None }) => {
            writeln!(text, "  beyond it  passes uncharged, marked")?;
        }
        None => {}
    }
    if let Some(on_failure) = charge.on_failure {
        writeln!(text, "  without Redis  {on_failure}")?;
    }
    write!(text, "  algorithm {}", charge.algorithm)
}
