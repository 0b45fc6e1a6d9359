use tracing::warn;

/// What was logged of a loss: the cause once, and another one only when it stays.
#[derive(Default)]
pub(crate) struct Trail {
    told: Option<String>,
    latest: String,
    times: u32,
}

impl Trail {
    /// Takes note of a cause, and logs it if it is news.
    pub(crate) fn tell(&mut self, name: &str, cause: String) {
        const STAYS: u32 = 3;
        self.times = if self.latest == cause {
            self.times.saturating_add(1)
        } else {
            1
        };
        let is_new = match &self.told {
            None => true,
            Some(told) => *told != cause && self.times == STAYS,
        };
        if is_new {
            warn!(redis = %name, %cause, "Redis is not asked: `on_failure` decides");
            self.told = Some(cause.clone());
        }
        self.latest = cause;
    }

    /// The loss is over: whether it was logged.
    pub(crate) fn end(&mut self) -> bool {
        std::mem::take(self).told.is_some()
    }
}
