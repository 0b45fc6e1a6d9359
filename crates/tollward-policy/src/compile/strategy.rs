use std::time::Duration;

use super::{Compiler, word};
use crate::config::{self, Algorithm, File, RateLimit, Spanned};
use crate::policy::Strategy;

const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(1);
const DEFAULT_MAX_QUEUE: u32 = 100;

impl Compiler {
    /// What happens beyond a limit.
    pub(super) fn strategy(&mut self, written: &RateLimit, file: &File) -> Strategy {
        let strategy = word(written.strategy.as_ref()).unwrap_or(config::Strategy::Reject);
        self.check_blocks(written, strategy);
        if let Some(place) = written.strategy.as_ref().map(|strategy| &strategy.place)
            && strategy != config::Strategy::Reject
        {
            if word(written.shadow.as_ref()) == Some(true) {
                self.fault(
                    place,
                    format!("`{}` on a limit that is `shadow: true`", strategy.word()),
                    "remove one of the two: a shadow limit only counts",
                );
            }
            let sliding = word(written.algorithm.as_ref()) == Some(Algorithm::SlidingWindow);
            if strategy == config::Strategy::Queue && sliding {
                self.fault(
                    place,
                    "a sliding window has no queue",
                    "use `algorithm: token_bucket`, or another strategy",
                );
            }
        }
        match strategy {
            config::Strategy::Reject => Strategy::Reject,
            config::Strategy::Queue => self.queue(written),
            config::Strategy::Degrade => Strategy::Degrade {
                upstream: written
                    .degrade
                    .as_ref()
                    .and_then(|degrade| self.cheaper_upstream(&degrade.upstream, file)),
            },
        }
    }

    /// Where degraded requests go. What they are charged is settled before it is known that they go there.
    fn cheaper_upstream(&mut self, name: &Spanned<String>, file: &File) -> Option<usize> {
        let index = self.named_upstream(name, file)?;
        let (_, upstream) = file.upstreams.get(index)?;
        if upstream.rate_limit.is_some() || !upstream.rate_limits.is_empty() {
            let message = format!(
                "the upstream `{}` has limits of its own, which degraded requests would not be charged by",
                name.value
            );
            let hint =
                "remove its limits, or name an upstream without any: two may have the same `url`";
            self.fault(&name.place, message, hint);
        }
        Some(index)
    }

    fn queue(&mut self, written: &RateLimit) -> Strategy {
        let queue = written.queue.as_ref();
        let max_wait =
            word(queue.and_then(|queue| queue.max_wait.as_ref())).unwrap_or(DEFAULT_MAX_WAIT);
        let sustained = &written.sustained;
        let window = word(sustained.window.as_ref()).unwrap_or(1);
        // Whole tokens are waited for.
        let token_ms =
            (u128::from(window) * 1000).div_ceil(u128::from(sustained.rate.value.max(1)));
        if let Some(strategy) = &written.strategy
            && max_wait.as_millis() < token_ms
        {
            let millis = max_wait.as_millis();
            self.fault(
                &strategy.place,
                format!("nobody would ever wait: a token takes {token_ms} ms to come, and the longest wait is {millis} ms"),
                "raise `queue.max_wait`, or use another strategy",
            );
        }
        Strategy::Queue {
            max_wait,
            max_queue: word(queue.and_then(|queue| queue.max_queue.as_ref()))
                .unwrap_or(DEFAULT_MAX_QUEUE),
        }
    }

    /// A block of options belongs to its strategy.
    fn check_blocks(&mut self, written: &RateLimit, strategy: config::Strategy) {
        if self.is_broken(&format!("{}.strategy", written.place.path)) {
            return;
        }
        let blocks = [
            (
                config::Strategy::Queue,
                written.queue.as_ref().map(|queue| &queue.place),
            ),
            (
                config::Strategy::Degrade,
                written.degrade.as_ref().map(|degrade| &degrade.place),
            ),
        ];
        for (own, place) in blocks {
            let Some(place) = place.filter(|_| own != strategy) else {
                continue;
            };
            let own = own.word();
            self.fault(
                place,
                format!("a `{own}` without `strategy: {own}`"),
                format!("add `strategy: {own}`, or remove this"),
            );
        }
    }
}
