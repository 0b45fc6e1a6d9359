/// How far a timestamp may lie behind the last one seen and still count as the same moment.
///
/// Threads read the clock before they reach a bucket, so small inversions are normal: they read as "no
/// time has passed". A timestamp further back than this means that the clock was stepped, and the
/// bucket goes on from there. (A thread held up for longer than this between clock and bucket looks the
/// same, and time that it slept through refills twice.)
pub const CLOCK_SLACK_US: u64 = 1_000_000;

/// A moment: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This moment and `micros` microseconds; saturates at the end of time.
    pub const fn saturating_add(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Microseconds from `earlier` to this moment, 0 if it is not earlier.
    pub const fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whole seconds since the epoch, rounded up.
    pub const fn ceil_secs(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

/// The span over which a limit's rate is counted: 1 second to 366 days, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(u32);

impl Window {
    /// One second.
    pub const SECOND: Self = Self(1);
    /// Sixty seconds.
    pub const MINUTE: Self = Self(60);
    /// An hour.
    pub const HOUR: Self = Self(3_600);
    /// A day of 24 hours.
    pub const DAY: Self = Self(86_400);
    /// The longest window: 366 days.
    pub const MAX: Self = Self(366 * 86_400);

    /// A window of `secs` seconds; `None` if that is 0 or more than 366 days.
    pub const fn from_secs(secs: u32) -> Option<Self> {
        if secs == 0 || secs > Self::MAX.0 {
            None
        } else {
            Some(Self(secs))
        }
    }

    /// The window's length in seconds.
    pub const fn as_secs(self) -> u32 {
        self.0
    }

    /// The window's length in microseconds: less than 2^45.
    pub const fn as_micros(self) -> u64 {
        self.0 as u64 * 1_000_000
    }
}
