use std::collections::{BTreeMap, BTreeSet};

use tollward_policy::{Boost, Boostee, Change};

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

    /// What all have by `new` who have a boost there or here. Also those whose boost is in force already: one
    /// of here may have ended meanwhile, and taken it with it.
    pub(super) fn renew(&self, new: &Self, changes: &mut Vec<Change>) {
        let all: BTreeSet<_> = self.of.keys().chain(new.of.keys()).collect();
        changes.extend(all.into_iter().map(|who| new.now(who)));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A tick may have ended an old boost of somebody whose new one was put in force just before.
    #[test]
    fn whoever_has_a_boost_after_a_load_is_told_of_it() {
        let who = |name: &str| Boostee::Tenant(name.into());
        let boost = |factor| Boost::new(factor).unwrap();
        let (mut old, mut new) = (Boosts::default(), Boosts::default());
        let mut changes = Vec::new();
        old.put("b1", who("both"), boost(2000), 10, &mut changes);
        old.put("b2", who("gone"), boost(2000), 10, &mut changes);
        new.put("b3", who("both"), boost(3000), 20, &mut changes);
        new.put("b4", who("new"), boost(4000), 20, &mut changes);
        old.end(10, &mut changes);
        changes.clear();
        old.put("b2", who("gone"), boost(2000), 15, &mut Vec::new());
        old.renew(&new, &mut changes);
        let told = changes.into_iter().map(|change| match change {
            Change::Boost { who, boost } => (who, boost),
            other => unreachable!("{other:?}"),
        });
        let expected = [
            (who("both"), Some(boost(3000))),
            (who("gone"), None),
            (who("new"), Some(boost(4000))),
        ];
        assert!(told.eq(expected));
    }
}
