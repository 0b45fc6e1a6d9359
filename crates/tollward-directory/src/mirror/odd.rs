use std::collections::BTreeMap;

use tracing::warn;

/// So many are listed.
const MOST: usize = 100;

/// Rows that make no sense.
#[derive(Clone, Debug, Default)]
pub(super) struct Odd {
    listed: BTreeMap<(&'static str, String), String>,
    count: u64,
}

impl Odd {
    pub(super) fn add(&mut self, kind: &'static str, id: &str, why: &str) {
        let sentence = format!("the {kind} `{id}` of the directory makes no sense: {why}");
        warn!("{sentence}");
        self.count += 1;
        let name = (kind, id.to_owned());
        if self.listed.len() < MOST || self.listed.contains_key(&name) {
            self.listed.insert(name, sentence);
        }
    }

    pub(super) fn lists(&self, kind: &'static str, id: &str) -> bool {
        !self.listed.is_empty() && self.listed.contains_key(&(kind, id.to_owned()))
    }

    /// A row that made no sense has become another or is gone.
    pub(super) fn remove(&mut self, kind: &'static str, id: &str) {
        self.listed.remove(&(kind, id.to_owned()));
    }

    /// All there ever were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn list(&self) -> Vec<String> {
        self.listed.values().cloned().collect()
    }

    /// There were more, which are listed no longer.
    pub(super) fn count_also(&mut self, count: u64) {
        self.count += count;
    }
}
