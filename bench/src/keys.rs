use std::fmt::Write as _;
use std::sync::LazyLock;

const PREFIX: &str = "user-";

/// "000" to "999", one after the other.
static TRIPLES: LazyLock<String> = LazyLock::new(|| {
    (0..1000).fold(String::new(), |mut all, triple| {
        let _ = write!(all, "{triple:03}");
        all
    })
});

/// Writes keys into one buffer: a contender gets its key warm, as a server has it after parsing, and
/// no list of a million texts stands between it and the cache.
pub(crate) struct Keys {
    triples: &'static str,
    text: String,
    random: Random,
    count: u32,
}

impl Keys {
    /// Random keys out of `count`.
    pub(crate) fn new(count: u32, seed: usize) -> Self {
        Self {
            triples: &TRIPLES,
            text: String::with_capacity(32),
            random: Random::new(seed),
            count,
        }
    }

    /// Any key.
    #[inline]
    pub(crate) fn next(&mut self) -> &String {
        let index = self.random.below(self.count);
        self.at(index)
    }

    /// The key of this index: `user-` and nine digits.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> &String {
        self.text.clear();
        self.text.push_str(PREFIX);
        for triple in [index / 1_000_000 % 1000, index / 1000 % 1000, index % 1000] {
            let at = triple as usize * 3;
            self.text.push_str(&self.triples[at..at + 3]);
        }
        &self.text
    }
}

/// Xorshift: fast, and random enough to miss caches.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self((seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}
