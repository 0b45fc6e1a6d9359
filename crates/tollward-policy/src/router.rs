//! Which route a request matches: the most specific, not the first.

use std::collections::HashMap;
use std::fmt;

use smallvec::SmallVec;

use crate::path::{self, PathOptions};

/// A route by its place in the policy's list.
pub(crate) type RouteId = usize;

/// All patterns as a tree of segments.
///
/// At each segment a literal is more specific than `*`, and `*` than `**`; among equal paths a route
/// with a method is more specific than one without. A search visits no node twice, so no path costs
/// more than the patterns do.
#[derive(Debug, Default)]
pub(crate) struct Router {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, Node, foldhash::fast::RandomState>,
    star: Option<Box<Node>>,
    /// Routes that end here.
    here: Methods,
    /// Routes that end in `**` here.
    rest: Methods,
}

#[derive(Debug, Default)]
struct Methods {
    any: Option<RouteId>,
    named: Vec<(Box<str>, RouteId)>,
}

/// Routes by their methods, the most specific first; any other method is an empty text.
type Found<'a> = SmallVec<[(&'a str, RouteId); 4]>;

/// What a route's `match` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    method: Option<Box<str>>,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(Box<str>),
    Star,
    Rest,
}

/// Why a `match` is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternFault {
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

impl Pattern {
    /// Reads `PATH` or `METHOD PATH`.
    pub(crate) fn parse(text: &str, options: PathOptions) -> Result<Self, PatternFault> {
        let fault = |message: String, hint| PatternFault { message, hint };
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let (method, path) = match (words.next(), words.next(), words.next()) {
            (Some(path), None, None) => (None, path),
            (Some(method), Some(path), None) => (Some(method), path),
            _ => {
                return Err(fault(
                    "is not `PATH` or `METHOD PATH`".into(),
                    "write for example `/v1/jobs/**` or `POST /v1/jobs`",
                ));
            }
        };
        if let Some(method) = method
            && !is_method(method)
        {
            return Err(fault(
                format!("`{method}` is not a method"),
                "write for example `POST /v1/jobs`",
            ));
        }
        let has_escape = |escape| path.to_ascii_uppercase().contains(escape);
        if path.contains(['?', '"', ';']) || has_escape("%3B") {
            return Err(fault(
                "a route matches paths, without query, parameters or quotes".into(),
                "remove the part from `?`, `;` or `\"` on",
            ));
        }
        if has_escape("%2A") {
            return Err(fault(
                "`%2A` cannot be told from `*`".into(),
                "write `*` for one segment whatever it holds",
            ));
        }
        let comparable = path::comparable(path, options)
            .map_err(|why| fault(why.to_string(), "write for example `/v1/jobs/**`"))?;
        let parts = path::segments(&comparable);
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            segments.push(match *part {
                "*" => Segment::Star,
                "**" if index + 1 == parts.len() => Segment::Rest,
                "**" => {
                    return Err(fault(
                        "`**` stands for the rest of the path and must be last".into(),
                        "use `*` for one segment",
                    ));
                }
                part if part.contains('*') => {
                    return Err(fault(
                        format!("`{part}` mixes `*` with text"),
                        "`*` stands for a whole segment, `**` for the rest of the path",
                    ));
                }
                part => Segment::Literal(part.into()),
            });
        }
        Ok(Self {
            method: method.map(|method| method.to_ascii_uppercase().into()),
            segments,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        if self.segments.is_empty() {
            f.write_str("/")?;
        }
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Star => f.write_str("/*")?,
                Segment::Rest => f.write_str("/**")?,
            }
        }
        Ok(())
    }
}

impl Router {
    /// Adds a route; if one with the same pattern is there, gives it back instead.
    pub(crate) fn insert(&mut self, pattern: &Pattern, route: RouteId) -> Result<(), RouteId> {
        let mut node = &mut self.root;
        let mut rest = false;
        for segment in &pattern.segments {
            match segment {
                Segment::Literal(text) => node = node.literals.entry(text.clone()).or_default(),
                Segment::Star => node = node.star.get_or_insert_default(),
                Segment::Rest => rest = true,
            }
        }
        let methods = if rest { &mut node.rest } else { &mut node.here };
        methods.insert(pattern.method.as_deref(), route)
    }

    /// The most specific route of a path that is `accepted`: where one is not, the search goes on to the
    /// next less specific. Without a method, `strictest` chooses among the routes that some method
    /// would have found: a fact that is missing must not buy anything.
    pub(crate) fn find(
        &self,
        segments: &[&str],
        method: Option<&str>,
        accepted: impl Fn(RouteId) -> bool,
        strictest: impl Fn(RouteId, RouteId) -> RouteId,
    ) -> Option<RouteId> {
        match method {
            Some(method) => self.root.find(segments, method, &accepted),
            None => {
                let mut found = Found::new();
                self.root.find_all(segments, &accepted, &mut found);
                found.into_iter().map(|(_, route)| route).reduce(strictest)
            }
        }
    }
}

impl Node {
    fn find(
        &self,
        segments: &[&str],
        method: &str,
        accepted: &impl Fn(RouteId) -> bool,
    ) -> Option<RouteId> {
        let deeper = match segments.split_first() {
            None => self.here.choose(method, accepted),
            Some((first, others)) => self
                .literals
                .get(*first)
                .and_then(|node| node.find(others, method, accepted))
                .or_else(|| self.star.as_ref()?.find(others, method, accepted)),
        };
        deeper.or_else(|| self.rest.choose(method, accepted))
    }

    /// Every route that is the most specific for some method; says whether that is so for all.
    fn find_all<'a>(
        &'a self,
        segments: &[&str],
        accepted: &impl Fn(RouteId) -> bool,
        found: &mut Found<'a>,
    ) -> bool {
        let done = match segments.split_first() {
            None => self.here.all(accepted, found),
            Some((first, others)) => {
                let literal = self.literals.get(*first);
                literal.is_some_and(|node| node.find_all(others, accepted, found))
                    || (self.star.as_ref())
                        .is_some_and(|node| node.find_all(others, accepted, found))
            }
        };
        done || self.rest.all(accepted, found)
    }
}

impl Methods {
    fn insert(&mut self, method: Option<&str>, route: RouteId) -> Result<(), RouteId> {
        let Some(method) = method else {
            return match self.any {
                None => {
                    self.any = Some(route);
                    Ok(())
                }
                Some(other) => Err(other),
            };
        };
        if let Some((_, other)) = self.named.iter().find(|(name, _)| **name == *method) {
            return Err(*other);
        }
        self.named.push((method.into(), route));
        Ok(())
    }

    fn choose(&self, method: &str, accepted: &impl Fn(RouteId) -> bool) -> Option<RouteId> {
        let is_accepted = |route: &RouteId| accepted(*route);
        let named = |method: &str| {
            let named = |(name, _): &&(Box<str>, RouteId)| name.eq_ignore_ascii_case(method);
            let found = self.named.iter().find(named).map(|(_, route)| *route);
            found.filter(is_accepted)
        };
        // HEAD asks for what GET would give.
        let as_get = || named("GET").filter(|_| method.eq_ignore_ascii_case("HEAD"));
        let any = || self.any.filter(is_accepted);
        named(method).or_else(as_get).or_else(any)
    }

    /// Adds what requests find here that have found nothing yet; says whether none goes on.
    fn all<'a>(&'a self, accepted: &impl Fn(RouteId) -> bool, found: &mut Found<'a>) -> bool {
        let before = found.len();
        let named = self.named.iter().filter(|(_, route)| accepted(*route));
        for (method, route) in named {
            let mut earlier = found[..before].iter().map(|(name, _)| *name);
            let is_taken = |name| name == &**method || (name == "GET" && &**method == "HEAD");
            if !earlier.any(is_taken) {
                found.push((method, *route));
            }
        }
        let any = self.any.filter(|route| accepted(*route));
        found.extend(any.map(|route| ("", route)));
        any.is_some()
    }
}

/// A method as HTTP writes it, and no longer than any method is.
pub(crate) fn is_method(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.len() <= 32 && text.bytes().all(is_token)
}
