//! The schema, against the parser it comes from.

use serde_json::Value;

use super::super::*;
use super::shown;

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

#[test]
fn the_schema_has_every_part() {
    let schema = schema();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(schema["title"], "Tollward configuration");
    assert_eq!(schema["description"], "Tollward's configuration.");
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema.get("required").is_none());
    let fields: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 19, "{fields:?}");
    assert!(schema["properties"].get("guard").is_none());
    let plans = &schema["properties"]["plans"];
    assert_eq!(plans["additionalProperties"]["$ref"], "#/$defs/Plan");
    assert_eq!(
        plans["propertyNames"]["pattern"],
        "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
    );
    let defs = &schema["$defs"];
    assert_eq!(
        defs["Plan"]["properties"]["rate_limit"]["$ref"],
        "#/$defs/RateLimit"
    );
    assert_eq!(
        defs["RateLimit"]["required"],
        serde_json::json!(["sustained"])
    );
    assert_eq!(defs["Route"]["required"], serde_json::json!(["match"]));
    let rate = &defs["Sustained"]["properties"]["rate"];
    assert_eq!(
        (rate["minimum"].as_u64(), rate["maximum"].as_u64()),
        (Some(1), Some(4_294_967_295))
    );
    assert_eq!(rate["description"], "Cost admitted in each window.");
    let upstreams = &schema["properties"]["upstreams"];
    assert_eq!(
        upstreams["additionalProperties"]["$ref"],
        "#/$defs/Upstream"
    );
    let limit = &defs["RateLimit"]["properties"];
    assert_eq!(
        limit["strategy"]["enum"],
        serde_json::json!(["reject", "queue", "degrade"])
    );
    assert_eq!(limit["queue"]["$ref"], "#/$defs/Queue");
    assert_eq!(defs["Degrade"]["required"], serde_json::json!(["upstream"]));
    let anonymous = &defs["Identity"]["properties"]["anonymous"]["anyOf"];
    assert_eq!(anonymous[0]["enum"], serde_json::json!(["reject", "allow"]));
    assert_eq!(anonymous[1]["$ref"], "#/$defs/AnonymousPlan");
    assert_eq!(
        limit["sharing"]["enum"],
        serde_json::json!(["private", "inherit", "enforce"])
    );
    let ratio = &defs["Budget"]["properties"]["overcommit_ratio"];
    assert_eq!(
        (ratio["minimum"].as_u64(), ratio["maximum"].as_u64()),
        (Some(1), Some(2))
    );
    let expires_at = &defs["KeyEntry"]["properties"]["expires_at"];
    assert_eq!(expires_at["format"], "date-time");
    assert_eq!(
        defs["Usage"]["properties"]["retention"]["$ref"],
        "#/$defs/UsageRetention"
    );
    let words = &schema["properties"]["enforcement"]["enum"];
    assert_eq!(*words, serde_json::json!(["on", "shadow", "off"]));
}

#[test]
fn the_schema_is_the_same_text_each_time() {
    let text = json_schema();
    assert_eq!(text, json_schema());
    assert!(text.ends_with("}\n") && !text.ends_with("\n\n"));
    assert!(text.lines().count() > 200);
}

#[test]
fn every_reference_leads_somewhere() {
    fn visit(value: &Value, defs: &Value) {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let name = reference.strip_prefix("#/$defs/").unwrap();
            assert!(defs.get(name).is_some(), "{reference}");
        }
        match value {
            Value::Object(map) => map.values().for_each(|value| visit(value, defs)),
            Value::Array(items) => items.iter().for_each(|value| visit(value, defs)),
            _ => {}
        }
    }
    let schema = schema();
    visit(&schema, &schema["$defs"]);
}

#[test]
fn every_field_of_the_schema_is_known_to_the_parser() {
    for (field, _) in schema()["properties"].as_object().unwrap() {
        let found = shown(&format!("{field}: ~"));
        assert_eq!(
            found,
            [format!(
                "1:{}: {field}: has no value; remove the line or give one",
                field.len() + 3
            )]
        );
    }
}
