//! Nodes into values, every fault collected on the way.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::marker::PhantomData;

use serde_json::{Value as Json, json};

use super::fault::{Fault, Place, Spanned, did_you_mean, quoted, shown};
use super::schema::Defs;
use super::yaml::{Kind, Mark, Node};
use super::{MAX_FAULTS, Named};

/// A way to write a value: what it decodes to, and its JSON Schema.
///
/// Structs and enums of the language implement it themselves; a number, a name or a
/// list has a marker type that says which numbers or names may be written.
pub(crate) trait Decode {
    /// What comes of it.
    type Value;

    /// The value of a node that is not null; `None` once a fault has been reported. Parts that can be
    /// left out are left out when they are faulty, so a value may come with faults.
    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value>;

    /// The schema of what [`Decode::decode`] takes.
    fn schema(defs: &mut Defs) -> Json;

    /// What may be written, as it stands behind "expected" or "write".
    fn expected() -> String;
}

/// Where decoding stands, and the faults so far.
#[derive(Debug, Default)]
pub(crate) struct Context {
    path: String,
    faults: Vec<Fault>,
    uncounted: usize,
}

impl Context {
    /// Faults kept for sorting; beyond them faults are only counted.
    const KEPT: usize = 10 * MAX_FAULTS;

    pub(crate) fn push(&mut self, fault: Fault) {
        if self.is_full() {
            self.uncounted += 1;
        } else {
            self.faults.push(fault);
        }
    }

    /// Reports a fault at a node; gives `None` to return.
    pub(crate) fn fault<T>(&mut self, node: &Node, message: impl Into<String>) -> Option<T> {
        let fault = Fault::new(&self.place(node), message);
        self.push(fault);
        None
    }

    /// Reports a fault with a hint at a node; gives `None` to return.
    pub(crate) fn fault_with<T>(
        &mut self,
        node: &Node,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Option<T> {
        let fault = Fault::new(&self.place(node), message).hint(hint);
        self.push(fault);
        None
    }

    /// Reports that a node is of another kind than `expected`.
    pub(crate) fn mismatch<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        self.fault(node, format!("expected {expected}, found {}", node.noun()))
    }

    /// The place of a node under the current path.
    pub(crate) fn place(&self, node: &Node) -> Place {
        node.mark.at(&self.path)
    }

    /// A value with the place of its node.
    pub(crate) fn spanned<T>(&self, node: &Node, value: T) -> Spanned<T> {
        let place = self.place(node);
        Spanned { value, place }
    }

    /// A scalar's text, and whether it was written without quotes.
    pub(crate) fn scalar<'a>(&mut self, node: &'a Node, expected: &str) -> Option<(&'a str, bool)> {
        match &node.kind {
            Kind::Scalar { text, plain } => Some((text, *plain)),
            _ => self.mismatch(node, expected),
        }
    }

    /// Decodes a node that must not be null.
    pub(crate) fn value<C: Decode>(&mut self, node: &Node) -> Option<C::Value> {
        if node.is_null() {
            return self.fault_with(node, "has no value", "remove the line or give one");
        }
        C::decode(node, self)
    }

    /// Does something one step further down, under the key `name`.
    pub(crate) fn under<T>(&mut self, name: &str, go: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !name.is_empty() && name.len() <= 64 && name.chars().all(is_word) {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
        } else {
            let _ = write!(self.path, "[\"{}\"]", shown(name));
        }
        let out = go(self);
        self.path.truncate(length);
        out
    }

    fn under_index<T>(&mut self, index: usize, go: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        let out = go(self);
        self.path.truncate(length);
        out
    }

    /// Whether further faults would only be counted.
    fn is_full(&self) -> bool {
        self.faults.len() >= Self::KEPT
    }

    /// The faults, in no order, and how many more there were.
    pub(crate) fn finish(self) -> (Vec<Fault>, usize) {
        (self.faults, self.uncounted)
    }
}

/// The fields a struct of the language has, and those it is known not to have.
#[derive(Debug)]
pub(crate) struct Record {
    /// As the Rust fields are called, and whether they are required.
    pub(crate) fields: &'static [(&'static str, bool)],
    /// Of the language, but not of this version.
    pub(crate) unsupported: &'static [&'static str],
    /// Not of the language, but likely to be tried; each with its remedy.
    pub(crate) foreign: &'static [(&'static str, &'static str)],
}

/// A field's name in the file: an underscore at the end only keeps the Rust name
/// clear of a keyword.
pub(crate) fn file_name(field: &'static str) -> &'static str {
    field.strip_suffix('_').unwrap_or(field)
}

/// The known fields found in a mapping.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    node: &'a Node,
    found: Vec<(&'a str, &'a Node)>,
}

impl<'a> Fields<'a> {
    /// Takes the known fields of a mapping and reports all others.
    pub(crate) fn read(node: &'a Node, record: &Record, cx: &mut Context) -> Option<Self> {
        let mut found = Vec::new();
        for (name, key, value) in entries(node, &record.expected(), cx)? {
            if record.names().any(|field| field == name) {
                found.push((name, value));
            } else if cx.is_full() {
                cx.uncounted += 1;
            } else if value.is_null() && record.names().any(|field| field == "url") {
                // In a flow mapping a comma ends a URL: this may be the rest of a password.
                let hint = "put the URL in quotes if it has a comma, or remove the field";
                cx.fault_with::<()>(key, "an unknown field without a value", hint);
            } else {
                cx.under(name, |cx| record.refuse(name, key, cx));
            }
        }
        Some(Self { node, found })
    }

    /// Whether a field was given, be it well or ill.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn required<C: Decode>(
        &self,
        field: &'static str,
        cx: &mut Context,
    ) -> Option<C::Value> {
        let name = file_name(field);
        match self.get(name) {
            Some(node) => cx.under(name, |cx| cx.value::<C>(node)),
            None => cx.fault_with(
                self.node,
                format!("the field `{name}` is missing"),
                format!("add `{name}`: {}", C::expected()),
            ),
        }
    }

    pub(crate) fn optional<C: Decode>(
        &self,
        field: &'static str,
        cx: &mut Context,
    ) -> Option<Option<C::Value>> {
        let name = file_name(field);
        match self.get(name) {
            // A bad one has been reported: go on without it, so that all else is looked at too.
            Some(node) => Some(cx.under(name, |cx| cx.value::<C>(node))),
            None => Some(None),
        }
    }

    pub(crate) fn defaulted<C: Decode<Value: Default>>(
        &self,
        field: &'static str,
        cx: &mut Context,
    ) -> Option<C::Value> {
        Some(self.optional::<C>(field, cx)?.unwrap_or_default())
    }

    fn get(&self, name: &str) -> Option<&'a Node> {
        let found = self.found.iter().find(|(found, _)| *found == name)?;
        Some(found.1)
    }
}

impl Record {
    /// What may be written: a mapping, with the fields it cannot be without.
    pub(crate) fn expected(&self) -> String {
        let required = self.fields.iter().filter(|(_, required)| *required);
        let required: Vec<_> = required
            .map(|(field, _)| format!("`{}`", file_name(field)))
            .collect();
        if required.is_empty() {
            return "a mapping".to_owned();
        }
        format!("a mapping with {}", required.join(" and "))
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|(field, _)| file_name(field))
    }

    fn refuse(&self, name: &str, key: &Node, cx: &mut Context) -> Option<()> {
        if self.unsupported.contains(&name) {
            return cx.fault_with(key, unsupported(name), "remove it");
        }
        let message = format!("unknown field {}", quoted(name));
        if let Some((_, remedy)) = self.foreign.iter().find(|(foreign, _)| *foreign == name) {
            return cx.fault_with(key, message, *remedy);
        }
        match did_you_mean(name, self.names()) {
            Some(meant) => cx.fault_with(key, message, format!("did you mean `{meant}`?")),
            None => {
                let fields: Vec<_> = self.names().collect();
                let hint = format!("the fields here are {}", fields.join(", "));
                cx.fault_with(key, message, hint)
            }
        }
    }
}

/// The message for a word that other versions of Tollward know.
pub(crate) fn unsupported(word: &str) -> String {
    format!("`{word}` is not supported by this version of Tollward")
}

/// The entries of a mapping, each key once.
fn entries<'a>(
    node: &'a Node,
    expected: &str,
    cx: &mut Context,
) -> Option<Vec<(&'a str, &'a Node, &'a Node)>> {
    let Kind::Map(entries) = &node.kind else {
        return cx.mismatch(node, expected);
    };
    let mut first = HashMap::with_capacity(entries.len());
    let mut kept = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let Kind::Scalar { text, plain } = &key.kind else {
            cx.fault::<()>(key, format!("expected a name as key, found {}", key.noun()));
            continue;
        };
        if *plain && **text == *"<<" {
            let hint = "write the fields out, or use an alias for the whole value";
            cx.fault_with::<()>(key, "merge keys (`<<`) are not supported", hint);
            continue;
        }
        if let Some(Mark { line, column }) = first.get(&**text) {
            let message = format!("given twice, first at line {line}, column {column}");
            cx.under(text, |cx| {
                cx.fault_with::<()>(key, message, "remove one of the two")
            });
        } else {
            first.insert(&**text, key.mark);
            kept.push((&**text, &**key, &**value));
        }
    }
    Some(kept)
}

/// A list of `C`.
pub(crate) struct List<C>(PhantomData<C>);

impl<C: Decode> Decode for List<C> {
    type Value = Vec<C::Value>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let Kind::Seq(items) = &node.kind else {
            return cx.mismatch(node, &Self::expected());
        };
        let decode = |(index, item): (usize, &std::rc::Rc<Node>)| {
            cx.under_index(index, |cx| cx.value::<C>(item))
        };
        Some(items.iter().enumerate().filter_map(decode).collect())
    }

    fn schema(defs: &mut Defs) -> Json {
        json!({ "type": "array", "items": C::schema(defs) })
    }

    fn expected() -> String {
        "a list".to_owned()
    }
}

/// A rule for names the user chooses.
pub(crate) trait Name {
    /// What a name must be, as it stands behind "write"; `Err` if it is not.
    fn check(name: &str) -> Result<(), String>;

    /// The schema of such a name.
    fn schema() -> Json;
}

/// A mapping from names to `C`.
pub(crate) struct Map<N, C>(PhantomData<(N, C)>);

impl<N: Name, C: Decode> Decode for Map<N, C> {
    type Value = Named<C::Value>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let entries = entries(node, &Self::expected(), cx)?;
        let decode = |(name, key, value): (&str, &Node, &Node)| {
            cx.under(name, |cx| {
                let name = Self::name(name, key, cx);
                let value = cx.value::<C>(value);
                Some((name?, value?))
            })
        };
        Some(entries.into_iter().filter_map(decode).collect())
    }

    fn schema(defs: &mut Defs) -> Json {
        json!({
            "type": "object",
            "propertyNames": N::schema(),
            "additionalProperties": C::schema(defs),
        })
    }

    fn expected() -> String {
        "a mapping".to_owned()
    }
}

impl<N: Name, C> Map<N, C> {
    fn name(name: &str, key: &Node, cx: &mut Context) -> Option<Spanned<String>> {
        if key.is_null() {
            return cx.fault_with(key, "has no name", "put it in quotes if this is one");
        }
        if let Err(rule) = N::check(name) {
            let message = format!("{} cannot be a name", quoted(name));
            return cx.fault_with(key, message, format!("write {rule}"));
        }
        Some(cx.spanned(key, name.to_owned()))
    }
}
