//! What nobody should send: values, names and headers that make no sense, and some that do.

use serde_json::Value;
use tollward_testkit::conformance::Dice;

/// JSON, or nearly, that a schema did not ask for.
const VALUES: [&str; 30] = [
    "null",
    "true",
    "0",
    "-1",
    "1",
    "0.1",
    "-0.0",
    "1e400",
    "-1e-400",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "4294967296",
    "123456789012345678901234567890",
    "NaN",
    "\"\"",
    "\" \"",
    "\"\\u0000\"",
    "\"a\\u0000b\"",
    "\"\\ud800\"",
    "\"\\u202e\"",
    "\"\u{1f6a7}\u{301}\"",
    "\"'; DROP TABLE tenants; --\"",
    "\"%s%n%00\"",
    "\"../../etc/passwd\"",
    "\"9999999999999d\"",
    "\"9999-12-31T23:59:60Z\"",
    "{}",
    "[]",
    "[[{\"a\":[{}]}]]",
];

const NAMES: [&str; 18] = [
    "acme",
    "system",
    "partner",
    "nobody",
    ".",
    "..",
    "%2e%2e",
    "%00",
    "%ff%fe",
    "%e2%80%ae",
    "%2f",
    "a%0d%0ab",
    "%",
    "%zz",
    "*",
    "-1",
    "key_",
    "%F0%9F%9A%A7",
];

const HEADERS: [&[u8]; 14] = [
    b"",
    b"*",
    b"\"1\"",
    b"\"2\"",
    b"W/\"1\"",
    b"\"1\", \"2\"",
    b"\"99999999999999999999\"",
    b"\"-1\"",
    b"\"\"",
    b"once",
    b"twice",
    b"\xff\xfe",
    b"gzip, chunked",
    b"application/x-www-form-urlencoded",
];

/// A value that may be none.
pub(crate) fn value(dice: &mut Dice) -> Vec<u8> {
    match dice.below(40) {
        0 => b"\"\xff\xc0\x80\"".to_vec(),
        1 => nested(dice.pick(&[10, 126, 130, 5000])),
        2 => {
            let long = "x".repeat(*dice.pick(&[127, 128, 129, 5000, 70_000]));
            format!("\"{long}\"").into_bytes()
        }
        3 => vec![b'9'; *dice.pick(&[20, 400, 5000])],
        _ => dice.pick(&VALUES).as_bytes().to_vec(),
    }
}

fn nested(depth: &usize) -> Vec<u8> {
    [b"[".repeat(*depth), b"]".repeat(*depth)].concat()
}

/// A part of a path, or the value of a query.
pub(crate) fn name(dice: &mut Dice, known: &[String]) -> String {
    if !known.is_empty() && !dice.one_in(3) {
        return dice.pick(known).clone();
    }
    match dice.below(12) {
        0 => "x".repeat(*dice.pick(&[128, 129, 4000])),
        1 => "%41".repeat(*dice.pick(&[128, 129, 1000])),
        _ => (*dice.pick(&NAMES)).to_owned(),
    }
}

pub(crate) fn header(dice: &mut Dice) -> &'static [u8] {
    let chosen: &&[u8] = dice.pick(&HEADERS);
    chosen
}

/// Something like what a schema asks for, as text.
pub(crate) fn like(
    document: &Value,
    schema: &Value,
    dice: &mut Dice,
    known: &[String],
    depth: u32,
) -> Vec<u8> {
    if depth > 6 || dice.one_in(12) {
        return value(dice);
    }
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.trim_start_matches('#');
        let meant = document.pointer(pointer).unwrap_or(&Value::Null);
        return like(document, meant, dice, known, depth + 1);
    }
    for several in ["oneOf", "anyOf", "allOf", "enum"] {
        let Some(choices) = schema[several].as_array().filter(|it| !it.is_empty()) else {
            continue;
        };
        let choice = dice.pick(choices);
        return match several {
            "enum" => choice.to_string().into_bytes(),
            _ => like(document, choice, dice, known, depth + 1),
        };
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    match dice.pick(&kinds).as_str() {
        Some("object") => object(document, schema, dice, known, depth),
        Some("array") => {
            let item = like(document, &schema["items"], dice, known, depth + 1);
            [b"[", item.as_slice(), b"]"].concat()
        }
        Some("string") => string(schema, dice, known),
        Some("integer" | "number") => dice.below(5000).to_string().into_bytes(),
        Some("boolean") => dice.one_in(2).to_string().into_bytes(),
        Some("null") => b"null".to_vec(),
        _ => value(dice),
    }
}

fn string(schema: &Value, dice: &mut Dice, known: &[String]) -> Vec<u8> {
    let example = &schema["example"];
    match dice.below(4) {
        0 if !known.is_empty() => Value::from(dice.pick(known).as_str()),
        1 => Value::from(format!("name-{}", dice.below(50))),
        _ if example.is_string() => example.clone(),
        _ => {
            Value::from(*dice.pick(&["acme", "2h", "minute", "2030-01-01T00:00:00Z", "10.0.0.0/8"]))
        }
    }
    .to_string()
    .into_bytes()
}

fn object(
    document: &Value,
    schema: &Value,
    dice: &mut Dice,
    known: &[String],
    depth: u32,
) -> Vec<u8> {
    let mut text = b"{".to_vec();
    let mut member = |name: &str, value: &[u8]| {
        if text.len() > 1 {
            text.push(b',');
        }
        text.extend_from_slice(Value::from(name).to_string().as_bytes());
        text.push(b':');
        text.extend_from_slice(value);
    };
    let required = schema["required"].as_array();
    let members = schema["properties"].as_object();
    for (name, schema) in members.into_iter().flatten() {
        let is_required = required.is_some_and(|it| it.iter().any(|it| it == name));
        let left_out = if is_required { 20 } else { 2 };
        if !dice.one_in(left_out) {
            member(name, &like(document, schema, dice, known, depth + 1));
        }
    }
    if dice.one_in(10) {
        member("\u{0}odd", &value(dice));
    }
    text.push(b'}');
    text
}
