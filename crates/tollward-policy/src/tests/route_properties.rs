//! The router against a matcher that looks at every pattern.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::path::PathOptions;
use crate::router::{Pattern, Router};

/// A pattern as it is written: a method, and segments of which `*` and `**` are special.
#[derive(Clone, Debug)]
struct Written {
    method: Option<&'static str>,
    segments: Vec<&'static str>,
}

impl Written {
    fn text(&self) -> String {
        let path = format!("/{}", self.segments.join("/"));
        match self.method {
            Some(method) => format!("{method} {path}"),
            None => path,
        }
    }

    /// How specific it is for a path, segment by segment; none if it does not match.
    fn specificity(&self, path: &[&str]) -> Option<Vec<u8>> {
        let mut ranks = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            match (*segment, path.get(index)) {
                ("**", _) => {
                    ranks.push(0);
                    return Some(ranks);
                }
                ("*", Some(_)) => ranks.push(1),
                (literal, Some(name)) if literal == *name => ranks.push(2),
                _ => return None,
            }
        }
        ranks.push(1);
        (self.segments.len() == path.len()).then_some(ranks)
    }

    fn method_rank(&self, method: &str) -> Option<u8> {
        match self.method {
            None => Some(0),
            Some("GET") if method == "HEAD" => Some(1),
            Some(own) => (own == method).then_some(2),
        }
    }
}

/// The route that is best by path first and method second.
fn best(routes: &[Written], path: &[&str], method: &str) -> Option<usize> {
    best_of(routes, |_| true, path, method)
}

/// The same, of those that are accepted.
fn best_of(
    routes: &[Written],
    accepted: impl Fn(usize) -> bool,
    path: &[&str],
    method: &str,
) -> Option<usize> {
    let candidates = routes.iter().enumerate().filter(|(id, _)| accepted(*id));
    let candidates = candidates.filter_map(|(id, route)| {
        let rank = (route.specificity(path)?, route.method_rank(method)?);
        Some((rank, id))
    });
    candidates.max().map(|(_, id)| id)
}

const METHODS: [&str; 4] = ["GET", "HEAD", "POST", "BREW"];

fn route() -> impl Strategy<Value = Written> {
    let segments = vec(select(&["a", "b", "c", "*"][..]), 0..4);
    let method = option::of(select(&["GET", "HEAD", "POST"][..]));
    (method, segments, any::<bool>()).prop_map(|(method, mut segments, rest)| {
        segments.extend(rest.then_some("**"));
        Written { method, segments }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_router_finds_what_looking_at_all_finds(
        written in vec(route(), 1..12),
        paths in vec(vec(select(&["a", "b", "c", "d", "*"][..]), 0..5), 8),
    ) {
        let mut router = Router::default();
        let mut routes: Vec<Written> = Vec::new();
        for route in written {
            let pattern = Pattern::parse(&route.text(), PathOptions::default());
            let pattern = pattern.expect("the pattern is sound");
            prop_assert_eq!(pattern.to_string(), route.text());
            let same = |other: &Written| other.text() == route.text();
            match (router.insert(&pattern, routes.len()), routes.iter().position(same)) {
                (Ok(()), None) => routes.push(route),
                (Err(found), first) => prop_assert_eq!(Some(found), first),
                (Ok(()), Some(_)) => prop_assert!(false, "{} was taken twice", route.text()),
            }
        }
        for path in &paths {
            for method in METHODS {
                let found = router.find(path, Some(method), |_| true, |one, _| one);
                prop_assert_eq!(found, best(&routes, path, method), "{} {:?}", method, path);
            }
            // Of every other route only: the search goes on where one is not accepted.
            let accepted = |id: usize| id.is_multiple_of(2);
            for method in METHODS {
                let found = router.find(path, Some(method), accepted, |one, _| one);
                let expected = best_of(&routes, accepted, path, method);
                prop_assert_eq!(found, expected, "{} {:?}", method, path);
            }
            let strictest = METHODS.iter().filter_map(|it| best_of(&routes, accepted, path, it)).max();
            let found = router.find(path, None, accepted, |one, other| one.max(other));
            prop_assert_eq!(found, strictest, "{:?}", path);
            // Any order will do for strictness; this one is unlike the order of specificity.
            let strictest = METHODS.iter().filter_map(|method| best(&routes, path, method)).max();
            let found = router.find(path, None, |_| true, |one, other| one.max(other));
            prop_assert_eq!(found, strictest, "{:?}", path);
        }
    }
}
