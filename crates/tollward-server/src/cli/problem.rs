//! What is wrong, as people want to read it.

use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::Value;

use super::client::Answer;
use super::table::{cell, printable};
use super::when::window;

/// A problem in words: what, then every fault with its place and its remedy, the arithmetic of a
/// budget, and what to do instead.
pub(super) fn in_words(said: &Answer) -> String {
    let problem = &said.json;
    let mut lines = vec![headline(said.status, problem)];
    let detail = cell(&problem["detail"]);
    let faults = problem["errors"]
        .as_array()
        .map_or(&[][..], |faults| faults);
    lines.extend(faults.iter().filter_map(|fault| fault_line(fault, &detail)));
    lines.extend(arithmetic(problem));
    lines.extend(problem["hint"].as_str().map(|hint| format!("  {hint}")));
    if let Some(secs) = said
        .headers
        .get(RETRY_AFTER)
        .and_then(|secs| secs.to_str().ok())
    {
        lines.push(format!("  try again in {secs} s"));
    }
    let lines: Vec<String> = lines.iter().map(|line| printable(line)).collect();
    lines.join("\n")
}

fn headline(status: StatusCode, problem: &Value) -> String {
    if status == StatusCode::PRECONDITION_FAILED {
        let now = match problem["version"].as_i64() {
            Some(version) => format!(", it is at version {version} now"),
            None => String::new(),
        };
        return format!(
            "{status}: somebody else changed it meanwhile{now}; nothing was done. Look at it again, and repeat \
             the command if you still want it"
        );
    }
    match problem["detail"].as_str() {
        Some(detail) => format!("{status}: {detail}"),
        None => status.to_string(),
    }
}

/// A fault, without what was said already.
fn fault_line(fault: &Value, said: &str) -> Option<String> {
    let (message, hint) = (cell(&fault["message"]), cell(&fault["hint"]));
    let place = match cell(&fault["place"]) {
        place if place.is_empty() => place,
        place => format!("{place}: "),
    };
    match (said.contains(&message), hint.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("  {place}{hint}")),
        (false, true) => Some(format!("  {place}{message}")),
        (false, false) => Some(format!("  {place}{message}; {hint}")),
    }
}

/// What of a budget there is, in one line.
fn arithmetic(problem: &Value) -> Option<String> {
    let [sum, budget, ratio, free] =
        ["sum", "budget", "ratio", "free"].map(|name| problem[name].as_number());
    let per = window(problem["window_secs"].as_u64().unwrap_or(1));
    Some(format!(
        "  sum {}, budget {} × {}, free {}, all per {per}",
        sum?, budget?, ratio?, free?
    ))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::json;

    use super::*;

    fn words(status: u16, problem: Value) -> String {
        in_words(&Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            text: String::new(),
            json: problem,
        })
    }

    #[test]
    fn every_fault_has_its_place_and_its_remedy() {
        let problem = json!({
            "title": "Unprocessable Entity",
            "detail": "The limit has 2 faults.",
            "errors": [
                { "place": "sustained.rate", "message": "0 is no rate", "hint": "write 1 or more" },
                { "place": "brust", "message": "unknown field" },
            ],
        });
        let expected = "422 Unprocessable Entity: The limit has 2 faults.\n  sustained.rate: 0 is no rate; \
                        write 1 or more\n  brust: unknown field";
        assert_eq!(words(422, problem), expected);
    }

    #[test]
    fn nothing_is_said_twice() {
        let problem = json!({
            "detail": "`plan`: there is no plan \"x\"",
            "errors": [{ "place": "plan", "message": "there is no plan \"x\"", "hint": "there are free, pro" }],
        });
        let expected =
            "422 Unprocessable Entity: `plan`: there is no plan \"x\"\n  plan: there are free, pro";
        assert_eq!(words(422, problem), expected);
    }

    #[test]
    fn budgets_come_with_their_arithmetic() {
        let problem = json!({
            "detail": "No.", "sum": 6000, "budget": 5000, "ratio": 1.2, "free": 2000, "window_secs": 60,
        });
        let expected =
            "409 Conflict: No.\n  sum 6000, budget 5000 × 1.2, free 2000, all per minute";
        assert_eq!(words(409, problem), expected);
    }

    #[test]
    fn what_to_do_instead_is_told() {
        let problem = json!({ "detail": "It is in the file.", "hint": "deny it" });
        let expected = "409 Conflict: It is in the file.\n  deny it";
        assert_eq!(words(409, problem), expected);
    }

    #[test]
    fn a_change_of_somebody_else_is_told_as_such() {
        let told = words(412, json!({ "detail": "Send `If-Match`.", "version": 4 }));
        assert!(
            told.contains("somebody else changed it meanwhile, it is at version 4 now"),
            "{told}"
        );
        assert!(!told.contains("If-Match"), "{told}");
        assert_eq!(words(500, json!(null)), "500 Internal Server Error");
    }

    #[test]
    fn a_problem_is_only_text() {
        let told = words(404, json!({ "detail": "no \u{1b}[31mkey" }));
        assert_eq!(told, "404 Not Found: no \\u{1b}[31mkey");
    }
}
