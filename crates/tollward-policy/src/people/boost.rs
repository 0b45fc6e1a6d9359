use std::collections::HashMap;
use std::sync::Arc;

use super::entry::{Boost, Boostee};
use crate::policy::{Names, Plan, PolicyLimit, Rules};

/// Who has more than a plan gives, for a while.
#[derive(Clone, Debug, Default)]
pub(super) struct Boosts(Arc<Held>);

#[derive(Clone, Debug, Default)]
struct Held {
    tenants: Names<Boosted>,
    users: Names<Boosted>,
}

/// The limits of the rules, those of plans raised.
#[derive(Clone, Debug)]
pub(crate) struct Boosted {
    pub(crate) boost: Boost,
    pub(crate) limits: Arc<[PolicyLimit]>,
}

impl Boosts {
    /// The same under other rules.
    pub(super) fn under(&self, rules: &Rules) -> Self {
        let mut made: HashMap<Boost, Boosted> = HashMap::new();
        let mut again = |held: &Names<Boosted>| {
            let held = held.iter().map(|(id, boosted)| {
                let boost = boosted.boost;
                let boosted = made
                    .entry(boost)
                    .or_insert_with(|| boosted_rules(rules, boost));
                (id.clone(), boosted.clone())
            });
            held.collect()
        };
        let tenants = again(&self.0.tenants);
        let users = again(&self.0.users);
        Self(Arc::new(Held { tenants, users }))
    }

    pub(super) fn put(&mut self, rules: &Rules, who: &Boostee, boost: Option<Boost>) {
        let boosted = boost.map(|boost| {
            // The limits are made once for all who have the same.
            let all = self.0.tenants.values().chain(self.0.users.values());
            let same = all.clone().find(|it| it.boost == boost).cloned();
            same.unwrap_or_else(|| boosted_rules(rules, boost))
        });
        let held = Arc::make_mut(&mut self.0);
        let (held, id) = match who {
            Boostee::Tenant(id) => (&mut held.tenants, id),
            Boostee::User(id) => (&mut held.users, id),
        };
        match boosted {
            Some(boosted) => _ = held.insert(id.clone(), boosted),
            None => _ = held.remove(id),
        }
    }

    pub(super) fn of_tenant(&self, id: &str) -> Option<Boost> {
        self.0.tenants.get(id).map(|boosted| boosted.boost)
    }

    /// The larger of the two.
    pub(super) fn of(&self, user: Option<&str>, tenant: Option<&str>) -> Option<&Boosted> {
        let of_user = user.and_then(|user| self.0.users.get(user));
        let of_tenant = tenant.and_then(|tenant| self.0.tenants.get(tenant));
        let both = [of_user, of_tenant].into_iter().flatten();
        both.max_by_key(|boosted| boosted.boost)
    }
}

fn boosted_rules(rules: &Rules, boost: Boost) -> Boosted {
    let mut limits = rules.limits.clone();
    for id in rules.plans.values().flat_map(|Plan { limits }| limits) {
        let limit = &mut limits[*id].limit;
        *limit = limit.thousandths(boost.thousandths());
    }
    Boosted {
        boost,
        limits: limits.into(),
    }
}
