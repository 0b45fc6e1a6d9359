//! The charges of a request, told to people.

use std::fmt::{self, Write};

use serde::Serialize;
use tollward_core::{Algorithm, Limit, OnFailure};

use crate::budget::{Span, decimal};
use crate::config::{Enforcement, Place, ScopeWord};
use crate::policy::{LimitId, PolicyLimit, Strategy, TENANT_FAMILY};
use crate::request::{Bypass, Denial, PlanFrom, Request, Suspended, Treatment};
use crate::scope::{self, KeyText, ScopeBytes};

/// What a policy makes of a request, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The route that matched, as the policy names it.
    pub route: Option<String>,
    /// Where that route is written.
    pub route_from: Option<String>,
    /// The plan that applies.
    pub plan: Option<String>,
    /// Who says so.
    pub plan_from: Option<String>,
    /// Where it goes: the upstream of its route, or of the next less specific one that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// `limited`, `denied` or `bypass`.
    pub treatment: &'static str,
    /// Why it is not limited.
    pub reason: Option<String>,
    /// Each charge, in the order in which ties are resolved.
    pub charges: Vec<ChargeExplanation>,
}

/// One charge.
#[derive(Clone, Debug, Serialize)]
pub struct ChargeExplanation {
    /// The limit's name.
    pub name: String,
    /// For a limit of the caller's tenant or of one above it, what it is made of: `1000/minute, burst 100:
    /// own; partner allows 5000/minute, burst 500; system 10000/minute, burst 1000`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<String>,
    /// The bucket it is taken from.
    pub key: String,
    /// The words of the limit's scope, and what stood for each.
    pub scope: Vec<ScopeExplanation>,
    /// How it counts.
    pub algorithm: &'static str,
    /// Tokens per window.
    pub rate: Number,
    /// The window in seconds.
    pub window_secs: u32,
    /// The most at once.
    pub capacity: Number,
    /// The tokens asked for.
    pub cost: u64,
    /// What the cost is the product of.
    pub cost_factors: Vec<Factor>,
    /// It decides and counts, and never refuses.
    pub shadow: bool,
    /// What happens beyond it. Nothing is said of a refusal, which is what happens otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyExplanation>,
    /// What holds while the shared counters cannot be reached: `open` or `closed`. Nothing is said of
    /// this node's share of the limit, which is what holds otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<&'static str>,
}

/// What happens to a request beyond a limit, other than that it is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyExplanation {
    /// It waits.
    Queue {
        /// The longest wait, in milliseconds.
        max_wait_ms: u64,
        /// The most requests that wait.
        max_queue: u32,
    },
    /// It is let through, marked.
    Degrade {
        /// Where it goes instead; none if it goes where it would.
        upstream: Option<String>,
    },
}

/// A word of a scope.
#[derive(Clone, Debug, Serialize)]
pub struct ScopeExplanation {
    /// The word as configured.
    pub word: &'static str,
    /// What was counted by: the same, or what stood in for a fact that is missing.
    pub by: &'static str,
    /// Its value.
    pub value: String,
}

/// A number and where it comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Number {
    /// The number.
    pub value: u32,
    /// Where it comes from.
    pub from: String,
}

/// A factor of a cost.
#[derive(Clone, Debug, Serialize)]
pub struct Factor {
    /// What it is multiplied by.
    pub value: u32,
    /// Where it comes from.
    pub from: String,
}

fn denied_by(denial: Denial<'_>) -> String {
    match denial {
        Denial::Route => "the route says `deny: true`".to_owned(),
        Denial::DenyList(reason) => format!("the deny-list: {reason}"),
        Denial::Suspended(Suspended::Key) => "the API key is suspended".to_owned(),
        Denial::Suspended(Suspended::User) => "the user is suspended".to_owned(),
        Denial::Suspended(Suspended::Tenant(tenant)) => {
            format!("the tenant {tenant} is suspended")
        }
    }
}

impl Request<'_, '_> {
    /// Says which limits apply to the request, for which buckets, and where each number was written.
    pub fn explain(&self) -> Explanation {
        let (treatment, reason) = match self.treatment {
            Treatment::Limited => ("limited", None),
            Treatment::Denied(denial) => ("denied", Some(denied_by(denial))),
            Treatment::Bypassed(Bypass::AllowList(reason)) => {
                ("bypass", Some(format!("the allow-list: {reason}")))
            }
            Treatment::Bypassed(Bypass::Route) => {
                ("bypass", Some("the route says `allow: true`".to_owned()))
            }
            Treatment::Bypassed(Bypass::EnforcementOff) => {
                ("bypass", Some("enforcement is off".to_owned()))
            }
        };
        Explanation {
            route: self.route.map(|route| route.name.to_string()),
            route_from: self.route.map(|route| at(&route.place)),
            plan: self.plan.map(|choice| choice.name.to_owned()),
            plan_from: self.plan.map(|choice| match choice.from {
                PlanFrom::Request => "the request".to_owned(),
                PlanFrom::Key => "the API key".to_owned(),
                PlanFrom::User => "the user".to_owned(),
                PlanFrom::Tenant(tenant) => format!("tenant {tenant}"),
                PlanFrom::Default => "identity.anonymous.plan".to_owned(),
            }),
            upstream: self.upstream_name().map(str::to_owned),
            treatment,
            reason,
            charges: match self.treatment {
                Treatment::Limited => self.explain_charges(),
                _ => Vec::new(),
            },
        }
    }

    fn explain_charges(&self) -> Vec<ChargeExplanation> {
        let charges = self.charges();
        let explained = charges.iter().map(|(id, limit, charge)| {
            let boost = self.boost_of(id, limit);
            let mut cost_factors = vec![Factor {
                value: self.cost,
                from: "asked".to_owned(),
            }];
            if let Some(route) = self.route {
                cost_factors.push(Factor {
                    value: route.cost,
                    from: format!("route {}", route.name),
                });
            }
            if let Some(place) = &limit.origin.cost {
                cost_factors.push(Factor {
                    value: limit.cost,
                    from: at(place),
                });
            }
            ChargeExplanation {
                name: limit.name.to_string(),
                levels: self.explain_levels(limit),
                key: KeyText(charge.key).to_string(),
                scope: match *limit.family == *TENANT_FAMILY {
                    true => vec![ScopeExplanation {
                        word: ScopeWord::Tenant.word(),
                        by: ScopeWord::Tenant.word(),
                        value: limit.owner().to_owned(),
                    }],
                    false => self.explain_scope(&limit.scope),
                },
                algorithm: match limit.limit.algorithm() {
                    Algorithm::TokenBucket => "token_bucket",
                    Algorithm::SlidingWindow => "sliding_window",
                },
                rate: Number {
                    value: limit.limit.rate(),
                    from: at(&limit.origin.rate) + &boost,
                },
                window_secs: limit.limit.window().as_secs(),
                capacity: Number {
                    value: limit.limit.capacity(),
                    from: capacity_from(limit) + &boost,
                },
                cost: charge.cost,
                cost_factors,
                shadow: limit.shadow || self.policy.enforcement() == Enforcement::Shadow,
                strategy: self.explain_strategy(limit.strategy),
                on_failure: match charge.on_failure {
                    OnFailure::Local => None,
                    OnFailure::Open => Some("open"),
                    OnFailure::Closed => Some("closed"),
                },
            }
        });
        explained.collect()
    }

    /// What is said of a limit of a plan whose numbers are raised for this caller.
    fn boost_of(&self, id: LimitId, limit: &PolicyLimit) -> String {
        let plain = self.policy.rules.limits.get(id);
        let is_raised = plain.is_some_and(|plain| plain.limit != limit.limit);
        let boost = self.boost.filter(|_| is_raised);
        boost.map_or_else(String::new, |boosted| {
            format!(
                ", times {} by a boost",
                Thousandths(boosted.boost.thousandths())
            )
        })
    }

    /// What a tenant's limit is made of.
    fn explain_levels(&self, limit: &PolicyLimit) -> Option<String> {
        if *limit.family != *TENANT_FAMILY {
            return None;
        }
        let tenant = self.policy.tenant(limit.owner())?;
        let written = tenant.entry().limit.as_deref()?.limit();
        let boost = self.policy.people.boost(None, Some(tenant.id()));
        let boosted = match boost {
            Some(boosted) => written.thousandths(boosted.boost.thousandths()),
            None => *written,
        };
        let above = tenant.levels().skip(1);
        let above: Vec<(&str, &Limit)> = above.map(|it| (it.owner(), &it.limit)).collect();
        let mut text = format!("{}: ", Numbers(&limit.limit));
        if limit.limit != boosted {
            let _ = write!(text, "the least of own {}", Numbers(written));
        } else if boost.is_some() {
            let _ = write!(text, "own {}", Numbers(written));
        } else {
            text.push_str("own");
        }
        if let Some(boosted) = boost {
            let _ = write!(text, ", times {}", Thousandths(boosted.boost.thousandths()));
        }
        for (index, (name, limit)) in above.into_iter().enumerate() {
            let allows = if index == 0 { " allows" } else { "" };
            let _ = write!(text, "; {name}{allows} {}", Numbers(limit));
        }
        Some(text)
    }

    fn explain_strategy(&self, strategy: Strategy) -> Option<StrategyExplanation> {
        match strategy {
            Strategy::Reject => None,
            Strategy::Queue {
                max_wait,
                max_queue,
            } => Some(StrategyExplanation::Queue {
                max_wait_ms: u64::try_from(max_wait.as_millis()).unwrap_or(u64::MAX),
                max_queue,
            }),
            Strategy::Degrade { upstream } => {
                let upstream = upstream.and_then(|index| self.policy.upstreams().get(index));
                let upstream = upstream.map(|upstream| upstream.name.to_string());
                Some(StrategyExplanation::Degrade { upstream })
            }
        }
    }

    fn explain_scope(&self, words: &[ScopeWord]) -> Vec<ScopeExplanation> {
        let (route, upstream) = (self.route(), self.upstream_name());
        let explained = words.iter().map(|word| {
            let mut bytes = ScopeBytes::new();
            let by = scope::encode(*word, &self.caller, route, upstream, &mut bytes);
            let value = scope::values(&bytes).next();
            ScopeExplanation {
                word: word.word(),
                by: by.map_or(word.word(), |by| by.word()),
                value: value
                    .and_then(|(identity, value)| scope::value_text(identity, value))
                    .unwrap_or_default(),
            }
        });
        explained.collect()
    }
}

/// A limit as people write it.
struct Numbers<'a>(&'a Limit);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.0;
        write!(f, "{}/{}", limit.rate(), Span(limit.window().as_secs()))?;
        match limit.algorithm() {
            Algorithm::TokenBucket => write!(f, ", burst {}", limit.capacity()),
            Algorithm::SlidingWindow => f.write_str(", sliding"),
        }
    }
}

/// A factor as people write it.
struct Thousandths(u32);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.0.into()))
    }
}

fn capacity_from(limit: &PolicyLimit) -> String {
    let origin = &limit.origin;
    let base = match &origin.capacity {
        Some(place) => at(place),
        None if origin.rate.line == 0 => at(&origin.rate),
        None => "sustained.rate, the default".to_owned(),
    };
    match &origin.allowance {
        Some((place, thousandths)) => {
            format!(
                "{base}, times {} from {}",
                Thousandths(*thousandths),
                at(place)
            )
        }
        None => base,
    }
}

fn at(place: &Place) -> String {
    if place.line == 0 {
        return "the directory".to_owned();
    }
    format!("line {}, {}", place.line, place.path)
}
