//! What a text says, value by value, for people who compare two of them.

use super::fault::{Fault, without_credentials};
use super::yaml::{self, Kind, Node};
use super::{read_bytes, sound, utf8};

/// Every value that a configuration gives, with its path, in the order of the text: `("plans.free.rate_limit
/// .sustained.rate", "10")`. Passwords in URLs are left out. An empty list or mapping is a value too.
///
/// # Errors
///
/// As [`parse_bytes`](super::parse_bytes): only of a text that can be read.
pub fn written(text: &[u8]) -> Result<Vec<(String, String)>, Vec<Fault>> {
    // Names in it are short then, so that paths are.
    sound(read_bytes(text))?;
    let document = utf8(text)
        .and_then(yaml::read)
        .map_err(|fault| vec![fault])?;
    let mut values = Vec::new();
    let mut path = String::new();
    collect(&document.root, &mut path, &mut values);
    Ok(values)
}

/// As deep as the document, which is bounded.
fn collect(node: &Node, path: &mut String, values: &mut Vec<(String, String)>) {
    let length = path.len();
    match &node.kind {
        Kind::Scalar { text, .. } => values.push((path.clone(), without_credentials(text))),
        Kind::Map(entries) if entries.is_empty() && !path.is_empty() => {
            values.push((path.clone(), "{}".to_owned()));
        }
        Kind::Seq(items) if items.is_empty() => values.push((path.clone(), "[]".to_owned())),
        Kind::Map(entries) => {
            for (key, value) in entries {
                if let Kind::Scalar { text, .. } = &key.kind {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(text);
                }
                collect(value, path, values);
                path.truncate(length);
            }
        }
        Kind::Seq(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                collect(item, path, values);
                path.truncate(length);
            }
        }
    }
}
