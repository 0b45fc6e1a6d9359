//! YAML text into a tree of nodes with places, within bounds.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::fault::{Fault, Place};
use super::{MAX_TEXT, json};

/// How deep lists and mappings may nest, aliases followed.
pub(crate) const MAX_DEPTH: u32 = 64;

/// How large a document may be once its aliases are followed: each value counts
/// one, and one more for every 64 bytes of text, so that an alias to a long text
/// cannot be repeated for nothing either.
pub(crate) const MAX_SIZE: u32 = 500_000;

/// Line and column, from 1; a [`Place`] without its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

const START: Mark = Mark { line: 1, column: 1 };

/// A value in the document.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) kind: Kind,
    size: u32,
    height: u32,
}

/// What a [`Node`] holds. Aliases share their nodes.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A text; `plain` if it was written without quotes.
    Scalar { text: Box<str>, plain: bool },
    /// Keys and values in the order of the text, repeated keys included.
    Map(Vec<(Rc<Node>, Rc<Node>)>),
    /// The items of a list.
    Seq(Vec<Rc<Node>>),
}

/// What a text holds, with the faults that do not keep it from being decoded.
#[derive(Debug)]
pub(crate) struct Document {
    /// An empty mapping for a text without content.
    pub(crate) root: Rc<Node>,
    pub(crate) faults: Vec<Fault>,
}

/// Reads the one document of `text`.
pub(crate) fn read(text: &str) -> Result<Document, Fault> {
    if text.len() > MAX_TEXT {
        let place = START.at("");
        let found = text.len();
        let message = format!("the text has {found} bytes, more than the {MAX_TEXT} that are read");
        return Err(Fault::new(&place, message));
    }
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if let Some((index, c)) = text.char_indices().find(|(_, c)| !is_yaml(*c)) {
        let place = end_of(text.get(..index).unwrap_or_default()).at("");
        let message = format!("the character U+{:04X} may not stand in YAML", u32::from(c));
        return Err(Fault::new(&place, message).hint("remove it"));
    }
    let text = json::without_surrogates(text);
    let mut builder = Builder::default();
    for event in Parser::new_from_str(&text) {
        let (event, span) = event.map_err(|error| syntax_fault(&error, &text))?;
        builder.event(event, span)?;
        if builder.documents > 1 {
            break;
        }
    }
    let nothing = || Rc::new(Node::new(START, Kind::Map(Vec::new())));
    Ok(Document {
        root: builder.root.unwrap_or_else(nothing),
        faults: builder.faults,
    })
}

/// The place just behind a text.
pub(crate) fn end_of(text: &str) -> Mark {
    // `\n`, `\r` and the two together each end one line.
    let breaks = text.matches(['\n', '\r']).count() - text.matches("\r\n").count();
    let line = breaks + 1;
    let last = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    let column = last.chars().count() + 1;
    Mark {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
    }
}

impl Mark {
    /// The place of this mark under a path.
    pub(crate) fn at(self, path: &str) -> Place {
        Place {
            line: self.line,
            column: self.column,
            path: path.into(),
        }
    }
}

impl From<Marker> for Mark {
    fn from(marker: Marker) -> Self {
        Self {
            line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
            column: u32::try_from(marker.col().saturating_add(1)).unwrap_or(u32::MAX),
        }
    }
}

impl Node {
    /// The text, if this is a text written without quotes.
    pub(crate) fn plain(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, plain: true } => Some(text),
            _ => None,
        }
    }

    /// Whether this is YAML's way to say nothing: empty, `~` or `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.plain(), Some("" | "~" | "null" | "Null" | "NULL"))
    }

    /// What a fault calls it; never its text.
    pub(crate) fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Scalar { .. } => "a single value",
            Kind::Map(_) => "a mapping",
            Kind::Seq(_) => "a list",
        }
    }
}

/// Puts events together, bottom up.
#[derive(Default)]
struct Builder {
    root: Option<Rc<Node>>,
    faults: Vec<Fault>,
    documents: u32,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    size: u32,
}

/// A list or mapping whose end has not come yet.
struct Open {
    mark: Mark,
    anchor: usize,
    key: Option<Rc<Node>>,
    kind: Kind,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let mark = Mark::from(span.start);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let fault = Fault::new(&mark.at(""), "a second document starts here");
                    let fault = fault.hint("keep one document in the file");
                    self.faults.push(fault);
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), mark);
                self.scalar(&text, style, anchor, mark)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), mark);
                self.open(Kind::Seq(Vec::new()), anchor, mark)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), mark);
                self.open(Kind::Map(Vec::new()), anchor, mark)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let node = Node::new(open.mark, open.kind);
                    self.place(Rc::new(node), open.anchor);
                }
                Ok(())
            }
            Event::Alias(anchor) => self.alias(anchor, mark),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        mark: Mark,
    ) -> Result<(), Fault> {
        let plain = style == ScalarStyle::Plain;
        // Where nothing is written, the key is what can be pointed at.
        let key = self.open.last().and_then(|open| open.key.as_ref());
        let mark = match key {
            Some(key) if plain && text.is_empty() => key.mark,
            _ => mark,
        };
        let is_absent = plain && text.is_empty() && self.open.is_empty();
        if is_absent {
            return Ok(());
        }
        let text = text.into();
        let node = Node::new(mark, Kind::Scalar { text, plain });
        self.spend(node.size, mark)?;
        self.place(Rc::new(node), anchor);
        Ok(())
    }

    fn open(&mut self, kind: Kind, anchor: usize, mark: Mark) -> Result<(), Fault> {
        self.spend(1, mark)?;
        self.descend(1, mark)?;
        let key = None;
        self.open.push(Open {
            mark,
            anchor,
            key,
            kind,
        });
        Ok(())
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> Result<(), Fault> {
        let Some(node) = self.anchors.get(&anchor).map(Rc::clone) else {
            return Err(Fault::new(
                &mark.at(""),
                "the alias stands inside of what it names",
            ));
        };
        self.spend(node.size, mark)?;
        self.descend(node.height, mark)?;
        self.place(node, 0);
        Ok(())
    }

    /// Puts a finished node where the document stands.
    fn place(&mut self, node: Rc<Node>, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(open) => match &mut open.kind {
                Kind::Map(entries) => match open.key.take() {
                    Some(key) => entries.push((key, node)),
                    None => open.key = Some(node),
                },
                Kind::Seq(items) => items.push(node),
                Kind::Scalar { .. } => {}
            },
        }
    }

    fn spend(&mut self, size: u32, mark: Mark) -> Result<(), Fault> {
        self.size = self.size.saturating_add(size);
        if self.size > MAX_SIZE {
            let fault = Fault::new(&mark.at(""), "the document is too large");
            return Err(match self.anchors.is_empty() {
                true => fault,
                false => fault.hint("aliases count as often as they are used; use fewer"),
            });
        }
        Ok(())
    }

    fn descend(&self, levels: u32, mark: Mark) -> Result<(), Fault> {
        let depth = u32::try_from(self.open.len()).unwrap_or(u32::MAX);
        if depth.saturating_add(levels) > MAX_DEPTH {
            return Err(too_deep(mark));
        }
        Ok(())
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, mark: Mark) {
        if tag.is_some() && self.faults.len() < super::MAX_FAULTS {
            let fault = Fault::new(&mark.at(""), "YAML tags (`!…`) are not supported");
            self.faults.push(fault.hint("remove the tag"));
        }
    }
}

impl Node {
    fn new(mark: Mark, kind: Kind) -> Self {
        let own = match &kind {
            Kind::Scalar { text, .. } => 1 + u32::try_from(text.len() / 64).unwrap_or(u32::MAX),
            _ => 1,
        };
        let (mut size, mut height) = (own, 0);
        let mut count = |child: &Node| {
            size = size.saturating_add(child.size);
            height = height.max(child.height + 1);
        };
        match &kind {
            Kind::Scalar { .. } => {}
            Kind::Seq(items) => items.iter().for_each(|item| count(item)),
            Kind::Map(entries) => entries.iter().for_each(|(key, value)| {
                count(key);
                count(value);
            }),
        }
        Self {
            mark,
            kind,
            size,
            height,
        }
    }
}

/// The characters YAML 1.2 calls printable.
fn is_yaml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..)
}

fn too_deep(mark: Mark) -> Fault {
    let message = format!("lists and mappings nest deeper than {MAX_DEPTH} levels");
    Fault::new(&mark.at(""), message)
}

fn syntax_fault(error: &ScanError, text: &str) -> Fault {
    // At the end of the text the scanner stands on a line that is not there.
    let (mark, end) = (Mark::from(*error.marker()), end_of(text));
    let mark = if mark.line > end.line { end } else { mark };
    if error.info() == "recursion limit exceeded" {
        return too_deep(mark);
    }
    let fault = Fault::new(&mark.at(""), format!("not YAML: {}", error.info()));
    let hints = [
        ("tabs disallowed", "indent with spaces"),
        (
            "simple key expect",
            "a line before this has no `:` after its key",
        ),
        (
            "mapping values are not allowed",
            "put a text with `: ` in it in quotes, or check the indentation",
        ),
        ("unexpected character", "put the text in quotes"),
        (
            "unknown anchor",
            "name an anchor (`&name`) that stands before it",
        ),
        ("unexpected end of stream", "close the quotes"),
    ];
    match hints.iter().find(|(part, _)| error.info().contains(part)) {
        Some((_, hint)) => fault.hint(*hint),
        None => fault,
    }
}
