//! The JSON Schema of the language, for editors.

use serde_json::{Map, Value, json};

use super::decode::{Decode, file_name};
use super::file::File;

/// The schema of a configuration file (draft 2020-12), as JSON over several lines.
///
/// The same text on every call and in every build.
pub fn json_schema() -> String {
    let mut defs = Defs::default();
    let root = File::schema(&mut defs);
    // The file itself is the root, not one of the definitions.
    let name = root.get("$ref").and_then(Value::as_str).unwrap_or_default();
    let name = name.strip_prefix(Defs::PREFIX).unwrap_or_default();
    let mut schema = match defs.0.remove(name) {
        Some(Value::Object(file)) => file,
        _ => Map::new(),
    };
    schema.insert(
        "$schema".to_owned(),
        "https://json-schema.org/draft/2020-12/schema".into(),
    );
    schema.insert("title".to_owned(), "Tollward configuration".into());
    schema.insert("$defs".to_owned(), Value::Object(defs.0));
    let mut schema = Value::Object(schema);
    // Whether serde_json sorts by itself depends on who else builds with it.
    schema.sort_all_objects();
    format!("{schema:#}\n")
}

/// Definitions that schemas refer to by name.
#[derive(Debug, Default)]
pub(crate) struct Defs(Map<String, Value>);

impl Defs {
    const PREFIX: &str = "#/$defs/";

    /// Defines `name`, once, and gives a reference to it.
    pub(crate) fn define(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.0.contains_key(name) {
            let schema = make(self);
            self.0.insert(name.to_owned(), schema);
        }
        json!({ "$ref": format!("{}{name}", Self::PREFIX) })
    }
}

/// A field of a struct, as its schema needs it.
pub(crate) struct Field {
    /// As the Rust field is called.
    pub(crate) name: &'static str,
    /// Whether it must be given.
    pub(crate) required: bool,
    /// Its doc comment.
    pub(crate) doc: &'static str,
    /// The schema of its value.
    pub(crate) schema: Value,
}

/// The schema of a struct.
pub(crate) fn object(doc: &str, fields: Vec<Field>) -> Value {
    let required = fields.iter().filter(|field| field.required);
    let required: Vec<_> = required.map(|field| file_name(field.name)).collect();
    let mut schema = json!({
        "type": "object",
        "description": doc.trim(),
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let described = fields.into_iter().map(|field| {
        let mut schema = field.schema;
        schema["description"] = field.doc.trim().into();
        (file_name(field.name).to_owned(), schema)
    });
    schema["properties"] = Value::Object(described.collect());
    schema
}
