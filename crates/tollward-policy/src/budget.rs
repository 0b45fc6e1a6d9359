//! What a tenant's children are given of its budget.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::BudgetMode;
use crate::people::TenantLimit;

/// The arithmetic of an allocated budget, in the window of the tenant that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocation {
    total: u32,
    /// In thousandths.
    ratio: u32,
    window_secs: u32,
    /// What all children have, and what all but the one in question have, in parts of a token.
    sum: u128,
    others: u128,
    /// How many parts a token has.
    parts: u128,
}

/// Whether children fit into a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// They do.
    Fits,
    /// They have more than there is, as they may.
    Overcommitted,
    /// They have more than they may.
    Exceeds,
}

/// The most parts of a token that are reckoned with: all products fit 128 bits.
const MAX_PARTS: u128 = 1 << 40;
/// The parts if windows have nothing in common. Each sum is then rounded up.
const FALLBACK_PARTS: u128 = 1_000_000_000;

impl Allocation {
    /// The budget of a tenant with this limit, of which the other children have these rates, as the sums
    /// of those with a window of so many seconds, and one child has or asks for its own. None unless the
    /// budget is `allocated`.
    pub fn new(
        parent: &TenantLimit,
        others: impl IntoIterator<Item = (u64, u32)>,
        child: Option<(u64, u32)>,
    ) -> Option<Self> {
        let budget = parent.budget();
        if budget.mode != BudgetMode::Allocated {
            return None;
        }
        let window_secs = parent.limit().window().as_secs();
        let mut by_window: BTreeMap<u32, u128> = BTreeMap::new();
        for (rates, window) in others {
            let sum = by_window.entry(window.max(1)).or_default();
            *sum = sum.saturating_add(rates.into());
        }
        let windows = by_window.keys().copied();
        let windows = windows.chain(child.map(|(_, window)| window.max(1)));
        let parts = parts(windows, window_secs);
        let in_parts = |rates: u128, window: u32| {
            let product = rates
                .saturating_mul(window_secs.into())
                .saturating_mul(parts);
            product.div_ceil(window.into())
        };
        let others = by_window
            .iter()
            .map(|(window, rates)| in_parts(*rates, *window))
            .fold(0, u128::saturating_add);
        let own = child.map_or(0, |(rate, window)| in_parts(rate.into(), window.max(1)));
        Some(Self {
            total: budget.total,
            ratio: budget.ratio,
            window_secs,
            sum: others.saturating_add(own),
            others,
            parts,
        })
    }

    /// Whether the children fit.
    pub fn fit(&self) -> Fit {
        if self.sum > self.ceiling() {
            Fit::Exceeds
        } else if self.sum > u128::from(self.total) * self.parts {
            Fit::Overcommitted
        } else {
            Fit::Fits
        }
    }

    /// What the children have more than they may, in tokens a second, about.
    pub(crate) fn excess(&self) -> f64 {
        let excess = self.sum.saturating_sub(self.ceiling());
        excess as f64 / self.parts as f64 / f64::from(self.window_secs)
    }

    /// The most that all children may have, in parts.
    fn ceiling(&self) -> u128 {
        // A ratio has three decimals, and so may what it makes of a total.
        u128::from(self.total) * u128::from(self.ratio) * self.parts / 1000
    }

    /// What all children have, rounded up in the third decimal.
    pub fn sum(&self) -> String {
        decimal(self.sum.saturating_mul(1000).div_ceil(self.parts))
    }

    /// All there is to be given, before anything is overcommitted.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// How many times that may be given.
    pub fn ratio(&self) -> String {
        decimal(self.ratio.into())
    }

    /// What the other children leave of all that may be given, rounded down in the third decimal.
    pub fn free(&self) -> String {
        let free = self.ceiling().saturating_sub(self.others);
        decimal(free.saturating_mul(1000) / self.parts)
    }

    /// The window that all of it is counted in, in seconds.
    pub fn window_secs(&self) -> u32 {
        self.window_secs
    }
}

impl TenantLimit {
    /// What a tenant with this limit takes of its parent's budget: its rate, in its window of so many
    /// seconds.
    pub fn allotted(&self) -> (u64, u32) {
        (self.limit().rate().into(), self.limit().window().as_secs())
    }
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ceiling = self.ceiling().saturating_mul(1000) / self.parts;
        write!(
            f,
            "the children's sum is {} of a budget of {} times {} = {} per {}, of which {} was free",
            self.sum(),
            self.total,
            self.ratio(),
            decimal(ceiling),
            Span(self.window_secs),
            self.free(),
        )
    }
}

/// The parts of a token in which rates over all these windows are whole numbers, reckoned over `window`;
/// fewer if that is too many to reckon with.
fn parts(windows: impl Iterator<Item = u32>, window: u32) -> u128 {
    let mut parts: u128 = 1000;
    for other in windows {
        // Rates over the window are multiples of window/other.
        let needed = u128::from(other) / gcd(other.into(), window.into());
        parts = parts / gcd(parts, needed) * needed;
        if parts > MAX_PARTS {
            return FALLBACK_PARTS;
        }
    }
    parts
}

fn gcd(one: u128, other: u128) -> u128 {
    if other == 0 {
        one
    } else {
        gcd(other, one % other)
    }
}

/// Thousandths as people write them.
pub(crate) fn decimal(thousandths: u128) -> String {
    let (whole, part) = (thousandths / 1000, thousandths % 1000);
    match part {
        0 => whole.to_string(),
        _ => format!("{whole}.{part:03}")
            .trim_end_matches('0')
            .to_owned(),
    }
}

/// A window as people call it.
pub(crate) struct Span(pub(crate) u32);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("second"),
            60 => f.write_str("minute"),
            3600 => f.write_str("hour"),
            86_400 => f.write_str("day"),
            secs => write!(f, "{secs} s"),
        }
    }
}
