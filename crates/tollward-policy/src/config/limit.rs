//! A limit as it is written, wherever it may stand.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::decode::{Context, Decode, List};
use super::duration::{Allowance, Overcommit, Span, Window};
use super::fault::{Fault, Spanned};
use super::record::{record, words};
use super::scalar::{Flag, Text, Whole};
use super::schema::Defs;
use super::yaml::{Kind, Node};

record! {
    /// A limit: how much is admitted over time, and whose counter it is.
    pub struct RateLimit {
        /// How it counts; `token_bucket` unless told otherwise.
        algorithm: Option<Spanned<Algorithm>> = optional Algorithm,
        /// The rate that is admitted for ever.
        sustained: Sustained = required Sustained,
        /// What may be taken at once; `sustained.rate` unless told otherwise.
        burst: Option<Burst> = optional Burst,
        /// What one counter stands for, a word or a list of words; `tenant` unless told otherwise.
        scope: Option<Spanned<Vec<Spanned<ScopeWord>>>> = optional Scope,
        /// What happens to a request beyond the limit.
        strategy: Option<Spanned<Strategy>> = optional Strategy,
        /// What a request's cost is multiplied by; 1 unless told otherwise.
        cost: Option<Spanned<u32>> = optional Whole<0>,
        /// Whether answers tell the state of this limit.
        response_headers: Option<Spanned<bool>> = optional Flag,
        /// How nodes share the counter.
        consistency: Option<Spanned<Consistency>> = optional Consistency,
        /// What holds while Redis cannot be reached; `store.on_failure` unless told otherwise.
        on_failure: Option<Spanned<OnFailure>> = optional OnFailure,
        /// Whether it only counts what it would have refused.
        shadow: Option<Spanned<bool>> = optional Flag,
        /// The requests it applies to.
        when: Option<Spanned<When>> = optional When,
        /// What changes it as time goes by.
        adaptive: Option<Spanned<Adaptive>> = optional Adaptive,
        /// How long a request waits, with `strategy: queue`.
        queue: Option<Queue> = optional Queue,
        /// What becomes of a request, with `strategy: degrade`.
        degrade: Option<Degrade> = optional Degrade,
        /// What the tenants below have of a tenant's limit; `private` unless told otherwise. Only on
        /// the limit of a tenant.
        sharing: Option<Spanned<Sharing>> = optional Sharing,
        /// How a tenant's limit is divided among the tenants right below it. Only on the limit of a
        /// tenant.
        budget: Option<Budget> = optional Budget,
    }
    unsupported: ["sync_interval"];
}

record! {
    /// The rate that is admitted for ever.
    pub struct Sustained {
        /// Cost admitted in each window.
        rate: Spanned<u32> = required Rate,
        /// The window, in whole seconds from 1 s to 366 d; `second` unless told otherwise.
        window: Option<Spanned<u32>> = optional Window,
    }
}

record! {
    /// What may be taken at once.
    pub struct Burst {
        /// As a cost.
        capacity: Option<Spanned<u32>> = optional Whole<1>,
        /// As a factor, such as 1.5; kept in thousandths.
        allowance: Option<Spanned<u32>> = optional Allowance,
    }
}

record! {
    /// How a request waits for its tokens.
    pub struct Queue {
        /// The longest wait, from 1 ms to 1 h; `1s` unless told otherwise.
        max_wait: Option<Spanned<Duration>> = optional Span<1, 3_600_000>,
        /// The most requests that wait; 100 unless told otherwise.
        max_queue: Option<Spanned<u32>> = optional Whole<1>,
    }
}

record! {
    /// What becomes of a request for which there are no tokens.
    pub struct Degrade {
        /// Where it goes instead.
        upstream: Spanned<String> = required Text,
    }
}

record! {
    /// How a tenant's limit is divided among the tenants right below it.
    pub struct Budget {
        /// Whether and how the limits below are bound; `unlimited` unless told otherwise.
        mode: Option<Spanned<BudgetMode>> = optional BudgetMode,
        /// What there is to divide, in the window of the limit; `sustained.rate` unless told
        /// otherwise.
        total: Option<Spanned<u32>> = optional Whole<1>,
        /// How much more than `total` may be given away, with `mode: allocated`; from 1.0 to 2.0,
        /// `1.0` unless told otherwise. Kept in thousandths.
        overcommit_ratio: Option<Spanned<u32>> = optional Overcommit,
    }
}

words! {
    /// How a limit counts.
    pub enum Algorithm {
        /// Tokens that refill continuously.
        TokenBucket = "token_bucket",
        /// Two adjacent windows, the older weighted by what is left of it.
        SlidingWindow = "sliding_window",
    }
}

words! {
    /// A part of what one counter stands for.
    pub enum ScopeWord {
        /// All requests.
        Global = "global",
        /// The tenant.
        Tenant = "tenant",
        /// The user.
        User = "user",
        /// The caller's address.
        Ip = "ip",
        /// The matched route.
        Route = "route",
        /// The client.
        Client = "client",
        /// The API key.
        ApiKey = "api_key",
        /// Where the request goes.
        Upstream = "upstream",
    }
}

words! {
    /// What happens to a request beyond a limit.
    pub enum Strategy {
        /// It is refused.
        Reject = "reject",
        /// It waits, and is refused only if that would take too long.
        Queue = "queue",
        /// It is let through, marked.
        Degrade = "degrade",
    }
}

words! {
    /// What the tenants below have of a tenant's limit.
    pub enum Sharing {
        /// Nothing: they neither see nor obey it.
        Private = "private",
        /// Those below are bound by it, down to one that is private: who has no limit is charged to it, and
        /// who has one has no more than it.
        Inherit = "inherit",
        /// All of them obey it, besides their own.
        Enforce = "enforce",
    }
}

words! {
    /// How a tenant's limit is divided among the tenants right below it.
    pub enum BudgetMode {
        /// It is not.
        Unlimited = "unlimited",
        /// The limits below may not add up to more than there is.
        Allocated = "allocated",
        /// Those below that have no limit draw from this one, whoever comes first.
        Shared = "shared",
    }
}

words! {
    /// How nodes share a counter.
    pub enum Consistency {
        /// Every decision sees every other.
        Exact = "exact",
    }
    unsupported: ["synced", "leased"];
}

words! {
    /// What holds while Redis cannot be reached.
    pub enum OnFailure {
        /// This node's share of the limit.
        Local = "local",
        /// Everything is admitted, uncounted.
        Open = "open",
        /// No request is answered with a decision.
        Closed = "closed",
    }
}

words! {
    /// The requests a limit applies to.
    pub enum When {
        /// All.
        Always = "always",
        /// Those without an API key and without a proven user or client.
        Anonymous = "anonymous",
        /// The others.
        Authenticated = "authenticated",
    }
}

words! {
    /// What changes a limit as time goes by.
    pub enum Adaptive {
        /// Nothing.
        None = "none",
    }
    unsupported: ["trust", "load"];
}

/// A rate, which has a remedy of its own for 0.
struct Rate;

impl Decode for Rate {
    type Value = Spanned<u32>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        if node.plain() == Some("0") {
            let hint =
                "to refuse a route say `deny: true` on it; to leave one unlimited, `allow: true`";
            return cx.fault_with(node, "a rate of 0 is not a limit", hint);
        }
        Whole::<1>::decode(node, cx)
    }

    fn schema(defs: &mut Defs) -> Json {
        Whole::<1>::schema(defs)
    }

    fn expected() -> String {
        Whole::<1>::expected()
    }
}

/// What one counter stands for: a word, or a list of words.
struct Scope;

impl Decode for Scope {
    type Value = Spanned<Vec<Spanned<ScopeWord>>>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let words = one_or_many::<ScopeWord, _>(node, ScopeWord::word, cx)?;
        if words.is_empty() {
            let hint = format!("write {}", ScopeWord::expected());
            return cx.fault_with(node, "the list is empty", hint);
        }
        let global = words.iter().find(|word| word.value == ScopeWord::Global);
        if let Some(global) = global.filter(|_| words.len() > 1) {
            let fault = Fault::new(&global.place, "`global` cannot stand beside other words");
            cx.push(fault.hint("remove it, or the others"));
            return None;
        }
        Some(cx.spanned(node, words))
    }

    fn schema(defs: &mut Defs) -> Json {
        let word = ScopeWord::schema(defs);
        let list = json!({ "type": "array", "items": word, "minItems": 1, "uniqueItems": true });
        json!({ "anyOf": [word, list] })
    }

    fn expected() -> String {
        ScopeWord::expected()
    }
}

/// One word, or a list of words without repeats.
pub(super) fn one_or_many<C, T>(
    node: &Node,
    word: impl Fn(T) -> &'static str,
    cx: &mut Context,
) -> Option<Vec<Spanned<T>>>
where
    C: Decode<Value = Spanned<T>>,
    T: Copy + PartialEq,
{
    let Kind::Seq(items) = &node.kind else {
        return Some(vec![C::decode(node, cx)?]);
    };
    let decoded = List::<C>::decode(node, cx)?;
    if decoded.len() != items.len() {
        // Without its faulty words it would be another list.
        return None;
    }
    let mut words: Vec<Spanned<T>> = Vec::new();
    let mut has_repeats = false;
    for item in decoded {
        if words.iter().any(|earlier| earlier.value == item.value) {
            let message = format!("`{}` is given twice", word(item.value));
            cx.push(Fault::new(&item.place, message).hint("remove one of the two"));
            has_repeats = true;
        } else {
            words.push(item);
        }
    }
    (!has_repeats).then_some(words)
}
