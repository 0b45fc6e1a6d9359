use std::sync::Arc;

use tollward_core::{Limit, OnFailure, Window};

use super::store::decided;
use super::{Compiler, word};
use crate::config::{
    self, Algorithm, Burst, File, Named, Place, RateLimit, ScopeWord, Spanned, When,
};
use crate::policy::{LimitId, Names, Origin, Plan, PolicyLimit, Strategy};

/// The names of a limit: as reported, and as its buckets are named.
pub(super) struct LimitNames {
    pub(super) name: String,
    pub(super) family: String,
}

/// The limits of one plan, route or upstream.
struct Written<'a> {
    place: &'a Place,
    one: Option<&'a RateLimit>,
    many: &'a Named<RateLimit>,
    /// The scope of those that do not say.
    scope: &'a [ScopeWord],
}

const DEFAULT_SCOPE: &[ScopeWord] = &[ScopeWord::Tenant];

impl LimitNames {
    fn same(name: String) -> Self {
        Self {
            family: name.clone(),
            name,
        }
    }
}

impl Compiler {
    pub(super) fn common(&mut self, file: &File) -> Vec<LimitId> {
        file.limits
            .iter()
            .filter_map(|(name, limit)| {
                let names = LimitNames::same(format!("limit:{}", name.value));
                self.limit(limit, names, DEFAULT_SCOPE, file)
            })
            .collect()
    }

    pub(super) fn plans(&mut self, file: &File) -> Names<Plan> {
        let mut plans = Names::default();
        for (name, plan) in &file.plans {
            let names = |sub: Option<&str>| match sub {
                None => LimitNames {
                    name: format!("plan:{}", name.value),
                    family: "plan".into(),
                },
                Some(sub) => LimitNames {
                    name: format!("plan:{}/{sub}", name.value),
                    family: format!("plan/{sub}"),
                },
            };
            if plan.rate_limit.is_none() && plan.rate_limits.is_empty() {
                self.fault(
                    &plan.place,
                    "a plan without a limit",
                    "give it `rate_limit` or `rate_limits`",
                );
            }
            let written = Written {
                place: &plan.place,
                one: plan.rate_limit.as_ref(),
                many: &plan.rate_limits,
                scope: DEFAULT_SCOPE,
            };
            let limits = self.limits(&written, names, file);
            plans.insert(name.value.as_str().into(), Plan { limits });
        }
        plans
    }

    pub(super) fn route_limits(
        &mut self,
        route: &config::Route,
        pattern: &str,
        file: &File,
    ) -> Vec<LimitId> {
        let written = Written {
            place: &route.place,
            one: route.rate_limit.as_ref(),
            many: &route.rate_limits,
            scope: DEFAULT_SCOPE,
        };
        self.limits(&written, |sub| named("route", pattern, sub), file)
    }

    pub(super) fn upstream_limits(
        &mut self,
        name: &str,
        upstream: &config::Upstream,
        file: &File,
    ) -> Vec<LimitId> {
        let written = Written {
            place: &upstream.place,
            one: upstream.rate_limit.as_ref(),
            many: &upstream.rate_limits,
            scope: &[ScopeWord::Tenant, ScopeWord::Upstream],
        };
        self.limits(&written, |sub| named("upstream", name, sub), file)
    }

    /// The limit that wrong API keys are charged to. It is Tollward's own: no file says it.
    pub(super) fn wrong_keys(&mut self) -> LimitId {
        const NAME: &str = "wrong_keys";
        const MINUTE: Window = match Window::from_secs(60) {
            Some(minute) => minute,
            None => Window::SECOND,
        };
        if let Ok(limit) = Limit::token_bucket(10, MINUTE, 20) {
            self.limits.push(PolicyLimit {
                name: NAME.into(),
                family: NAME.into(),
                limit,
                strategy: Strategy::Reject,
                scope_text: ScopeWord::Ip.word().into(),
                headers: false,
                scope: [ScopeWord::Ip].into(),
                cost: 1,
                shadow: false,
                on_failure: OnFailure::Local,
                when: When::Always,
                origin: Origin::default(),
            });
        }
        self.limits.len().saturating_sub(1)
    }

    fn limits(
        &mut self,
        written: &Written<'_>,
        names: impl Fn(Option<&str>) -> LimitNames,
        file: &File,
    ) -> Vec<LimitId> {
        if written.one.is_some() && !written.many.is_empty() {
            self.fault(
                written.place,
                "both `rate_limit` and `rate_limits`",
                "move the one limit into `rate_limits`, under a name",
            );
        }
        let mut ids = Vec::new();
        let one = written.one;
        ids.extend(one.and_then(|limit| self.limit(limit, names(None), written.scope, file)));
        for (sub, limit) in written.many {
            ids.extend(self.limit(limit, names(Some(&sub.value)), written.scope, file));
        }
        ids
    }

    fn limit(
        &mut self,
        written: &RateLimit,
        names: LimitNames,
        default_scope: &[ScopeWord],
        file: &File,
    ) -> Option<LimitId> {
        self.refuse_sharing(written);
        let strategy = self.strategy(written, file);
        let limit = self.numbers(written)?;
        let scope: Arc<[ScopeWord]> = match &written.scope {
            Some(scope) => scope.value.iter().map(|word| word.value).collect(),
            None => default_scope.into(),
        };
        let words: Vec<&str> = scope.iter().map(|word| word.word()).collect();
        self.limits.push(PolicyLimit {
            name: names.name.into(),
            family: names.family.into(),
            limit,
            strategy,
            scope_text: words.join(",").into(),
            headers: word(written.response_headers.as_ref()).unwrap_or(true),
            scope,
            cost: word(written.cost.as_ref()).unwrap_or(1),
            shadow: word(written.shadow.as_ref()).unwrap_or(false),
            on_failure: word(written.on_failure.as_ref()).map_or(self.on_failure, decided),
            when: word(written.when.as_ref()).unwrap_or(When::Always),
            origin: origin(written),
        });
        Some(self.limits.len() - 1)
    }

    pub(super) fn numbers(&mut self, written: &RateLimit) -> Option<Limit> {
        let rate = written.sustained.rate.value;
        let window = match &written.sustained.window {
            Some(window) => Window::from_secs(window.value)?,
            None => Window::SECOND,
        };
        let limit = match word(written.algorithm.as_ref()) {
            Some(Algorithm::SlidingWindow) => {
                if let Some(burst) = &written.burst {
                    self.fault(
                        &burst.place,
                        "a sliding window has no burst: its capacity is `sustained.rate`",
                        "remove `burst`, or use `algorithm: token_bucket`",
                    );
                }
                Limit::sliding_window(rate, window)
            }
            _ => {
                let capacity = match &written.burst {
                    Some(burst) => self.capacity(burst, rate)?,
                    None => rate,
                };
                Limit::token_bucket(rate, window, capacity)
            }
        };
        // The file's numbers are in range by now; this cannot fail.
        limit.ok()
    }

    fn capacity(&mut self, burst: &Burst, rate: u32) -> Option<u32> {
        if burst.capacity.is_none() && burst.allowance.is_none() {
            self.fault(
                &burst.place,
                "a `burst` that says nothing",
                "give it a `capacity` or an `allowance`, or remove it",
            );
            return None;
        }
        let base = word(burst.capacity.as_ref()).unwrap_or(rate);
        let Some(allowance) = &burst.allowance else {
            return Some(base);
        };
        let capacity = u64::from(base) * u64::from(allowance.value) / 1000;
        let capacity = u32::try_from(capacity).ok();
        if capacity.is_none() {
            self.fault(
                &allowance.place,
                format!("{base} times this allowance is more than {}", u32::MAX),
                "lower one of the two",
            );
        }
        capacity
    }
}

/// Where a limit's numbers were written.
pub(super) fn origin(written: &RateLimit) -> Origin {
    let place_of = |value: &Option<Spanned<u32>>| value.as_ref().map(|it| it.place.clone());
    let burst = written.burst.as_ref();
    let allowance = burst.and_then(|burst| burst.allowance.as_ref());
    Origin {
        rate: written.sustained.rate.place.clone(),
        capacity: burst.and_then(|burst| place_of(&burst.capacity)),
        allowance: allowance.map(|it| (it.place.clone(), it.value)),
        cost: place_of(&written.cost),
    }
}

/// The names of a limit of a route or an upstream.
fn named(kind: &str, owner: &str, sub: Option<&str>) -> LimitNames {
    LimitNames::same(match sub {
        None => format!("{kind}:{owner}"),
        // Not a slash: `/a` with a limit `b` is not the route `/a/b`.
        Some(sub) => format!("{kind}:{owner}#{sub}"),
    })
}
