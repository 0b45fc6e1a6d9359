//! The document of the API.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::desk::served;
use crate::served::{get, json};

#[test]
fn the_document_that_is_served_is_the_committed_one() {
    let served = served();
    let answer = get(served.admin, "/admin/openapi.json");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed = fs::read_to_string(path).unwrap();
    assert_eq!(
        answer.text(),
        committed,
        "write it anew with `cargo xtask schema`"
    );
}

#[test]
fn references_lead_somewhere_and_operations_are_told_apart() {
    let served = served();
    let document = json(&get(served.admin, "/admin/openapi.json"));
    assert_eq!(document["openapi"], "3.1.0");
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let mut names = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            names.push(operation["operationId"].as_str().unwrap().to_owned());
            for member in ["summary", "tags"] {
                assert!(
                    !operation[member].is_null(),
                    "{method} {path} has no {member}"
                );
            }
            if path.starts_with("/admin/v1/") {
                let responses = operation["responses"].as_object().unwrap();
                for status in ["401", "403", "429", "503"] {
                    let problem = &responses[status]["content"]["application/problem+json"];
                    assert!(!problem.is_null(), "{method} {path} {status}");
                }
            }
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                references.push(reference.clone());
            }
            members
                .values()
                .for_each(|member| collect(member, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}
