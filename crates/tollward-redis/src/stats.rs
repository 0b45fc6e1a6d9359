use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a store has done since it was made.
#[derive(Debug, Default)]
pub struct Stats {
    /// Script calls sent.
    pub calls: Counter,
    /// Parts of requests that those calls carried.
    pub parts: Counter,
    /// Calls that were not answered in time.
    pub timeouts: Counter,
    /// Calls that ended with the connection.
    pub disconnects: Counter,
    /// Calls that the server refused.
    pub refusals: Counter,
    /// Calls whose answer made no sense. Never seen: each is a bug.
    pub bad_replies: Counter,
    /// Times that the script had to be loaded again.
    pub script_loads: Counter,
    /// Requests sent on to another node of a cluster.
    pub redirects: Counter,
    /// Requests not sent because too many were waiting.
    pub shed: Counter,
    /// Charges given back because another slot refused.
    pub compensations: Counter,
    /// Charges that could not be given back: they stay spent.
    pub compensations_lost: Counter,
    /// Times that a server stopped being asked.
    pub trips: Counter,
    /// Connections opened, or tried.
    pub connects: Counter,
    /// Tokens spent during an outage and made good since.
    pub settled: Counter,
    /// Buckets whose spending during an outage was not kept, for want of room, or because it may have been
    /// charged already.
    pub debts_dropped: Counter,
    /// Times that Redis was found to have lost its data.
    pub data_losses: Counter,
    /// Keys that Redis has evicted.
    pub evictions: Counter,
}

impl Stats {
    /// Every counter with its name and what it says.
    pub fn all(&self) -> [(&'static str, &'static str, &Counter); 17] {
        [
            ("calls", "Script calls sent", &self.calls),
            ("parts", "Requests that those calls carried", &self.parts),
            ("timeouts", "Calls not answered in time", &self.timeouts),
            (
                "disconnects",
                "Calls that ended with the connection",
                &self.disconnects,
            ),
            ("refusals", "Calls that the server refused", &self.refusals),
            (
                "bad_replies",
                "Calls whose answer made no sense",
                &self.bad_replies,
            ),
            (
                "script_loads",
                "Times that the script was loaded again",
                &self.script_loads,
            ),
            (
                "redirects",
                "Requests sent on to another node of a cluster",
                &self.redirects,
            ),
            (
                "shed",
                "Requests not sent because too many were waiting",
                &self.shed,
            ),
            (
                "compensations",
                "Requests whose charges were given back",
                &self.compensations,
            ),
            (
                "compensations_lost",
                "Charges that could not be given back",
                &self.compensations_lost,
            ),
            (
                "trips",
                "Times that a server stopped being asked",
                &self.trips,
            ),
            ("connects", "Connections opened or tried", &self.connects),
            (
                "settled",
                "Tokens of an outage that were made good",
                &self.settled,
            ),
            (
                "debts_dropped",
                "Debts of an outage that were not kept",
                &self.debts_dropped,
            ),
            (
                "data_losses",
                "Times that Redis was found to have lost its data",
                &self.data_losses,
            ),
            ("evictions", "Keys that Redis has evicted", &self.evictions),
        ]
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
