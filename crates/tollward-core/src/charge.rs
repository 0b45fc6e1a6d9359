use crate::Limit;

/// One limit to apply to one request.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The limit's name, as it is reported: `plan:free`, `limit:per-ip`.
    pub name: &'a str,
    /// The limit.
    pub limit: &'a Limit,
    /// Whose bucket.
    pub key: Key<'a>,
    /// The tokens asked of it. More than the limit's capacity is never admitted.
    pub cost: u64,
    /// Decide and report, but never refuse the request.
    pub shadow: bool,
    /// What holds while the shared counters cannot be reached.
    pub on_failure: OnFailure,
}

/// What becomes of a charge that the shared counters cannot decide. Within a request the stricter wins:
/// the order is from the loosest to the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnFailure {
    /// It is admitted, uncounted.
    Open,
    /// This node decides, by its share of the limit.
    #[default]
    Local,
    /// The request is not answered with a decision at all.
    Closed,
}

/// Names one bucket. Two keys are equal exactly if they name the same bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a> {
    /// What is counted: a limit's name, or `plan` for whatever plan the caller is on, so that a change
    /// of plan keeps what is spent.
    pub family: &'a str,
    /// Whose it is: the values of the limit's scope, encoded so that no two lists of values give the
    /// same bytes. Any length, any bytes.
    pub scope: &'a [u8],
}
