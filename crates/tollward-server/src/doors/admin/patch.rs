//! Merge patches, as RFC 7396 has them.

use serde_json::{Map, Value};

use super::failure::Failure;

/// What there is with the changes: null removes, objects are merged, all else replaces. Only `fields`
/// may be changed.
pub(super) fn patched(
    current: Map<String, Value>,
    patch: Map<String, Value>,
    fields: &[&str],
) -> Result<Value, Failure> {
    if let Some(unknown) = patch.keys().find(|name| !fields.contains(&name.as_str())) {
        let unknown = super::names::shortened(unknown);
        let listed = fields.join(", ");
        return Err(Failure::bad_input(format!(
            "There is no field {unknown:?} to change: there are {listed}."
        ))
        .with(
            "errors",
            serde_json::json!([{ "place": unknown, "message": "unknown field", "hint": format!("write one of {listed}") }]),
        ));
    }
    let mut value = Value::Object(current);
    merge(&mut value, Value::Object(patch));
    Ok(value)
}

/// As deep as the patch is, which a reader of JSON has bounded.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The table of RFC 7396, appendix A.
    #[test]
    fn the_examples_of_the_standard() {
        for (mut target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (
                json!({"a":"b","b":"c"}),
                json!({"a":null}),
                json!({"b":"c"}),
            ),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (
                json!({"a":{"b":"c"}}),
                json!({"a":{"b":"d","c":null}}),
                json!({"a":{"b":"d"}}),
            ),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (
                json!({}),
                json!({"a":{"bb":{"ccc":null}}}),
                json!({"a":{"bb":{}}}),
            ),
        ] {
            merge(&mut target, patch);
            assert_eq!(target, result);
        }
    }

    #[test]
    fn only_what_may_be_changed() {
        let patch = |value: Value| match value {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        assert!(patched(Map::new(), patch(json!({"plan": "a"})), &["plan"]).is_ok());
        // Though it would change nothing.
        assert!(patched(Map::new(), patch(json!({"paln": null})), &["plan"]).is_err());
    }
}
