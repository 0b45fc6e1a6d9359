//! The API as OpenAPI 3.1 tells it: made of the routes, with what all of them have in common.

use serde_json::{Map, Value, json};
use tollward_policy::config::json_schema;

use super::{GUARDED, routes};

/// The document, as JSON over several lines. The same text on every call and in every build.
pub(crate) fn document() -> String {
    let made = routes().into_openapi();
    let mut document = serde_json::to_value(made).unwrap_or_default();
    document["info"] = json!({
        "title": "Tollward admin API",
        "description": "Tenants, users, keys and limits of a Tollward, and what happens to requests there. \
            Everything under `/admin/v1` needs `Authorization: Bearer` with a token. Errors are problems as \
            RFC 9457 has them. What can be changed has an `ETag`, which a change sends back as `If-Match`. \
            Whatever makes something takes an `Idempotency-Key`.",
        "version": env!("CARGO_PKG_VERSION"),
        "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
    });
    document["security"] = json!([{ "bearer": [] }]);
    document["tags"] = tags();
    let components = &mut document["components"];
    components["securitySchemes"] = json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "TOLLWARD_ADMIN_TOKEN of the server, or a token made at /admin/v1/tokens.",
        },
    });
    components["schemas"]["Problem"] = problem();
    add_limit(&mut components["schemas"]);
    let paths = document["paths"].as_object_mut();
    for (path, item) in paths.into_iter().flatten() {
        let operations = item.as_object_mut();
        for (method, operation) in operations.into_iter().flatten() {
            complete(path, method, operation);
        }
    }
    widen(&mut document);
    // Whether serde_json sorts by itself depends on who else builds with it.
    document.sort_all_objects();
    format!("{document:#}\n")
}

fn tags() -> Value {
    let tags = [
        (
            "tenants",
            "The tree of tenants, their limits and budgets. Changes need the role `admin`.",
        ),
        ("users", "Users. Changes need the role `admin`."),
        ("keys", "API keys. Changes need the role `operate`."),
        (
            "lists",
            "The allow-list: callers that no limit applies to. The deny-list: callers that are refused. Changes need the role `operate`.",
        ),
        (
            "boosts",
            "More for a tenant or a user, for a time. Changes need the role `operate`.",
        ),
        (
            "buckets",
            "What is left of limits. Changes need the role `operate`.",
        ),
        (
            "enforcement",
            "The kill switch. Changes need the role `operate`.",
        ),
        (
            "config",
            "The configuration in force. A reload needs the role `operate`.",
        ),
        (
            "tokens",
            "Tokens of this API. All of it needs the role `admin`.",
        ),
        ("audit", "What happened, and who did it."),
        ("usage", "What was used."),
        ("explain", "What would become of a request, and why."),
        ("status", "How a node is."),
        ("open", "What needs no token."),
    ];
    let tag = |(name, description)| json!({ "name": name, "description": description });
    tags.map(tag).into_iter().collect()
}

/// A problem, with the members that some of them have.
fn problem() -> Value {
    json!({
        "type": "object",
        "description": "Why a request was not done, as RFC 9457 has it. Kinds of problems have members of their own.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string", "description": "`about:blank`: the status says it." },
            "title": { "type": "string", "description": "The status in words." },
            "status": { "type": "integer", "description": "The status." },
            "detail": { "type": "string", "description": "What went wrong this time, and what to do about it." },
            "reason": { "type": "string", "description": "The kind, for programs: `budget_exceeded`, `stale`." },
            "errors": {
                "type": "array",
                "description": "What is wrong with the values that were sent.",
                "items": {
                    "type": "object",
                    "required": ["place", "message"],
                    "properties": {
                        "place": { "type": "string", "description": "The path of the value; empty for the whole." },
                        "message": { "type": "string", "description": "What is wrong." },
                        "hint": { "type": "string", "description": "What to do about it." },
                    },
                },
            },
            "sum": { "type": "number", "description": "`budget_exceeded`: what the children would have together." },
            "budget": { "type": "integer", "description": "`budget_exceeded`: all there is to be given." },
            "ratio": { "type": "number", "description": "`budget_exceeded`: how many times that may be given." },
            "free": { "type": "number", "description": "`budget_exceeded`: what may still be given." },
            "window_secs": { "type": "integer", "description": "`budget_exceeded`: the window of these numbers." },
            "file": { "type": "string", "description": "`read_only`: the file in which it is written." },
            "place": { "type": "string", "description": "`read_only`: where in the file." },
            "hint": { "type": "string", "description": "`read_only`: what to do instead, where there is something." },
            "successor": { "type": "string", "description": "`replaced`: the id of the key that replaced it." },
            "version": { "type": "integer", "description": "`stale`: the version that there is." },
        },
    })
}

/// The schema of a limit, and what it refers to, is that of the configuration file.
fn add_limit(schemas: &mut Value) {
    let file: Value = serde_json::from_str(&json_schema()).unwrap_or_default();
    let Some(definitions) = file["$defs"].as_object() else {
        return;
    };
    let mut wanted = vec!["RateLimit".to_owned()];
    let mut added: Map<String, Value> = Map::new();
    while let Some(name) = wanted.pop() {
        let Some(definition) = definitions
            .get(&name)
            .filter(|_| !added.contains_key(&name))
        else {
            continue;
        };
        let mut definition = definition.clone();
        rename_references(&mut definition, &mut wanted);
        added.insert(name, definition);
    }
    for (name, definition) in added {
        let name = component(&name);
        schemas[name] = definition;
    }
}

/// Where a definition of the file's language is in this document.
fn component(name: &str) -> String {
    match name {
        "RateLimit" => name.to_owned(),
        name => format!("RateLimit.{name}"),
    }
}

fn rename_references(schema: &mut Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/$defs/").map(str::to_owned)
            {
                *reference = format!("#/components/schemas/{}", component(&name));
                found.push(name);
            }
            for member in members.values_mut() {
                rename_references(member, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                rename_references(item, found);
            }
        }
        _ => {}
    }
}

/// Numbers without a sign go beyond what 32 bits with one can hold.
fn widen(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(format) = members.get_mut("format")
                && *format == "int32"
            {
                *format = "int64".into();
            }
            members.values_mut().for_each(widen);
        }
        Value::Array(items) => items.iter_mut().for_each(widen),
        _ => {}
    }
}

/// What operations of a kind have in common: headers, and the problems that may come of them.
fn complete(path: &str, method: &str, operation: &mut Value) {
    if !path.starts_with(GUARDED) {
        operation["security"] = json!([]);
        return;
    }
    let has_body = operation.get("requestBody").is_some();
    if path.ends_with("/config/diff") {
        // Nothing is a configuration too.
        operation["requestBody"]["required"] = false.into();
    }
    let is_write = method != "get";
    let mut problems = vec![
        ("400", "What was sent cannot be read"),
        ("401", "The token is missing or wrong"),
        ("403", "The token's role does not allow it"),
        ("422", "What was sent makes no sense"),
        ("429", "Too many wrong tokens came from this network"),
        (
            "503",
            "The directory, or whatever else it takes, cannot be used right now",
        ),
    ];
    if has_body {
        problems.push(("408", "The body did not arrive in time"));
        problems.push(("413", "The body is too long"));
    }
    if is_write && !path.contains("/config") && !path.contains("/buckets") {
        problems.push(("409", "Somebody else changed the same just now"));
    }
    let name = operation["operationId"].as_str().unwrap_or_default();
    let name = name.to_owned();
    let is_change = matches!(method, "put" | "patch" | "delete")
        || matches!(&*name, "rotate_key" | "revoke_key")
        || name.starts_with("suspend_")
        || name.starts_with("resume_");
    if is_change {
        problems.push(("412", "It has another version than the one that was meant"));
        problems.push(("428", "`If-Match` is missing"));
        add_header(
            operation,
            "If-Match",
            true,
            "The `ETag` of what is to be changed, or `*`.",
            "^(\\*|\"[0-9]+\")$",
        );
    }
    if name.starts_with("create_") || name == "rotate_key" {
        let words =
            "The same request with the same key is done once: it is answered again, for 24 hours.";
        add_header(operation, "Idempotency-Key", false, words, "^[ -~]{1,255}$");
    }
    let responses = &mut operation["responses"];
    for (status, description) in problems {
        if responses.get(status).is_none() {
            responses[status] = json!({ "description": description });
        }
    }
    for (status, response) in responses.as_object_mut().into_iter().flatten() {
        if status.starts_with('4') || status.starts_with('5') {
            response["content"] = json!({
                "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } },
            });
        }
    }
}

fn add_header(operation: &mut Value, name: &str, required: bool, description: &str, pattern: &str) {
    let header = json!({
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": { "type": "string", "pattern": pattern },
    });
    match operation["parameters"].as_array_mut() {
        Some(parameters) => parameters.push(header),
        None => operation["parameters"] = json!([header]),
    }
}
