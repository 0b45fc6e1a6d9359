//! Cross-origin resource sharing, as it is written.

use std::time::Duration;

use http::{HeaderName, Method};
use serde_json::{Value as Json, json};

use super::decode::{Context, Decode, List};
use super::duration::Span;
use super::fault::{Fault, Spanned, quoted};
use super::origin::Origin;
use super::record::record;
use super::scalar::Flag;
use super::schema::Defs;
use super::yaml::{Kind, Node};
use crate::router::is_method;

/// The most origins, methods or headers in one list.
const MAX_LIST: usize = 256;
/// The longest name of a header, in bytes.
const MAX_NAME: usize = 128;
/// Methods that browsers let no page send.
const FORBIDDEN: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];

record! {
    /// The pages of other origins that may call the gateway, and what they may send and read.
    pub struct Cors {
        /// Their origins: `*`, or a list such as `https://app.example.com` and `https://*.example.com`.
        origins: Vec<Spanned<Origin>> = required ListOf<Origin>,
        /// The methods that they may use; GET, HEAD and POST unless told otherwise.
        methods: Option<Vec<Spanned<Method>>> = optional ListOf<CorsMethod>,
        /// The headers that they may send; the header of API keys, Content-Type, and Authorization where
        /// it is read, unless told otherwise.
        headers: Option<Vec<Spanned<HeaderName>>> = optional ListOf<CorsHeader>,
        /// Whether they may read the headers of limits; a list of further headers that they may read
        /// besides these; `true` unless told otherwise.
        expose: Option<Expose> = optional Expose,
        /// Whether browsers may send cookies, HTTP authentication and client certificates; `false`
        /// unless told otherwise.
        credentials: Option<Spanned<bool>> = optional Flag,
        /// How long browsers may remember the answer to a preflight, up to `1d`; `10m` unless told
        /// otherwise.
        max_age: Option<Spanned<Duration>> = optional MaxAge,
    }
}

/// What a route says about cross-origin requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteCors {
    /// `none`: the gateway leaves them to the upstream.
    None,
    /// This, in place of everything that less specific routes and the file say.
    Own(Box<Cors>),
}

/// Which headers of an answer pages may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expose {
    /// Those that browsers always show.
    Nothing,
    /// The headers of limits, and these.
    Limits(Vec<Spanned<HeaderName>>),
}

impl Decode for RouteCors {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self> {
        let Kind::Scalar { text, .. } = &node.kind else {
            return Some(Self::Own(Box::new(Cors::decode(node, cx)?)));
        };
        match &**text {
            "none" => Some(Self::None),
            "off" | "false" => {
                let message = format!("unknown word {}", quoted(text));
                cx.fault_with(node, message, "write `none`")
            }
            _ => cx.mismatch(node, &Self::expected()),
        }
    }

    fn schema(defs: &mut Defs) -> Json {
        json!({ "anyOf": [{ "const": "none" }, Cors::schema(defs)] })
    }

    fn expected() -> String {
        "`none` or a mapping with `origins`".to_owned()
    }
}

impl Decode for Expose {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self> {
        if matches!(node.kind, Kind::Seq(_)) {
            return Some(Self::Limits(ListOf::<CorsHeader>::decode(node, cx)?));
        }
        Some(match Flag::decode(node, cx)?.value {
            true => Self::Limits(Vec::new()),
            false => Self::Nothing,
        })
    }

    fn schema(defs: &mut Defs) -> Json {
        let name = CorsHeader::schema(defs);
        let list =
            json!({ "type": "array", "items": name, "maxItems": MAX_LIST, "uniqueItems": true });
        json!({ "anyOf": [{ "type": "boolean" }, list] })
    }

    fn expected() -> String {
        "`true`, `false` or a list of headers".to_owned()
    }
}

/// One value, or a list of values without repeats.
struct ListOf<C>(std::marker::PhantomData<C>);

/// What may stand in such a list.
trait Listed: Decode<Value = Spanned<Self::Item>> {
    type Item;

    /// The value as people know it.
    fn name(item: &Self::Item) -> String;

    /// Checks the list as a whole.
    fn check(_list: &[Spanned<Self::Item>], _node: &Node, _cx: &mut Context) -> Option<()> {
        Some(())
    }

    /// Whether the list may be empty, and what to do if not.
    const IF_EMPTY: Option<&'static str>;
}

impl<C: Listed> Decode for ListOf<C> {
    type Value = Vec<Spanned<C::Item>>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let Kind::Seq(items) = &node.kind else {
            return Some(vec![C::decode(node, cx)?]);
        };
        if let (true, Some(hint)) = (items.is_empty(), C::IF_EMPTY) {
            return cx.fault_with(node, "the list is empty", hint);
        }
        if items.len() > MAX_LIST {
            let message = format!("{} entries, more than {MAX_LIST}", items.len());
            return cx.fault_with(node, message, "shorten the list");
        }
        let decoded = List::<C>::decode(node, cx)?;
        // Without its faulty entries it would be another list.
        let mut is_sound = decoded.len() == items.len();
        let mut list: Vec<Spanned<C::Item>> = Vec::with_capacity(decoded.len());
        for item in decoded {
            let name = C::name(&item.value);
            if list.iter().any(|earlier| C::name(&earlier.value) == name) {
                let fault = Fault::new(&item.place, format!("`{name}` is given twice"));
                cx.push(fault.hint("remove one of the two"));
                is_sound = false;
            } else {
                list.push(item);
            }
        }
        C::check(&list, node, cx)?;
        is_sound.then_some(list)
    }

    fn schema(defs: &mut Defs) -> Json {
        let item = C::schema(defs);
        let min = usize::from(C::IF_EMPTY.is_some());
        let list = json!({
            "type": "array", "items": item, "minItems": min, "maxItems": MAX_LIST, "uniqueItems": true,
        });
        json!({ "anyOf": [item, list] })
    }

    fn expected() -> String {
        format!("{}, or a list of them", C::expected())
    }
}

impl Listed for Origin {
    type Item = Self;
    const IF_EMPTY: Option<&'static str> =
        Some("name an origin such as `https://app.example.com`, or remove `cors`");

    fn name(item: &Self) -> String {
        item.text()
    }

    fn check(list: &[Spanned<Self>], _: &Node, cx: &mut Context) -> Option<()> {
        let any = list.iter().find(|origin| origin.value == Self::Any);
        if let Some(any) = any.filter(|_| list.len() > 1) {
            let fault = Fault::new(
                &any.place,
                "`*` is every origin: it cannot stand beside others",
            );
            cx.push(fault.hint("remove it, or the others"));
            return None;
        }
        Some(())
    }
}

/// A method that pages may use. Upper and lower case are not told apart, as in `match`.
struct CorsMethod;

impl Decode for CorsMethod {
    type Value = Spanned<Method>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        let name = text.to_ascii_uppercase();
        if text == "*" {
            let hint = "list the methods, such as `[GET, POST, PUT, DELETE]`";
            return cx.fault_with(node, "`*` is not a method", hint);
        }
        if FORBIDDEN.contains(&&*name) {
            let message = format!("browsers let no page send {}", quoted(&name));
            return cx.fault_with(node, message, "remove it");
        }
        let method = Method::from_bytes(name.as_bytes()).ok();
        match method.filter(|_| is_method(text)) {
            Some(method) => Some(cx.spanned(node, method)),
            None => {
                let message = format!("{} is not a method", quoted(text));
                cx.fault_with(node, message, format!("write {}", Self::expected()))
            }
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "pattern": "^[0-9A-Za-z!#$%&'+.^_`|~-]{1,32}$", "examples": ["GET", "POST"] })
    }

    fn expected() -> String {
        "a method such as `PUT`".to_owned()
    }
}

impl Listed for CorsMethod {
    type Item = Method;
    const IF_EMPTY: Option<&'static str> = Some("name a method such as `GET`, or remove the field");

    fn name(item: &Method) -> String {
        item.to_string()
    }
}

/// The name of a header that pages may send or read.
struct CorsHeader;

impl Decode for CorsHeader {
    type Value = Spanned<HeaderName>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let (text, _) = cx.scalar(node, &Self::expected())?;
        if text == "*" {
            let hint = "list the names: browsers do not take `*` for every header";
            return cx.fault_with(node, "`*` is not the name of a header", hint);
        }
        let name = HeaderName::from_bytes(text.as_bytes()).ok();
        match name.filter(|_| text.len() <= MAX_NAME) {
            Some(name) => Some(cx.spanned(node, name)),
            None => {
                let message = format!("{} cannot be the name of a header", quoted(text));
                cx.fault_with(node, message, format!("write {}", Self::expected()))
            }
        }
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "pattern": "^[0-9A-Za-z!#$%&'*+.^_`|~-]{1,128}$" })
    }

    fn expected() -> String {
        "a header such as `X-Api-Key`".to_owned()
    }
}

impl Listed for CorsHeader {
    type Item = HeaderName;
    const IF_EMPTY: Option<&'static str> = None;

    fn name(item: &HeaderName) -> String {
        item.to_string()
    }
}

/// Whole seconds, up to a day: no browser remembers a preflight for longer.
struct MaxAge;

type UpToADay = Span<0, 86_400_000>;

impl Decode for MaxAge {
    type Value = Spanned<Duration>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let age = UpToADay::decode(node, cx)?;
        if age.value.subsec_millis() != 0 {
            let hint = format!("write `{}s`", age.value.as_secs() + 1);
            return cx.fault_with(node, "`max_age` is in whole seconds", hint);
        }
        Some(age)
    }

    fn schema(defs: &mut Defs) -> Json {
        UpToADay::schema(defs)
    }

    fn expected() -> String {
        "`0s` to `1d`".to_owned()
    }
}
