/// The most items on one page.
pub const MAX_PAGE: u32 = 1000;

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where the part before it ended: its [`Listed::next`]. The beginning, if there is none.
    pub after: Option<String>,
    /// How many items at most; at least one and at most [`MAX_PAGE`] are given, whatever is said.
    pub limit: u32,
}

impl Default for Page {
    /// The first hundred.
    fn default() -> Self {
        Self {
            after: None,
            limit: 100,
        }
    }
}

impl Page {
    fn limit(&self) -> u32 {
        self.limit.clamp(1, MAX_PAGE)
    }

    /// How many rows to ask for: one more than are given, to know whether there are more.
    pub(crate) fn probe(&self) -> u32 {
        self.limit() + 1
    }

    /// The page of what was found, which goes on behind the last item.
    pub(crate) fn cut<T>(&self, mut items: Vec<T>, name: impl Fn(&T) -> String) -> Listed<T> {
        let limit = self.limit() as usize;
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(name);
        Listed { items, next }
    }
}

/// A part of a list. What is there throughout comes exactly once on the way through all pages, whatever
/// is added or removed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// What to ask the next part with; none if this is the last.
    pub next: Option<String>,
}
