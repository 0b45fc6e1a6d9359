use http::header::{HeaderMap, HeaderName};

/// What an upstream may tell beside what we do, of limits of its own say: lists, to which ours are added.
const LISTS: [&str; 3] = [
    "ratelimit",
    "ratelimit-policy",
    "access-control-expose-headers",
];

/// Adds the headers of a decision to the answer of whoever served the request. What is a list gets
/// longer, so that no limit looks looser than it is; of everything else ours is what counts here.
pub fn merge_headers(ours: HeaderMap, answer: &mut HeaderMap) {
    let mut last: Option<HeaderName> = None;
    for (name, value) in ours {
        // Of several values of one name, only the first comes with it.
        let (is_first, name) = match (name, &last) {
            (Some(name), _) => (true, name),
            (None, Some(name)) => (false, name.clone()),
            (None, None) => continue,
        };
        if is_first && !LISTS.contains(&name.as_str()) {
            answer.insert(&name, value);
        } else {
            answer.append(&name, value);
        }
        last = Some(name);
    }
}
