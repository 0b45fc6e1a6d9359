use std::fmt;

use crate::{Level, NarrowLevel, State, Timestamp, Window};

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A bucket of `capacity` tokens that refills continuously.
    TokenBucket,
    /// Two adjacent fixed windows, the older weighted by what is left of it.
    SlidingWindow,
}

/// A valid limit: what may be spent of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    algorithm: Algorithm,
    rate: u32,
    window: Window,
    capacity: u32,
    /// The capacity in parts of 1/window of a token, if this is a token bucket and that fits 63 bits; else 0.
    narrow_ceiling: u64,
}

impl Limit {
    /// `rate` tokens per `window`, in a bucket that holds `capacity`.
    pub const fn token_bucket(
        rate: u32,
        window: Window,
        capacity: u32,
    ) -> Result<Self, InvalidLimit> {
        if rate == 0 {
            return Err(InvalidLimit::ZeroRate);
        }
        if capacity == 0 {
            return Err(InvalidLimit::ZeroCapacity);
        }
        Ok(Self {
            algorithm: Algorithm::TokenBucket,
            rate,
            window,
            capacity,
            narrow_ceiling: narrow_ceiling(window, capacity),
        })
    }

    /// At most `rate` in any `window`, as a weighted sum of two windows estimates it.
    pub const fn sliding_window(rate: u32, window: Window) -> Result<Self, InvalidLimit> {
        if rate == 0 {
            return Err(InvalidLimit::ZeroRate);
        }
        Ok(Self {
            algorithm: Algorithm::SlidingWindow,
            rate,
            window,
            capacity: rate,
            narrow_ceiling: 0,
        })
    }

    /// How this limit counts.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Tokens per window.
    pub const fn rate(&self) -> u32 {
        self.rate
    }

    /// The span over which the rate is counted.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The most that can be spent at once.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Seconds in which an empty bucket becomes full, rounded up; for a sliding window, its length.
    pub const fn fill_secs(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket => {
                (self.capacity as u64 * self.window.as_secs() as u64).div_ceil(self.rate as u64)
            }
            Algorithm::SlidingWindow => self.window.as_secs() as u64,
        }
    }

    /// Microseconds in which so many tokens come, rounded up.
    pub fn refill_us(&self, tokens: u64) -> u64 {
        let parts = u128::from(tokens) * u128::from(self.window.as_micros());
        let micros = parts.div_ceil(u128::from(self.rate));
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// The same rate in a bucket that holds `capacity`, or this capacity if that is more. A sliding window
    /// stays as it is: it has no bucket.
    #[must_use]
    pub const fn with_room(&self, capacity: u32) -> Self {
        match self.algorithm {
            Algorithm::TokenBucket if capacity > self.capacity => Self {
                capacity,
                narrow_ceiling: narrow_ceiling(self.window, capacity),
                ..*self
            },
            Algorithm::TokenBucket | Algorithm::SlidingWindow => *self,
        }
    }

    /// One of `nodes` equal shares of this limit: at least one token, and one per window.
    #[must_use]
    pub fn share(&self, nodes: u32) -> Self {
        let nodes = nodes.max(1);
        let of = |whole: u32| (whole / nodes).max(1);
        let capacity = of(self.capacity);
        Self {
            rate: of(self.rate),
            capacity,
            narrow_ceiling: match self.algorithm {
                Algorithm::TokenBucket => narrow_ceiling(self.window, capacity),
                Algorithm::SlidingWindow => 0,
            },
            ..*self
        }
    }

    /// This limit, nowhere above `other`: the lower of the two rates, as fractions, and the smaller of the
    /// two capacities. Limits that count in different ways, or over different sliding windows, have no
    /// such minimum: this one stays as it is.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let per_sec =
            |one: &Self, two: &Self| u64::from(one.rate) * u64::from(two.window.as_secs());
        let slower = if per_sec(other, self) < per_sec(self, other) {
            other
        } else {
            self
        };
        match (self.algorithm, other.algorithm) {
            (Algorithm::TokenBucket, Algorithm::TokenBucket) => {
                let capacity = self.capacity.min(other.capacity);
                Self {
                    capacity,
                    narrow_ceiling: narrow_ceiling(slower.window, capacity),
                    ..*slower
                }
            }
            (Algorithm::SlidingWindow, Algorithm::SlidingWindow) if self.window == other.window => {
                *slower
            }
            _ => *self,
        }
    }

    /// This limit, so many thousandths of it: rate and capacity, each rounded down, but not below one. A
    /// rate that would lose a fraction is counted over a longer window instead, where there is one.
    #[must_use]
    pub fn thousandths(&self, thousandths: u32) -> Self {
        let of = |whole: u32| {
            let scaled = u64::from(whole) * u64::from(thousandths) / 1000;
            u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
        };
        let (mut rate, mut window) = (of(self.rate), self.window);
        if self.algorithm == Algorithm::TokenBucket {
            let exact = u64::from(self.rate) * u64::from(thousandths);
            let stretch = 1000 / gcd(exact, 1000);
            let longer = u32::try_from(stretch).ok();
            let longer = longer.and_then(|stretch| window.as_secs().checked_mul(stretch));
            let longer = longer.and_then(Window::from_secs);
            let more = u32::try_from(exact * stretch / 1000).ok();
            if let (Some(longer), Some(more @ 1..)) = (longer, more) {
                (rate, window) = (more, longer);
            }
        }
        let capacity = match self.algorithm {
            Algorithm::TokenBucket => of(self.capacity),
            Algorithm::SlidingWindow => rate,
        };
        Self {
            algorithm: self.algorithm,
            rate,
            window,
            capacity,
            narrow_ceiling: match self.algorithm {
                Algorithm::TokenBucket => narrow_ceiling(window, capacity),
                Algorithm::SlidingWindow => 0,
            },
        }
    }

    /// The level of a token bucket that has spent `parts` of 1/window of a token, `elapsed_us` ago: the
    /// same as [`Limit::level`], in half the time, where everything fits in 64 bits. None where it does
    /// not, or for a sliding window.
    #[inline(always)]
    pub fn narrow_level(&self, parts: u64, elapsed_us: u64) -> Option<NarrowLevel> {
        NarrowLevel::new(self, self.narrow_ceiling, parts, elapsed_us)
    }

    /// What `state` amounts to under this limit at `now`. No state is a full bucket.
    ///
    /// The state may come from another limit (a changed rate, window or algorithm): what was spent
    /// stays spent, in tokens, and the time since then refills at this limit's rate.
    #[inline(always)]
    pub fn level(&self, state: Option<State>, now: Timestamp) -> Level {
        Level::new(*self, state, now)
    }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 {
        one
    } else {
        gcd(other, one % other)
    }
}

const fn narrow_ceiling(window: Window, capacity: u32) -> u64 {
    match window.as_micros().checked_mul(capacity as u64) {
        Some(ceiling) if ceiling < 1 << 63 => ceiling,
        _ => 0,
    }
}

/// Why numbers do not make a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidLimit {
    /// A rate of 0 would never refill.
    ZeroRate,
    /// A capacity of 0 would never admit anything.
    ZeroCapacity,
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroRate => "a rate must be at least 1",
            Self::ZeroCapacity => "a capacity must be at least 1",
        })
    }
}

impl std::error::Error for InvalidLimit {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small ones, large ones, and those at the edge of what fits 63 bits.
    fn limits() -> impl Iterator<Item = Limit> {
        let numbers = [1, 2, 3, 7, 100, 101, 1 << 20, u32::MAX - 1, u32::MAX];
        let windows = [1, 60, 86_400, 31_622_400].map(|secs| Window::from_secs(secs).unwrap());
        windows.into_iter().flat_map(move |window| {
            numbers.into_iter().flat_map(move |rate| {
                let buckets = numbers.into_iter();
                let buckets = buckets.map(move |it| Limit::token_bucket(rate, window, it).unwrap());
                buckets.chain([Limit::sliding_window(rate, window).unwrap()])
            })
        })
    }

    const NODES: [u32; 8] = [1, 2, 3, 10, 101, 1 << 16, u32::MAX - 1, u32::MAX];

    #[test]
    fn a_share_is_the_limit_of_its_numbers() {
        for limit in limits() {
            for nodes in NODES {
                let rate = (limit.rate() / nodes).max(1);
                let capacity = (limit.capacity() / nodes).max(1);
                let expected = match limit.algorithm() {
                    Algorithm::TokenBucket => Limit::token_bucket(rate, limit.window(), capacity),
                    Algorithm::SlidingWindow => Limit::sliding_window(rate, limit.window()),
                };
                assert_eq!(Ok(limit.share(nodes)), expected, "{limit:?} of {nodes}");
            }
        }
    }

    #[test]
    fn shares_are_never_more_than_the_whole() {
        for limit in limits() {
            for nodes in NODES {
                let share = limit.share(nodes);
                let parts = [
                    (share.rate(), limit.rate()),
                    (share.capacity(), limit.capacity()),
                ];
                for (part, whole) in parts {
                    let sum = u64::from(part) * u64::from(nodes);
                    // One is the least, and the sum is short of the whole by less than one a node.
                    assert!(sum <= u64::from(whole) || part == 1, "{limit:?} of {nodes}");
                    assert!(
                        u64::from(whole) < sum + u64::from(nodes),
                        "{limit:?} of {nodes}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_within_another_is_above_either() {
        for one in limits() {
            for other in limits() {
                let within = one.within(&other);
                let is_bucket = |limit: &Limit| limit.algorithm() == Algorithm::TokenBucket;
                let comparable = is_bucket(&one) == is_bucket(&other)
                    && (is_bucket(&one) || one.window() == other.window());
                if !comparable {
                    assert_eq!(within, one);
                    continue;
                }
                let faster = |limit: &Limit| {
                    let (rate, secs) = (within.rate(), within.window().as_secs());
                    u128::from(rate) * u128::from(limit.window().as_secs())
                        > u128::from(limit.rate()) * u128::from(secs)
                };
                assert!(!faster(&one) && !faster(&other), "{one:?} within {other:?}");
                assert_eq!(within.capacity(), one.capacity().min(other.capacity()));
                let again = match is_bucket(&one) {
                    true => Limit::token_bucket(within.rate(), within.window(), within.capacity()),
                    false => Limit::sliding_window(within.rate(), within.window()),
                };
                assert_eq!(Ok(within), again);
            }
        }
    }

    #[test]
    fn thousandths_of_a_limit() {
        let minute = Window::from_secs(60).unwrap();
        let of = |rate, window, capacity, thousandths| {
            let limit = Limit::token_bucket(rate, window, capacity).unwrap();
            let limit = limit.thousandths(thousandths);
            (limit.rate(), limit.window().as_secs(), limit.capacity())
        };
        assert_eq!(of(100, minute, 10, 2000), (200, 60, 20));
        assert_eq!(of(100, minute, 10, 1000), (100, 60, 10));
        // One and a half a second is three in two.
        assert_eq!(of(1, Window::SECOND, 1, 1500), (3, 2, 1));
        assert_eq!(
            of(u32::MAX, Window::SECOND, u32::MAX, 2000),
            (u32::MAX, 1, u32::MAX)
        );
        let year = Window::from_secs(31_622_400).unwrap();
        assert_eq!(of(1, year, 1, 1500), (1, 31_622_400, 1));
        let sliding = Limit::sliding_window(3, minute).unwrap().thousandths(1500);
        assert_eq!(Ok(sliding), Limit::sliding_window(4, minute));
    }

    #[test]
    fn tokens_come_when_they_do_and_not_before() {
        let of = |rate, secs, tokens: u64| {
            let window = Window::from_secs(secs).unwrap();
            Limit::token_bucket(rate, window, 1)
                .unwrap()
                .refill_us(tokens)
        };
        assert_eq!(of(10, 1, 1), 100_000);
        assert_eq!(of(3, 1, 1), 333_334);
        assert_eq!(of(3, 1, 3), 1_000_000);
        assert_eq!(of(7, 60, 0), 0);
        assert_eq!(of(u32::MAX, 1, 1), 1);
        assert_eq!(of(1, 366 * 86_400, u64::MAX), u64::MAX);
    }

    #[test]
    fn all_of_it_for_one_node_or_none() {
        for limit in limits() {
            assert_eq!(limit.share(1), limit);
            assert_eq!(limit.share(0), limit);
        }
    }
}
