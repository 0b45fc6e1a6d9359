use std::collections::{BTreeMap, BTreeSet};

use tollgate_policy::{Boost, Boostee, Change};

/// Boosts that have not ended. Of several for one, the largest counts.
#[derive(Debug, Default)]
pub(super) struct Boosts {
    all: BTreeMap<String, Held>,
    of: BTreeMap<Boostee, BTreeSet<(Boost, String)>>,
    ends: BTreeSet<(i64, String)>,
}

#[derive(Debug)]
struct Held {
    who: Boostee,
    boost: Boost,
    ends_at: i64,
}

impl Boosts {
    /// Takes a boost, in place of the one of the same id.
    pub(super) fn put(
        &mut self,
        id: &str,
        who: Boostee,
        boost: Boost,
        ends_at: i64,
        changes: &mut Vec<Change>,
    ) {
        self.remove(id, changes);
        self.of
            .entry(who.clone())
            .or_default()
            .insert((boost, id.to_owned()));
        self.ends.insert((ends_at, id.to_owned()));
        changes.push(self.now(&who));
        let held = Held {
            who,
            boost,
            ends_at,
        };
        self.all.insert(id.to_owned(), held);
    }

    pub(super) fn remove(&mut self, id: &str, changes: &mut Vec<Change>) {
        let Some(held) = self.all.remove(id) else {
            return;
        };
        self.ends.remove(&(held.ends_at, id.to_owned()));
        if let Some(boosts) = self.of.get_mut(&held.who) {
            boosts.remove(&(held.boost, id.to_owned()));
            if boosts.is_empty() {
                self.of.remove(&held.who);
            }
        }
        changes.push(self.now(&held.who));
    }

    /// Those that have ended are no more.
    pub(super) fn end(&mut self, now_ms: i64, changes: &mut Vec<Change>) {
        while let Some((ends_at, id)) = self.ends.first().cloned()
            && ends_at <= now_ms
        {
            self.remove(&id, changes);
        }
    }

    /// What those have now who have a boost here, but not in `new`.
    pub(super) fn missing_in(&self, new: &Self, changes: &mut Vec<Change>) {
        let gone = self.of.keys().filter(|who| !new.of.contains_key(who));
        changes.extend(gone.map(|who| new.now(who)));
    }

    fn now(&self, who: &Boostee) -> Change {
        let boosts = self.of.get(who);
        let largest = boosts.and_then(|boosts| boosts.last());
        Change::Boost {
            who: who.clone(),
            boost: largest.map(|(boost, _)| *boost),
        }
    }
}
