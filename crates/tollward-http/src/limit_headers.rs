use http::header::{HeaderMap, HeaderName, HeaderValue};
use tollward_engine::Decision;
use tollward_policy::ResponseOptions;

use crate::Told;

/// What an upstream may tell beside what we do, of limits of its own say: lists, to which ours are added.
const LISTS: [&str; 3] = [
    "ratelimit",
    "ratelimit-policy",
    "access-control-expose-headers",
];

/// What is told of the limits of a request that is served, until there is an answer to write it to.
#[derive(Clone, Debug, Default)]
pub struct LimitHeaders(Vec<(HeaderName, HeaderValue)>);

impl LimitHeaders {
    /// What is told of a decision.
    pub fn of(decision: &Decision<'_>, options: &ResponseOptions) -> Self {
        let mut headers = Vec::with_capacity(5);
        Told::new(decision, options).each(|name, value| headers.push((name, value)));
        Self(headers)
    }

    /// Adds it to the answer of whoever served the request. What is a list gets longer, so that no limit
    /// looks looser than it is; of everything else ours is what counts here.
    pub fn write_to(self, answer: &mut HeaderMap) {
        answer.reserve(self.0.len());
        for (name, value) in self.0 {
            if LISTS.contains(&name.as_str()) {
                answer.append(name, value);
            } else {
                answer.insert(name, value);
            }
        }
    }
}
