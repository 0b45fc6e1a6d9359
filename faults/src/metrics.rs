//! What a node says of itself.

use std::collections::HashMap;

use anyhow::{Context, Result};

use crate::client::Client;
use crate::node::Node;

/// A node's metrics at one moment, or what was added to them between two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    values: HashMap<String, f64>,
    /// Decisions that took no longer than a bound in microseconds, and longer than the one before.
    times: Vec<(u64, u64)>,
}

const BUCKET: &str = "tollward_decision_duration_seconds_bucket{le=\"";
/// Stands for no bound.
pub(crate) const ENDLESS: u64 = u64::MAX;

impl Metrics {
    pub(crate) async fn of(node: &Node) -> Result<Self> {
        Self::parse(&Client::new(node.admin).page("/metrics").await?)
    }

    fn parse(page: &str) -> Result<Self> {
        let mut metrics = Self::default();
        let mut below = 0;
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').context("a line without a value")?;
            let value: f64 = value.parse()?;
            let Some(bound) = name.strip_prefix(BUCKET) else {
                metrics.values.insert(name.to_owned(), value);
                continue;
            };
            let bound: f64 = bound.trim_end_matches("\"}").parse()?;
            let micros = if bound.is_finite() {
                (bound * 1e6).round() as u64
            } else {
                ENDLESS
            };
            metrics.times.push((micros, value as u64 - below));
            below = value as u64;
        }
        Ok(metrics)
    }

    /// What was added since `before`; gauges are as they are now.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (name, value) in &mut self.values {
            if name.ends_with("_total") {
                *value -= before.values.get(name).copied().unwrap_or_default();
            }
        }
        for ((_, count), (_, old)) in self.times.iter_mut().zip(&before.times) {
            *count -= old;
        }
        self
    }

    /// Both nodes together.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        for (name, value) in &other.values {
            *self.values.entry(name.clone()).or_default() += value;
        }
        if self.times.is_empty() {
            self.times = other.times.clone();
        } else {
            for ((_, count), (_, more)) in self.times.iter_mut().zip(&other.times) {
                *count += more;
            }
        }
        self
    }

    pub(crate) fn value(&self, name: &str) -> f64 {
        let name = format!("tollward_{name}");
        self.values.get(&name).copied().unwrap_or_default()
    }

    /// The bound in microseconds that so many of a thousand decisions kept.
    pub(crate) fn within(&self, per_mille: u64) -> u64 {
        let all: u64 = self.times.iter().map(|(_, count)| count).sum();
        let wanted = (all * per_mille).div_ceil(1000);
        let mut sum = 0;
        let reached = self.times.iter().find(|(_, count)| {
            sum += count;
            sum >= wanted
        });
        reached.map_or(ENDLESS, |(bound, _)| *bound)
    }

    /// Decisions that took longer than a bound, which has to be one of the histogram's.
    pub(crate) fn beyond(&self, micros: u64) -> u64 {
        let beyond = self.times.iter().filter(|(bound, _)| *bound > micros);
        beyond.map(|(_, count)| count).sum()
    }
}
